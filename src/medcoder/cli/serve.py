"""`medcoder serve`."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.bundled.graph import home
from medcoder.cli.command import command
from medcoder.cli.console import errors, line
from medcoder.cli.open import open_index
from medcoder.cli.options import Index, user_path
from medcoder.errors import MissingExtra, UsageError
from medcoder.serve.settings import Settings

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

TOKEN = "MEDCODER_TOKEN"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LIMITS = "Limits"
_TIMES = "Limits of time, in seconds"
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
    connections: Annotated[
        int, typer.Option(min=1, rich_help_panel=_LIMITS, help="Connections at a time.")
    ] = Settings.connections,
    requests: Annotated[
        int, typer.Option(min=1, rich_help_panel=_LIMITS, help="Requests at work at a time.")
    ] = Settings.requests,
    queue: Annotated[
        int, typer.Option(min=1, rich_help_panel=_LIMITS, help="Strings that may wait.")
    ] = Settings.queue,
    jobs: Annotated[
        int, typer.Option(min=1, rich_help_panel=_LIMITS, help="Tables mapped at a time.")
    ] = Settings.jobs,
    upload: Annotated[
        int, typer.Option(min=1, rich_help_panel=_LIMITS, help="Bytes of an uploaded file.")
    ] = Settings.upload,
    head_seconds: Annotated[
        float, typer.Option(min=0.01, rich_help_panel=_TIMES, help="For the head of a request.")
    ] = Settings.head_seconds,
    body_seconds: Annotated[
        float,
        typer.Option(min=0.01, rich_help_panel=_TIMES, help="For its body, and 1 for each kB."),
    ] = Settings.body_seconds,
    reply_seconds: Annotated[
        float,
        typer.Option(min=0.01, rich_help_panel=_TIMES, help="For a caller that reads no reply."),
    ] = Settings.reply_seconds,
    idle_seconds: Annotated[
        int,
        typer.Option(min=1, rich_help_panel=_TIMES, help="For the next request of a connection."),
    ] = Settings.idle_seconds,
    grace_seconds: Annotated[
        int, typer.Option(min=1, rich_help_panel=_TIMES, help="From a signal to stop to the end.")
    ] = Settings.grace_seconds,
) -> None:
    """Serve look-up, mapping and review: a page for people, REST for programs.

    It listens to this machine only, unless told otherwise. What people type or upload is in no
    log, and nothing leaves the machine.

    It ends with SIGTERM or Ctrl-C, with exit code 0, and at once with a second one.
    """
    from medcoder.serve import make_app

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
        stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(place)
        settings = Settings(
            token=token, connections=connections, requests=requests, queue=queue, jobs=jobs,
            upload=upload, head_seconds=head_seconds, body_seconds=body_seconds,
            reply_seconds=reply_seconds, idle_seconds=idle_seconds, grace_seconds=grace_seconds,
        )  # fmt: skip
        app = make_app(load, folder=place, projects=projects, settings=settings)
        server = _server(app, host, port, settings)
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


def _server(app: Any, host: str, port: int, settings: Settings) -> Any:
    try:
        from medcoder.serve.server import SPARE, Config, Server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("medcoder"):
            raise
        raise MissingExtra(
            f"serving needs {error.name}, which is not installed",
            remedy="Install it with: pip install 'medcoder[serve]'",
        ) from error

    def begun(addresses: list[Any]) -> None:
        for name, number, *_ in addresses:
            shown = f"[{name}]" if ":" in name else name
            line(f"medcoder is at http://{shown}:{number}", console=errors())

    files = _open_files(settings.connections + SPARE)
    fit = max(files - SPARE, files // 4)
    if fit < settings.connections:
        line(
            f"At most {fit:,} connections: this process may open {files:,} files only. "
            f"`ulimit -n {settings.connections + SPARE}` allows more.",
            console=errors(),
        )
        settings = replace(settings, connections=fit)
    return Server(Config(app, settings, host=host, port=port), begun)


def _open_files(wanted: int) -> int:
    """How many files may be open, once that is raised to what is wanted as far as it may be."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
