"""What mkdocs does beside its own work: pages read the same on the site and in the repository.

- Pages that live outside `docs/` (the changelog, the model's card) become pages of the site.
- A link to a file that is no page becomes the path of the file, as code.
- Marks after the language of a block are for the tests; the name of a file becomes its title.
- A page that loads something from another server is an error.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Where on the site, and where in the repository.
OUTSIDE = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "data.md": "data/README.md",
    "model-card.md": "src/medcoder/models/medcoder-all.md",
    "recipe.md": "recipes/medcoder-all/README.md",
}
SITE = {(ROOT / path).resolve(): name for name, path in OUTSIDE.items()}
SITE[ROOT / "README.md"] = "index.md"  # the start page says the same
FENCE = re.compile(r"^(```+)(\w*)[ ]*(.*)$", re.MULTILINE)
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    for name, path in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    name = page.file.src_uri
    source = ROOT / OUTSIDE[name] if name in OUTSIDE else DOCS / name
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        FENCE.sub(_titled, part) if part.startswith("```") else _linked(part, source, name)
        for part in parts
    )


def on_post_page(output: str, page: Any, **_: Any) -> str:
    if found := LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another server: {found[0]}")
    return output


def _titled(fence: re.Match[str]) -> str:
    ticks, language, mark = fence.groups()
    title = f' title="{mark.removeprefix("file=")}"' if mark.startswith("file=") else ""
    return f"{ticks}{language}{title}"


def _linked(text: str, source: Path, name: str) -> str:
    """Links as the site needs them: its own pages by their place there, other files by name."""

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"\w+:", path):
            return match[0]
        file = (source.parent / path).resolve()
        if file.is_relative_to(DOCS):
            to = file.relative_to(DOCS).as_posix()
        elif file in SITE:
            to = SITE[file]
        else:
            shown = file.relative_to(ROOT).as_posix()
            return f"`{shown}`" if label.strip("`") in shown else f"{label} (`{shown}`)"
        if file == ROOT / "README.md":
            anchor = ""
        there = os.path.relpath(to, Path(name).parent)
        return f"{image}[{label}]({there}{'#' if anchor else ''}{anchor})"

    return LINK.sub(link, text)
