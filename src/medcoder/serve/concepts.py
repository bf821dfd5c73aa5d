"""CONCEPT tables of OMOP that were sent: exports look up the ids of concepts in them."""

from __future__ import annotations

import gzip
import re
import threading
import uuid
import zlib
from pathlib import Path
from typing import IO

from medcoder.errors import InputError
from medcoder.mapping.formats.omop import check_concepts
from medcoder.serve.refusals import Refused
from medcoder.serve.settings import Settings
from medcoder.serve.uploads import last_first, stamp, write_up_to

ENDINGS = (".csv", ".csv.gz")


class ConceptTables:
    """A folder with the last few, unpacked, under names of our own."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in folder.glob("*.partial"):  # of a process that was killed
            left.unlink()

    def add(self, stream: IO[bytes], name: str) -> str:
        """Keep a table, and forget the oldest; gives its id. One that is none is not kept."""
        if not name.lower().endswith(ENDINGS):
            raise Refused(
                415, "format", f"the name of the file must end in one of {', '.join(ENDINGS)}"
            )
        number = uuid.uuid4().hex
        partial = self._folder / f"{number}.partial"
        try:
            if name.lower().endswith(".gz"):
                with gzip.open(stream) as unpacked:
                    write_up_to(unpacked, partial, self._settings.concepts)
            else:
                write_up_to(stream, partial, self._settings.concepts)
            check_concepts(partial)
            with self._lock:
                self._keep(partial, number)
        except (InputError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Refused(
                422, "bad_input", "it is no CONCEPT table of OMOP: its first line must name the "
                "columns, with tabs between them, as in a download from Athena",
            ) from error  # fmt: skip
        finally:
            partial.unlink(missing_ok=True)
        return number

    def get(self, number: str) -> Path:
        file = self._folder / f"{number}.csv"
        if not re.fullmatch(r"[0-9a-f]{32}", number) or not file.is_file():
            raise Refused(404, "no_concepts", "there is no such CONCEPT table: send it again")
        return file

    def _keep(self, partial: Path, number: str) -> None:
        """Make it one of those that are kept, in place of the oldest."""
        others = last_first(self._folder.glob("*.csv"))
        stamp(partial, others)
        partial.replace(self._folder / f"{number}.csv")
        for file in others[self._settings.concept_tables - 1 :]:
            file.unlink(missing_ok=True)
