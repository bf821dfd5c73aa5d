"""Settings of a training run: frozen dataclasses, read from TOML and `--set key=value`.

Defaults are those of CODER_ENG. Each says where it comes from: a section of the paper, or "ours"
where the paper gives none. Which losses, forms of relations and terms of the objective there are,
and what options each has, is known to their tables and signatures alone.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from medcoder.errors import InputError, UnknownName, UsageError
from medcoder.model import RELATIONS
from medcoder.model.losses import LOSSES
from medcoder.options import (
    Count,
    Natural,
    NotNegative,
    Positive,
    all_options,
    check_options,
    check_settings,
    expect,
    options_of,
)
from medcoder.registry import Registry
from medcoder.tables.text import read_text
from medcoder.train import OBJECTIVE_TERMS

# What its reader raises: of numbers of thousands of digits and of deep nesting other errors.
_NO_TOML = (ValueError, RecursionError)


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """What a step sees."""

    k: Annotated[int, "at least 4"] = 128  # triplets a step (paper, Training settings of CODER)
    m: int = 8  # times that each triplet is repeated (paper, Training settings of CODER)
    # Concepts more a step, each with two of its terms, for the term-term loss alone (ours).
    pairs: Natural = 0
    languages: tuple[str, ...] = ()  # draw terms of these alone; none: all (ours)
    terms_per_language: Natural = 0  # of a concept, its best; 0: all (ours)
    # A relation with n edges is drawn as n to this power (ours).
    relation_power: NotNegative = 1.0
    extra_share: float = 0.0  # part of the pairs from concepts with extra terms (ours)
    # How often a pair of such a concept is an extra term and one of the graph (ours).
    extra_anchored: float = 0.0
    # A concept with n terms is drawn for a pair as n to this power (ours).
    pair_power: NotNegative = 0.0
    # Draw half of the pairs near the others, by an index of the model made anew every so many
    # steps; 0: never (ours).
    hard_every: Natural = 0

    def __post_init__(self) -> None:
        check_settings(self)
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


@dataclass(frozen=True, init=False)
class LossConfig:
    """A loss of `LOSSES`, and the options of its signature."""

    kind: str
    options: Mapping[str, Any]

    def __init__(self, *, kind: str = "multi_similarity", **options: Any) -> None:
        """Options of other losses are checked and left out: `kind` alone chooses among them."""
        expect("kind", kind, Annotated[str, LOSSES])
        own = options_of(LOSSES.load(kind))
        check_options(options, all_options(LOSSES) | own)
        kept = {name: options.get(name, option.default) for name, option in own.items()}
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "options", kept)


@dataclass(frozen=True)
class Weight:
    """The weight of a term: constant, or on a line between two steps."""

    first: float = 1.0
    last: float | None = None  # None: it stays
    between: tuple[int, int] = (0, 0)  # steps

    @classmethod
    def read(cls, value: object) -> Weight:
        """From a number, or from a table such as {from = 4, to = 0, between = [0, 1000]}."""
        if isinstance(value, Weight):
            return value
        constant: dict[str, Any] = {"from": value, "to": value}
        table = value if isinstance(value, dict) else constant
        ends: list[Any] = [table.get("from"), table.get("to")]
        good = all(type(end) in (int, float) and 0 <= end < math.inf for end in ends)
        steps = table.get("between", [0, 1])
        good = good and isinstance(steps, list) and [type(step) for step in steps] == [int, int]
        if not good or not 0 <= steps[0] < steps[1] or {*table} - {"from", "to", "between"}:
            raise UsageError(
                f"weight is {value!r}: expected a number from 0 on, or a table such as "
                "{from = 4.0, to = 0.0, between = [0, 1000]}"
            )
        if not isinstance(value, dict):
            return cls(table["from"])
        return cls(table["from"], table["to"], (steps[0], steps[1]))

    def at(self, step: int) -> float:
        """
        >>> [Weight(4.0, 0.0, (10, 20)).at(step) for step in (0, 10, 15, 20, 30)]
        [4.0, 4.0, 2.0, 0.0, 0.0]
        """
        if self.last is None:
            return self.first
        begin, end = self.between
        done = min(max((step - begin) / (end - begin), 0.0), 1.0)
        return self.first + (self.last - self.first) * done

    def __str__(self) -> str:
        """As TOML."""
        if self.last is None:
            return json.dumps(self.first)
        steps = json.dumps(self.between)
        return (
            f"{{from = {json.dumps(self.first)}, to = {json.dumps(self.last)}, between = {steps}}}"
        )


@dataclass(frozen=True, init=False)
class TermConfig:
    """A term of `OBJECTIVE_TERMS`, its weight, and the options of its signature."""

    kind: str
    weight: Weight
    options: Mapping[str, Any]

    def __init__(self, *, kind: str, weight: object = 1.0, **options: Any) -> None:
        expect("kind", kind, Annotated[str, OBJECTIVE_TERMS])
        own = options_of(OBJECTIVE_TERMS.load(kind))
        check_options(options, own)
        for name, option in own.items():
            if option.required and name not in options:
                raise UsageError(f"{name} is missing: the term {kind!r} needs it")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "weight", Weight.read(weight))
        # As given: what is left out keeps the default of the signature.
        object.__setattr__(self, "options", options)


@dataclass(frozen=True, kw_only=True)
class RelationConfig:
    """The term-relation-term loss."""

    mu: NotNegative = 1.0  # its weight; 0 leaves it out (paper, Training settings of CODER)
    # A full matrix M_r (paper, The contrastive learning framework for KG with synonyms) or the
    # TransE-like "translation" (paper, Ablation study); the others are ours.
    form: Annotated[str, RELATIONS] = "bilinear"
    rank: Count = 32  # of U and V in "low-rank" (ours)
    # A pair is positive when its tails are equal, or when the graph has the triplet (both paper,
    # The contrastive learning framework for KG with synonyms, which trains with the first).
    labels: Literal["tail", "exact"] = "tail"
    init_scale: NotNegative = 0.001  # standard deviation of M_r around the identity (ours)
    learning_rate: Positive = 1e-3  # peak, of the relation parameters alone (ours)
    # Plain AdamW (paper, Training settings of CODER) also moves relations that no step touched
    # since the last update, at a cost that grows with their number; ours leaves them alone.
    dense: bool = False
    loss: LossConfig = field(default_factory=LossConfig)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """AdamW (paper, Training settings of CODER)."""

    learning_rate: Positive = 2e-5  # peak, of the encoder (paper, Training settings of CODER)
    rows_rate: NotNegative = 0.0  # peak, of the rows of word pieces; 0: as the encoder (ours)
    weight_decay: NotNegative = 0.01  # none on biases and norms (ours)
    accumulation: Count = 8  # steps an update (paper, Training settings of CODER)
    clip: Positive = 1.0  # largest norm of the gradient (ours)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """Linear warm-up to the peak, linear decay to zero (paper, Training settings of CODER)."""

    # A step is one batch of k triplets, an update comes after `accumulation` of them. The paper
    # does not say which of the two it counts: reading both numbers as steps is ours.
    unit: Literal["steps", "updates"] = "steps"
    warmup: Natural = 10_000  # (paper, Training settings of CODER)
    total: Count = 100_000  # (paper, Training settings of CODER: ENG 100K, ALL 1M)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.warmup > self.total:
            raise UsageError(f"warmup is {self.warmup}, above the total of {self.total}. Lower it")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a training run beside the graph and the initial model."""

    pooling: Literal["cls", "mean", "legacy"] = "cls"  # (paper, Training settings of CODER)
    # Tokens a term, [CLS] and [SEP] too (paper, Training settings of CODER).
    max_length: Annotated[int, "at least 3"] = 32
    bf16: bool = True  # on a GPU (ours)
    seed: Natural = 0  # (ours)
    checkpoint_every: Count = 1000  # steps (ours)
    evaluate_every: Count = 5000  # steps (ours)
    log_every: Count = 50  # steps (ours)
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    relation: RelationConfig = field(default_factory=RelationConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    # Terms by name, beside those that the settings above ask for, or their weights (ours).
    objective: Mapping[str, TermConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        for name, term in self.objective.items():
            expect(f"objective.{name}", term, TermConfig)


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
        return tomllib.loads(read_text(path))
    except _NO_TOML as error:
        raise InputError("is not TOML", file=path, values=error, remedy="Correct it") from error


def _parse(override: str) -> dict[str, Any]:
    """A dotted key and a TOML value as nested tables; what is no TOML value is a string."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {override}: write it as key=value, such as sampler.k=64")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except _NO_TOML:
        parsed = {}
    *sections, name = key.strip().split(".")
    table = {name: parsed["value"] if len(parsed) == 1 else text.strip()}
    for section in reversed(sections):
        table = {section: table}
    return table


def _leaves(section: Any, table: Mapping[str, Any], prefix: str, origin: str) -> dict[str, Any]:
    """Dotted key -> value, checked for names and types."""
    hints = _settings(section)
    values: dict[str, Any] = {}
    for name, value in table.items():
        key = prefix + name
        if name not in hints:
            raise UnknownName(f"{origin}: no setting {key!r}{_hint(hints, prefix, name)}")
        if hints[name] in _TABLES and isinstance(value, dict):
            values |= _leaves(hints[name], value, f"{key}.", origin)
        elif hints[name] == _TERMS and isinstance(value, dict):
            for term, options in value.items():
                if not isinstance(options, dict):
                    raise UsageError(
                        f"{origin}: {key}.{term} is {options!r}: expected a table of settings"
                    )
                values |= _leaves(TermConfig, options, f"{key}.{term}.", origin)
        else:
            if isinstance(value, list) and get_origin(hints[name]) is tuple:
                value = tuple(value)
            expect(key, value, hints[name], origin=f"{origin}: ")
            values[key] = value
    return values


def _build(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    arguments = {}
    for name, hint in _settings(section).items():
        if hint in _TABLES:
            arguments[name] = _build(hint, values, f"{prefix}{name}.")
        elif hint == _TERMS:
            named = [key.split(".")[1] for key in values if key.startswith(f"{name}.")]
            arguments[name] = {
                term: _build(TermConfig, {f"{name}.{term}.kind": term, **values}, f"{name}.{term}.")
                for term in dict.fromkeys(named)
            }
        elif prefix + name in values:
            arguments[name] = values[prefix + name]
    try:
        return section(**arguments)
    except UsageError as error:  # it starts with the name of the setting
        raise type(error)(prefix + str(error)) from error


def _lines(section: Any, prefix: str) -> Iterator[str]:
    tables = []
    for name, value in _values(section):
        if is_dataclass(value) and not isinstance(value, Weight):
            tables.append((f"{prefix}{name}", value))
        else:  # strings are names and paths, in which JSON and TOML agree
            text = (
                str(value) if isinstance(value, Weight) else json.dumps(value, ensure_ascii=False)
            )
            yield f"{name} = {text}"
    for name, table in tables:
        yield f"\n[{name}]"
        yield from _lines(table, f"{name}.")


def _values(section: Any) -> Iterator[tuple[str, Any]]:
    """Names and values: options and terms stand beside what holds them."""
    for name, value in vars(section).items():
        if name == "options":
            yield from value.items()
        elif name == "objective":
            yield from ((f"objective.{term}", settings) for term, settings in value.items())
        else:
            yield name, value


def _settings(section: Any) -> dict[str, Any]:
    """Name -> type of the settings of a table; of a loss or term, those of all kinds."""
    hints = get_type_hints(section, include_extras=True)
    if section in _CHOICES:
        kinds = _CHOICES[section]
        known = {name: option.hint for name, option in all_options(kinds).items()}
        return {**known, "kind": Annotated[str, kinds]} | (
            {"weight": object} if "weight" in hints else {}
        )
    return hints


def _keys(hints: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, hint in hints.items():
        if hint in _TABLES:
            yield from _keys(_settings(hint), f"{prefix}{name}.")
        else:
            yield prefix + name


def _hint(hints: Mapping[str, Any], prefix: str, name: str) -> str:
    """The setting that was meant, of this section or of that name elsewhere; else all."""
    known = list(_keys(_settings(TrainConfig), ""))
    near = [prefix + other for other in get_close_matches(name, hints, n=1)]
    near = near or [key for key in known if key.endswith(f".{name}")]
    return f"; did you mean {near[0]!r}?" if near else f". There are: {', '.join(known)}"


_CHOICES: dict[Any, Registry] = {LossConfig: LOSSES, TermConfig: OBJECTIVE_TERMS}
_TABLES = (SamplerConfig, LossConfig, RelationConfig, OptimiserConfig, ScheduleConfig)
_TERMS = get_type_hints(TrainConfig)["objective"]
