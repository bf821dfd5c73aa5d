"""Settings of a training run: frozen dataclasses, read from TOML and `--set key=value`.

Defaults are those of CODER_ENG. Each says where it comes from: a section of the paper, or "ours"
where the paper gives none.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from medcoder.errors import InputError, UnknownName, UsageError


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """What a step sees."""

    k: int = 128  # triplets a step (paper, Training settings of CODER)
    m: int = 8  # times that each triplet is repeated (paper, Training settings of CODER)
    # Concepts more a step, each with two of its terms, for the term-term loss alone (ours).
    pairs: int = 0
    languages: tuple[str, ...] = ()  # draw terms of these alone; none: all (ours)
    terms_per_language: int = 0  # of a concept, its best; 0: all (ours)
    relation_power: float = 1.0  # a relation with n edges is drawn as n to this power (ours)
    extra_share: float = 0.0  # part of the pairs from concepts with extra terms (ours)
    # How often a pair of such a concept is an extra term and one of the graph (ours).
    extra_anchored: float = 0.0
    pair_power: float = 0.0  # a concept with n terms is drawn for a pair as n to this power (ours)
    # Draw half of the pairs near the others, by an index of the model made anew every so many
    # steps; 0: never (ours).
    hard_every: int = 0

    def __post_init__(self) -> None:
        _check(self, k=4, pairs=0, terms_per_language=0, relation_power=0, hard_every=0)
        _check(self, pair_power=0)
        for name in ("extra_share", "extra_anchored"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}: it must be from 0 to 1")
        # The bounds are of the paper, The contrastive learning framework for KG with synonyms.
        if not 2 <= self.m <= math.isqrt(self.k):
            raise UsageError(
                f"m is {self.m} with k = {self.k}: it must be from 2 to the square root of k, "
                f"here {math.isqrt(self.k)}. Change m, or make k at least {max(self.m, 2) ** 2}"
            )
        if self.k % self.m:
            raise UsageError(f"k is {self.k}: it must be a multiple of sampler.m = {self.m}")
        for name in ("extra_share", "extra_anchored", "pair_power", "hard_every"):
            if getattr(self, name) and not self.pairs:
                raise UsageError(
                    f"{name} is {getattr(self, name)}: it needs sampler.pairs, on which it "
                    "acts, and they are 0. Set them, or leave it out"
                )


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Multi-Similarity loss (paper, Training settings of CODER)."""

    alpha: float = 2.0  # sharpness over positives
    beta: float = 50.0  # sharpness over negatives
    lam: float = 0.5  # lambda: the similarity that divides the two; may be negative
    eps: float = 0.1  # epsilon: margin of the mining
    kind: Literal["multi_similarity", "info_nce"] = "multi_similarity"
    temperature: float = 0.05  # of info_nce, which knows none of the four above (ours)

    def __post_init__(self) -> None:
        _check(self, above_zero=("alpha", "beta", "temperature"), eps=0)


@dataclass(frozen=True, kw_only=True)
class RelationConfig:
    """The term-relation-term loss."""

    mu: float = 1.0  # its weight; 0 leaves it out (paper, Training settings of CODER)
    # A full matrix M_r (paper, The contrastive learning framework for KG with synonyms) or the
    # TransE-like "translation" (paper, Ablation study); the others are ours.
    form: Literal["bilinear", "diagonal", "low-rank", "translation"] = "bilinear"
    rank: int = 32  # of U and V in "low-rank" (ours)
    # A pair is positive when its tails are equal, or when the graph has the triplet (both paper,
    # The contrastive learning framework for KG with synonyms, which trains with the first).
    labels: Literal["tail", "exact"] = "tail"
    init_scale: float = 0.001  # standard deviation of M_r around the identity (ours)
    learning_rate: float = 1e-3  # peak, of the relation parameters alone (ours)
    # Plain AdamW (paper, Training settings of CODER) also moves relations that no step touched
    # since the last update, at a cost that grows with their number; ours leaves them alone.
    dense: bool = False
    loss: LossConfig = field(default_factory=LossConfig)

    def __post_init__(self) -> None:
        _check(self, above_zero=("learning_rate",), mu=0, rank=1, init_scale=0)


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """AdamW (paper, Training settings of CODER)."""

    learning_rate: float = 2e-5  # peak, of the encoder (paper, Training settings of CODER)
    weight_decay: float = 0.01  # none on biases and norms (ours)
    accumulation: int = 8  # steps an update (paper, Training settings of CODER)
    clip: float = 1.0  # largest norm of the gradient (ours)

    def __post_init__(self) -> None:
        _check(self, above_zero=("learning_rate", "clip"), weight_decay=0, accumulation=1)


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """Linear warm-up to the peak, linear decay to zero (paper, Training settings of CODER)."""

    # A step is one batch of k triplets, an update comes after `accumulation` of them. The paper
    # does not say which of the two it counts: reading both numbers as steps is ours.
    unit: Literal["steps", "updates"] = "steps"
    warmup: int = 10_000  # (paper, Training settings of CODER)
    total: int = 100_000  # (paper, Training settings of CODER: ENG 100K, ALL 1M)

    def __post_init__(self) -> None:
        _check(self, total=1, warmup=0)
        if self.warmup > self.total:
            raise UsageError(f"warmup is {self.warmup}, above the total of {self.total}. Lower it")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a training run beside the graph and the initial model."""

    pooling: Literal["cls", "mean", "legacy"] = "cls"  # (paper, Training settings of CODER)
    max_length: int = 32  # tokens a term, [CLS] and [SEP] too (paper, Training settings of CODER)
    bf16: bool = True  # on a GPU (ours)
    seed: int = 0  # (ours)
    checkpoint_every: int = 1000  # steps (ours)
    evaluate_every: int = 5000  # steps (ours)
    log_every: int = 50  # steps (ours)
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    relation: RelationConfig = field(default_factory=RelationConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        _check(self, max_length=3, seed=0, checkpoint_every=1, evaluate_every=1, log_every=1)


def load(path: Path | None, overrides: Sequence[str] = ()) -> TrainConfig:
    """The defaults, changed by a TOML file, then by "key=value" with dotted keys.

    >>> load(None, ["sampler.k=64", "schedule.unit=updates"]).sampler.k
    64
    """
    values: dict[str, Any] = {}
    if path is not None:
        values |= _leaves(TrainConfig, _read(path), "", str(path))
    for override in overrides:
        values |= _leaves(TrainConfig, _parse(override), "", f"--set {override}")
    config: TrainConfig = _build(TrainConfig, values, "")
    return config


def to_toml(config: TrainConfig) -> str:
    """Every setting, as TOML that `load` reads back to an equal config."""
    return "\n".join(_lines(config, "")) + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError("does not exist", file=path, remedy="Check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", file=path, remedy="Correct the line") from error


def _parse(override: str) -> dict[str, Any]:
    """A dotted key and a TOML value as nested tables; what is no TOML value is a string."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {override}: write it as key=value, such as sampler.k=64")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    *sections, name = key.strip().split(".")
    table = {name: parsed["value"] if len(parsed) == 1 else text.strip()}
    for section in reversed(sections):
        table = {section: table}
    return table


def _leaves(section: Any, table: Mapping[str, Any], prefix: str, origin: str) -> dict[str, Any]:
    """Dotted key -> value, checked for names and types."""
    hints = get_type_hints(section)
    values: dict[str, Any] = {}
    for name, value in table.items():
        key = prefix + name
        if name not in hints:
            raise UnknownName(f"{origin}: no setting {key!r}{_hint(section, prefix, name)}")
        if is_dataclass(hints[name]) and isinstance(value, dict):
            values |= _leaves(hints[name], value, f"{key}.", origin)
        else:
            if isinstance(value, list) and get_origin(hints[name]) is tuple:
                value = tuple(value)
            _expect(key, value, hints[name], place=f"{origin}: ")
            values[key] = value
    return values


def _build(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    arguments = {}
    for name, hint in get_type_hints(section).items():
        if is_dataclass(hint):
            arguments[name] = _build(hint, values, f"{prefix}{name}.")
        elif prefix + name in values:
            arguments[name] = values[prefix + name]
    try:
        return section(**arguments)
    except UsageError as error:  # it starts with the name of the setting
        raise UsageError(prefix + str(error)) from error


def _lines(section: Any, prefix: str) -> Iterator[str]:
    for name, value in vars(section).items():  # tables stand last in their class, as in TOML
        if is_dataclass(value):
            yield f"\n[{prefix}{name}]"
            yield from _lines(value, f"{prefix}{name}.")
        else:  # strings are names from the lists above, in which JSON and TOML agree
            yield f"{name} = {json.dumps(value)}"


def _keys(section: Any, prefix: str) -> Iterator[str]:
    for name, hint in get_type_hints(section).items():
        yield from _keys(hint, f"{prefix}{name}.") if is_dataclass(hint) else [prefix + name]


def _hint(section: Any, prefix: str, name: str) -> str:
    """The setting that was meant, of this section or of that name elsewhere; else all."""
    known = list(_keys(TrainConfig, ""))
    near = [prefix + other for other in get_close_matches(name, get_type_hints(section), n=1)]
    near = near or [key for key in known if key.endswith(f".{name}")]
    return f"; did you mean {near[0]!r}?" if near else f". There are: {', '.join(known)}"


def _expect(key: str, value: object, hint: Any, *, place: str = "") -> None:
    """An error unless the value is of the type; a whole number is a number, a boolean is not."""
    if get_origin(hint) is Literal:
        good, words = value in get_args(hint), f"one of {', '.join(get_args(hint))}"
    elif is_dataclass(hint):
        good, words = type(value) is hint, "a table of settings"
    elif hint is bool:
        good, words = isinstance(value, bool), "true or false"
    elif get_origin(hint) is tuple:
        good = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        words = "a list of strings"
    elif hint is int:
        good, words = type(value) is int, "a whole number"
    else:
        good, words = type(value) in (int, float), "a number"
    if not good:
        raise UsageError(f"{place}{key} is {value!r}: expected {words}")


def _check(section: Any, *, above_zero: Sequence[str] = (), **at_least: int) -> None:
    """Types of all settings, and the ranges of those named; numbers are finite."""
    for name, hint in get_type_hints(type(section)).items():
        value = getattr(section, name)
        _expect(name, value, hint)
        if hint not in (int, float):
            continue
        good, rule = -math.inf < value < math.inf, "finite"
        if name in above_zero:
            good, rule = good and value > 0, "above 0 and finite"
        elif name in at_least:
            good, rule = good and value >= at_least[name], f"at least {at_least[name]} and finite"
        if not good:
            default = type(section).__dataclass_fields__[name].default
            raise UsageError(f"{name} is {value}: it must be {rule}. The default is {default}")
