"""The page of the description, whose examples work."""

from medcoder.serve.api.reference import TABLE as WARD
from medcoder.serve.api.reference import example, operations
from medcoder.serve.settings import Settings
from support.judged import RECALIBRATION
from support.mapped import write_concepts
from support.served import client, made, map_it, send_concepts, until, upload


def test_examples_of_the_description_work(rest, project, tmp_path):
    first = next(iter(rest.app.state.serving.projects()))
    for _ in range(2):  # that the examples can undo
        path = f"/v1/projects/{first}/terms/1/decision"
        assert rest.post(path, json={"concept": None, "who": "ann"}).status_code == 200
    with rest.app.state.serving.open(first) as opened:
        opened.put(recalibrations=[RECALIBRATION])
    done = 0
    for method, route, _ in operations(rest.get("/openapi.json").json()):
        one = example(rest.app.state.serving, method, route)
        if one.file == "CONCEPT.csv":
            answer = send_concepts(rest, write_concepts(tmp_path))
        elif one.file:
            answer = upload(rest, WARD.encode(), one.file)
        else:
            answer = rest.request(method, one.path, json=one.body)
        assert answer.status_code in (200, 201, 202), (one, answer.text)
        done += 1
    assert done > 20
    until(lambda: not any(job.active for job in rest.app.state.serving.jobs.all()))


def test_the_page_of_the_description(rest):
    page = rest.get("/docs").text
    for method, route, _ in operations(rest.get("/openapi.json").json()):
        assert f"<h3>{method} {route}</h3>" in page
    assert "<script" not in page
    assert "style=" not in page
    assert "heart attack" in page
    assert rest.get("/docs/style.css").headers["content-type"].startswith("text/css")


def test_examples_name_nothing_that_a_token_guards(many_index, normalizer, tmp_path):
    settings = Settings(token="a token of many letters")
    app = made(many_index, tmp_path, normalizer=normalizer, settings=settings)
    asked = {"authorization": f"Bearer {settings.token}"}
    with client(app, headers=asked) as rest:
        sent = upload(rest).json()["upload"]
        project = map_it(rest)
        page = rest.get("/docs", headers={"authorization": ""})
    assert page.status_code == 200
    assert "projects/ward/terms" in page.text
    for number in (sent, project, app.state.serving.uploads.last()):
        assert number not in page.text
