"""What the service counts."""

from prometheus_client.parser import text_string_to_metric_families

from medcoder.serve.metrics import Metrics


def test_metrics(rest):
    asked = {"route": "/healthz", "method": "GET", "status": "200"}
    before = _samples(rest, "medcoder_requests_total", asked) or [0]
    assert rest.get("/healthz").json() == {"ok": True}
    assert _samples(rest, "medcoder_requests_total", asked) == [before[0] + 1]
    assert _samples(rest, "medcoder_ready") == [1]
    buckets = _samples(rest, "medcoder_request_seconds_bucket", {"route": "/healthz"})
    assert buckets == sorted(buckets)
    assert buckets[-1] == before[0] + 1
    assert "_created" not in rest.get("/metrics").text


def test_applications_count_apart():
    first, second = Metrics(), Metrics()
    first.count_call("embed", 2, 5)
    assert 'medcoder_batch_strings_sum{call="embed"} 5.0' in first.text({})
    assert "embed" not in second.text({"medcoder_ready": ("Whether it is loaded.", 0)})


def _samples(rest, name, labels=None):
    """Values of the samples of that name with these labels."""
    return [
        sample.value
        for family in text_string_to_metric_families(rest.get("/metrics").text)
        for sample in family.samples
        if sample.name == name and (labels or {}).items() <= sample.labels.items()
    ]
