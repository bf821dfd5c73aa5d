"""`medcoder serve`."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.bundled.graph import home
from medcoder.cli.command import command
from medcoder.cli.console import errors, line
from medcoder.cli.open import open_index
from medcoder.cli.options import Index, user_path
from medcoder.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

TOKEN = "MEDCODER_TOKEN"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
EXAMPLES = """
[bold]Examples[/bold]

  medcoder serve

  medcoder serve --index umls.index --project ward --port 9000

  medcoder serve --host 0.0.0.0 --token-file token.txt
"""


@command
def serve(
    index: Index = None,
    project: Annotated[
        list[Path] | None,
        typer.Option(help="A mapping project to review. May be given several times."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than this machine need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that is asked for. Default: {TOKEN}, if set."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="For uploads and their projects. Default: serve in MEDCODER_HOME."),
    ] = None,
) -> None:
    """Serve look-up, mapping and review: a page for people, REST for programs.

    It listens to this machine only, unless told otherwise. What people type or upload is in no
    log, and nothing leaves the machine.
    """
    from medcoder.serve import make_app
    from medcoder.serve.settings import Settings

    token = _token(token_file)
    if host not in _LOOPBACK and token is None:
        raise UsageError(
            "this address can be reached by others",
            where=f"--host {host}",
            remedy=f"Give a token with --token-file, or in the environment as {TOKEN}",
            message=f"--host {host} can be reached by others: give a token with --token-file, or "
            f"in the environment as {TOKEN}",
        )
    projects = _named([user_path(one) for one in project or []])
    with contextlib.ExitStack() as stack:
        failed: list[BaseException] = []

        def load() -> Normalizer:
            try:
                return stack.enter_context(open_index(index))
            except BaseException as error:
                failed.append(error)
                server.should_exit = True
                raise

        place = user_path(folder) if folder is not None else home() / "serve"
        # Large uploads lie in an unnamed file while they come: on our disk, not in /tmp.
        tempfile.tempdir = str(place)
        app = make_app(load, folder=place, projects=projects, settings=Settings(token=token))
        server = _server(app, host, port)
        # It hands on the signal that ended it once all is finished.
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
        if failed:
            raise failed[0]


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN) or None
    return user_path(file).read_text(encoding="utf-8").strip()


def _named(files: list[Path]) -> dict[str, Path]:
    """Projects by the names of their folders."""
    from medcoder.mapping import Project

    found: dict[str, Path] = {}
    for file in files:
        with Project.open(file) as project:  # one that is none is an error now, not later
            place = project.path
        name = re.sub(r"[^\w.-]+", "-", place.absolute().parent.name) or "project"
        number, unique = 1, name
        while unique in found:
            number += 1
            unique = f"{name}-{number}"
        found[unique] = place
    return found


def _server(app: Any, host: str, port: int) -> Any:
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "serving needs uvicorn, which is not installed",
            remedy="Install it with: pip install 'medcoder[serve]'",
        ) from error
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", access_log=False, server_header=False,
        date_header=False, proxy_headers=False,
    )  # fmt: skip

    class Server(uvicorn.Server):
        def _log_started_message(self, listeners: Any) -> None:
            sockets = [one for server in self.servers for one in server.sockets]
            for one in sockets:
                name, number = one.getsockname()[:2]
                shown = f"[{name}]" if ":" in name else name
                line(f"medcoder is at http://{shown}:{number}", console=errors())

    return Server(config)
