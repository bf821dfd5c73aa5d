"""What maps strings: a normaliser, seen through the few things that mapping a table needs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from medcoder.artefact import read_meta
from medcoder.errors import UnknownName
from medcoder.kg.masks import concepts_of_types, concepts_of_vocabularies, terms_in_languages
from medcoder.mapping.base import Role
from medcoder.types import Answer, Code

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

_CHECKS = {
    "type": concepts_of_types,
    "vocabulary": concepts_of_vocabularies,
    "language": terms_in_languages,
}


class Mapper(Protocol):
    """Strings to answers, and what the concepts are called."""

    def describe(self) -> dict[str, Any]:
        """`terminology` and `model`, as in the meta data of a project."""
        ...

    def normalize_many(
        self,
        texts: Sequence[str],
        *,
        top: int,
        types: Collection[str] | None,
        vocabularies: Collection[str] | None,
        languages: Collection[str] | None,
    ) -> Iterator[Answer]: ...

    def knows(self, role: Role, value: str) -> bool:
        """Whether there is such a semantic type, vocabulary or language."""
        ...

    def name_of(self, concept: str) -> str | None:
        """The preferred name, or None if there is no such concept."""
        ...

    def codes_of(self, concept: str) -> tuple[Code, ...]: ...


class IndexMapper:
    """The normaliser of an index."""

    def __init__(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer
        self._known: dict[tuple[str, str], bool] = {}

    def describe(self) -> dict[str, Any]:
        kg, overlay = self._normalizer.kg, self._normalizer.overlay
        custom = "\n".join(
            f"{text}\t{kg.terms.id(concept)}\t{language}"
            for text, concept, language in zip(
                overlay.texts, overlay.concepts, overlay.languages, strict=True
            )
        )
        encoder = read_meta(self._normalizer.path / "encoder", kind="encoder")
        return {
            "terminology": {
                "fingerprint": kg.fingerprint,
                "vocabularies": {entry.name: entry.version for entry in kg.vocabularies},
                "custom_terms": hashlib.sha256(custom.encode()).hexdigest() if custom else "",
            },
            "model": {
                "name": str(encoder.get("name", "")),
                "fingerprint": str(encoder["fingerprint"]),
            },
        }

    def normalize_many(
        self,
        texts: Sequence[str],
        *,
        top: int,
        types: Collection[str] | None,
        vocabularies: Collection[str] | None,
        languages: Collection[str] | None,
    ) -> Iterator[Answer]:
        return self._normalizer.normalize_many(
            texts, top=top, types=types, vocabularies=vocabularies, languages=languages
        )

    def knows(self, role: Role, value: str) -> bool:
        key = role, value
        if key not in self._known:
            try:
                _CHECKS[role](self._normalizer.kg, [value])
                self._known[key] = True
            except UnknownName:
                self._known[key] = False
        return self._known[key]

    def name_of(self, concept: str) -> str | None:
        kg = self._normalizer.kg
        return kg.preferred(concept) if concept in kg else None

    def codes_of(self, concept: str) -> tuple[Code, ...]:
        return tuple(self._normalizer.kg.codes_of(concept))
