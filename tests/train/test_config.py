"""Settings: the paper's defaults, TOML, overrides, and errors that say what to do."""

import dataclasses
import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import InputError, UnknownName, UsageError
from medcoder.train.config import (
    LossConfig,
    OptimiserConfig,
    RelationConfig,
    SamplerConfig,
    ScheduleConfig,
    TrainConfig,
    load,
    to_toml,
)


def save(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_defaults_are_the_papers():
    config = load(None)
    assert config == TrainConfig()
    assert (config.sampler.k, config.sampler.m, config.optimiser.accumulation) == (128, 8, 8)
    assert (config.pooling, config.max_length) == ("cls", 32)
    four = (2.0, 50.0, 0.5, 0.1)
    for loss in (config.loss, config.relation.loss):
        assert tuple(loss.options.values()) == four
        assert loss.kind == "multi_similarity"
    assert (config.sampler.pairs, config.sampler.languages, config.sampler.hard_every) == (0, (), 0)
    assert config.sampler.extra_share == 0
    assert (config.relation.mu, config.relation.form, config.relation.labels) == (
        1.0,
        "bilinear",
        "tail",
    )
    assert config.optimiser.learning_rate == 2e-5
    assert dataclasses.astuple(config.schedule) == ("steps", 10_000, 100_000)


def test_the_translation_ablation_can_be_written(tmp_path):
    path = save(
        tmp_path,
        """
        [relation]
        form = "translation"
        mu = 0.1
        loss = { alpha = 0.2, beta = 5, lam = -28 }
        """,
    )
    relation = load(path).relation
    assert (relation.form, relation.mu) == ("translation", 0.1)
    assert relation.loss == LossConfig(alpha=0.2, beta=5, lam=-28, eps=0.1)
    assert load(path).loss == LossConfig()


def test_overrides_go_after_the_file(tmp_path):
    path = save(tmp_path, "seed = 7\n[sampler]\nk = 256\nm = 16\n[schedule]\ntotal = 20_000\n")
    config = load(path, ["sampler.m=4", "schedule.unit=updates", "bf16 = false", "sampler.m=8"])
    assert config.seed == 7
    assert config.sampler == SamplerConfig(k=256, m=8)
    assert config.schedule == ScheduleConfig(unit="updates", warmup=10_000, total=20_000)
    assert config.bf16 is False


def test_rules_hold_for_the_whole_not_for_the_file_alone(tmp_path):
    path = save(tmp_path, "[sampler]\nk = 16\n")
    assert load(path, ["sampler.m=4"]).sampler == SamplerConfig(k=16, m=4)
    with pytest.raises(UsageError, match=r"^sampler\.m is 8 with k = 16"):
        load(path)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("optimiser.learning_rate=1e-4", 1e-4),
        ("optimiser.learning_rate=1", 1),
        ("optimiser={learning_rate=0.5}", 0.5),
    ],
)
def test_override_values_are_toml(override, value):
    assert load(None, [override]).optimiser.learning_rate == value


@pytest.mark.parametrize("text", ["mean", '"mean"', "'mean'", " mean "])
def test_bare_and_quoted_strings(text):
    assert load(None, [f"pooling={text}"]).pooling == "mean"


def test_an_override_sets_one_key_only():
    with pytest.raises(UsageError, match="pooling is"):
        load(None, ["pooling='mean'\nseed = 3"])


def test_byte_order_mark(tmp_path):
    assert load(save(tmp_path, "\ufeffseed = 3\r\n")).seed == 3


@pytest.mark.parametrize("override", ["seed", "=3", "", " = 3"])
def test_overrides_need_a_key_and_a_value(override):
    with pytest.raises(UsageError, match="write it as key=value"):
        load(None, [override])


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sampler.kk", "sampler.k"),
        ("sampelr.m", "sampler"),
        ("pooing", "pooling"),
        ("optimizer.learning_rate", "optimiser"),
        ("k", "sampler.k"),
        ("sampler.alpha", "loss.alpha"),
        ("zzz", None),
    ],
)
def test_unknown_keys(tmp_path, key, meant):
    hint = f"did you mean {meant!r}?" if meant else "There are: pooling, max_length, bf16"
    path = save(tmp_path, f"{key} = 1\n")
    for origin, arguments in [(path, (path,)), (f"--set {key}=1", (None, [f"{key}=1"]))]:
        with pytest.raises(UnknownName) as caught:
            load(*arguments)
        assert str(caught.value).startswith(f"{origin}: no setting {key.split('.')[0]!r}"[:-1])
        assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sampler.k=64.0", "sampler.k is 64.0: expected a whole number"),
        ("sampler.k=true", "sampler.k is True: expected a whole number"),
        ("sampler.k=many", "sampler.k is 'many': expected a whole number"),
        ("loss.alpha=true", "loss.alpha is True: expected a number"),
        ("loss.alpha=.5", "loss.alpha is '.5': expected a number"),
        ("loss.alpha=2020-01-01", "expected a number"),
        ("bf16=1", "bf16 is 1: expected true or false"),
        ("bf16=True", "bf16 is 'True': expected true or false"),
        ("pooling=max", "pooling is 'max': expected one of cls, mean, legacy"),
        ("pooling=[]", "pooling is []: expected one of cls, mean, legacy"),
        ("schedule.unit=1", "schedule.unit is 1: expected one of steps, updates"),
        ("loss=3", "loss is 3: expected a table of settings"),
        ("sampler.k.x=1", "sampler.k is {'x': 1}: expected a whole number"),
    ],
)
def test_wrong_types(tmp_path, override, message):
    with pytest.raises(UsageError) as caught:
        load(None, [override])
    assert str(caught.value).startswith(f"--set {override}: ")
    assert message in str(caught.value)


def test_wrong_type_in_a_file_names_the_file(tmp_path):
    path = save(tmp_path, '[loss]\nalpha = "2"\n')
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: loss.alpha is '2': expected a number"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sampler.m=1", "sampler.m is 1 with k = 128: it must be from 2 to the square root of k"),
        ("sampler.m=12", "make k at least 144"),
        ("sampler.k=3", "sampler.k is 3: it must be at least 4"),
        ("sampler.k=129", "sampler.k is 129: it must be a multiple of sampler.m = 8"),
        ("sampler.extra_share=-0.1", "sampler.extra_share is -0.1: it must be from 0 to 1"),
        ("sampler.extra_share=1.5", "sampler.extra_share is 1.5: it must be from 0 to 1"),
        ("sampler.extra_share=nan", "sampler.extra_share is nan: it must be"),
        ("sampler.extra_share=0.5", "sampler.extra_share is 0.5: it needs sampler.pairs"),
        ("sampler.extra_anchored=2", "sampler.extra_anchored is 2: it must be from 0 to 1"),
        ("sampler.extra_anchored=0.5", "sampler.extra_anchored is 0.5: it needs sampler.pairs"),
        ("sampler.pair_power=-1", "sampler.pair_power is -1: it must be at least 0"),
        ("sampler.pair_power=0.5", "sampler.pair_power is 0.5: it needs sampler.pairs"),
        ("sampler.hard_every=100", "sampler.hard_every is 100: it needs sampler.pairs"),
        ("loss.alpha=0", "loss.alpha is 0: it must be above 0"),
        ("loss.beta=nan", "loss.beta is nan: it must be above 0 and finite. The default is 50.0"),
        ("loss.lam=inf", "loss.lam is inf: it must be finite"),
        ("relation.loss.lam=-inf", "relation.loss.lam is -inf: it must be finite"),
        ("loss.lam=nan", "loss.lam is nan: it must be finite"),
        ("relation.loss.eps=-0.1", "relation.loss.eps is -0.1: it must be at least 0"),
        ("relation.mu=-1", "relation.mu is -1: it must be at least 0"),
        ("relation.rank=0", "relation.rank is 0: it must be at least 1"),
        ("optimiser.clip=inf", "optimiser.clip is inf: it must be above 0 and finite"),
        ("optimiser.accumulation=0", "optimiser.accumulation is 0: it must be at least 1"),
        ("schedule.warmup=100001", "schedule.warmup is 100001, above the total of 100000"),
        ("max_length=2", "max_length is 2: it must be at least 3"),
        ("seed=-1", "seed is -1: it must be at least 0"),
        ("checkpoint_every=0", "checkpoint_every is 0: it must be at least 1"),
    ],
)
def test_ranges(override, message):
    with pytest.raises(UsageError) as caught:
        load(None, [override])
    assert message in str(caught.value)


@pytest.mark.parametrize("k", [4, 15, 16, 20, 132, 10**40])
def test_m_goes_up_to_the_square_root_of_k(k):
    root = max(n for n in (2, 3, 4, 11, 10**20) if n * n <= k)
    assert SamplerConfig(k=k, m=root).m == root
    with pytest.raises(UsageError, match="square root"):
        SamplerConfig(k=k, m=root + 1)


def test_settings_made_in_python_are_checked_too():
    with pytest.raises(UnknownName, match=r"^form: no relation form is called 'linear'.*bilinear"):
        RelationConfig(form="linear")
    with pytest.raises(UsageError, match="loss is None: expected a table"):
        RelationConfig(loss=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().seed = 1


@pytest.mark.parametrize(
    "text",
    ["seed = ", "seed = 1\nseed = 2\n", "[loss\n", f"seed = {'1' * 5000}", f"seed = {'[' * 5000}"],
    ids=["no value", "twice", "cut off", "a number without end", "nested"],
)
def test_files_that_are_not_toml(tmp_path, text):
    with pytest.raises(InputError, match="is not TOML"):
        load(save(tmp_path, text))


def test_a_path_in_any_letters_is_read_back(tmp_path):
    config = load(None, ["objective.names.table=😀.tsv", "objective.names.vectors=é.npy"])
    assert load(save(tmp_path, to_toml(config))) == config


def test_a_file_that_is_not_utf8(tmp_path):
    with pytest.raises(InputError, match="row 1: byte 0xff is not UTF-8"):
        load(save(tmp_path, b"seed = '\xff'"))


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "absent.toml")


def test_every_setting_is_written():
    parsed = tomllib.loads(to_toml(TrainConfig()))
    plain = json.loads(json.dumps(dataclasses.asdict(TrainConfig())))
    del plain["objective"]  # of which there is nothing yet
    for table in (plain, plain["relation"]):
        table["loss"] |= table["loss"].pop("options")
    assert parsed == plain


POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False) | st.integers(1, 2**62)
NATURAL = st.floats(min_value=0, allow_infinity=False) | st.integers(0, 2**62)
COUNT = st.integers(1, 2**62)
LOSSES = st.builds(
    LossConfig,
    alpha=POSITIVE,
    beta=POSITIVE,
    lam=st.floats(allow_nan=False, allow_infinity=False),
    eps=NATURAL,
)
CONFIGS = st.builds(
    TrainConfig,
    pooling=st.sampled_from(["cls", "mean", "legacy"]),
    max_length=st.integers(3, 2**62),
    bf16=st.booleans(),
    seed=st.integers(0, 2**62),
    checkpoint_every=COUNT,
    evaluate_every=COUNT,
    sampler=st.integers(2, 2**31).flatmap(
        lambda m: st.builds(
            SamplerConfig,
            m=st.just(m),
            k=st.integers(m, 2**32).map(lambda times: times * m),
            pairs=COUNT,
            extra_share=st.floats(0, 1),
            extra_anchored=st.floats(0, 1),
            pair_power=st.floats(0, 4),
            hard_every=st.integers(0, 2**62),
        )
    ),
    loss=LOSSES,
    relation=st.builds(
        RelationConfig,
        mu=NATURAL,
        form=st.sampled_from(["bilinear", "diagonal", "low-rank", "translation"]),
        rank=COUNT,
        labels=st.sampled_from(["tail", "exact"]),
        init_scale=NATURAL,
        learning_rate=POSITIVE,
        dense=st.booleans(),
        loss=LOSSES,
    ),
    optimiser=st.builds(
        OptimiserConfig,
        learning_rate=POSITIVE,
        weight_decay=NATURAL,
        accumulation=COUNT,
        clip=POSITIVE,
    ),
    schedule=COUNT.flatmap(
        lambda total: st.builds(
            ScheduleConfig,
            unit=st.sampled_from(["steps", "updates"]),
            warmup=st.integers(0, total),
            total=st.just(total),
        )
    ),
)


@settings(deadline=None)
@given(CONFIGS)
def test_round_trip(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("config") / "run.toml"
    path.write_text(to_toml(config), "utf-8")
    assert load(path) == config


@settings(deadline=None)
@given(CONFIGS)
def test_every_setting_can_be_set_by_override(config):
    def pairs(table, prefix=""):
        for name, value in table.items():
            if isinstance(value, dict):
                yield from pairs(value, f"{prefix}{name}.")
            else:
                plain = isinstance(value, bool | list)
                yield f"{prefix}{name}={json.dumps(value) if plain else value}"

    assert load(None, list(pairs(tomllib.loads(to_toml(config))))) == config
