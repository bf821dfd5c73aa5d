"""Script in everything that the page and the report show, in a real browser.

A hostile terminology, custom terms, table, columns, names of files, projects and reviewers, notes,
addresses. A failure is a script that ran, or one that only the policy of the page kept from it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from attack.frame import Attack, Skipped, Tally

HIT = "window.__hit=1"
PAYLOADS = {
    "script": f"<script>{HIT}</script>",
    "handler": f"<img src=x onerror={HIT}>",
    "svg": f"<svg onload={HIT}><animate onbegin={HIT} attributeName=x dur=1s></svg>",
    "attribute": f"\" autofocus onfocus={HIT} x='\" onmouseover='{HIT}' '",
    "address": f"javascript:{HIT}//",
    "end of an element": f"</title></style></textarea></script><script>{HIT}</script>",
    "frame": "<iframe srcdoc='<script>parent.__hit=1</script>'></iframe>",
    "template": "{{constructor.constructor('" + HIT + "')()}}${" + HIT + "}<%= " + HIT + " %>",
    "mutation": f'<math><mtext></p><style><!--</style><img title="--><img src=x onerror={HIT}>">',
    "encoded": f"&lt;img src=x onerror={HIT}&gt;&#60;script&#62;{HIT}&#60;/script&#62;",
}
POLICY = ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'")
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
_SECONDS = 15.0


def run(attack: Attack) -> Tally:
    chromium = next((path for path in map(shutil.which, _NAMES) if path), None)
    if chromium is None:
        raise Skipped("chromium is not installed")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise Skipped("the package playwright is not installed") from error
    place = Place(attack)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        try:
            control = Tally()  # a page that shows text as it is: what runs there must be seen
            for kind in ("script", "handler", "svg"):
                page = f"data:text/html,{quote(PAYLOADS[kind])}"
                _visit(control, browser, kind, page, lambda page: page.wait_for_timeout(300))
            assert len(control.failures) == control.trials, control.failures
            for where, address, steps in place.visits():
                _visit(attack.tally, browser, where, address, steps)
        finally:
            browser.close()
    _check_headers(attack.tally, place)
    return attack.tally


class Place:
    """A service that holds all payloads, and where they are shown."""

    def __init__(self, attack: Attack) -> None:
        self.attack, self.payloads = attack, list(PAYLOADS.values())
        self.folder = attack.folder
        self._make_index()
        self._serve()
        self._fill()

    def _make_index(self) -> None:
        concepts = [
            f"[Term]\nid: HP:{number:07}\nname: {_obo(text)} disease\n"
            f'synonym: "{_obo(text)}" EXACT []\n'
            + (f"is_a: HP:{number - 1:07}\n" if number > 1 else "")
            for number, text in enumerate(self.payloads, 1)
        ]
        obo = self.folder / "hostile.obo"
        obo.write_text("format-version: 1.2\nontology: hp\n\n" + "\n".join(concepts), "utf-8")
        terms = "".join(
            f"{_cell(text)}\tHP:{number:07}\n" for number, text in enumerate(self.payloads, 1)
        )
        (self.folder / "own.tsv").write_text(f"term\tconcept\n{terms}", "utf-8")
        for command in (
            ("kg", "build", f"obo={obo}", "--out", "hostile.kg"),
            ("index", "build", "--kg", "hostile.kg", "--out", "hostile.index"),
            ("terms", "add", "--file", "own.tsv", "--index", "hostile.index"),
        ):
            done = self.attack.medcoder(*command)
            assert done.rc == 0, f"{command}: {done.err}"

    def _serve(self) -> None:
        service = self.attack.start(
            "serve", "--index", "hostile.index", "--port", 0, "--folder", self.folder / "serve",
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        assert service.stderr is not None
        line = ""
        while "http://" not in line:
            line = service.stderr.readline()
            assert line, "the service did not start"
        self.base = line.split()[-1]
        while self.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.05)

    def _fill(self) -> None:
        """A table whose columns, cells and name are hostile, mapped, decided on and flagged."""
        columns = [f"c {text}" for text in self.payloads]
        rows = [[f"{text} {number}" for number, text in enumerate(self.payloads)]]
        rows += [[text, *self.payloads[1:]] for text in self.payloads]
        lines = [columns, *rows]
        self.table = "\n".join(",".join(map(_quoted_cell, line)) for line in lines)
        sent = self.upload(f"{PAYLOADS['handler']}.csv".replace("/", "_"))
        asked = {
            "upload": sent["upload"], "column": columns[0], "code": columns[1],
            "name": f"{PAYLOADS['svg']} {PAYLOADS['attribute']}",
            "context": {columns[2]: "hint"},
        }  # fmt: skip
        status, job = self.ask("POST", "/v1/map", asked)
        assert status == 202, job
        self.project = job["id"]
        while self.ask("GET", f"/v1/jobs/{self.project}")[1]["state"] in ("waiting", "running"):
            time.sleep(0.05)
        for key, text in enumerate(self.payloads, 1):
            decided = {"concept": None, "who": text[:100], "note": text}
            if key % 2:
                decided["concept"] = f"HP:{key:07}"
            at = f"/v1/projects/{self.project}/terms/{key}/decision"
            status, said = self.ask("POST", at, decided)
            assert status == 200, said
        out = self.folder / "serve" / "jobs" / self.project / "out"
        assert self.attack.medcoder("map", "report", out).rc == 0
        self.report = out / "report.html"

    def upload(self, name: str) -> Any:
        border = uuid.uuid4().hex
        safe = name.replace('"', "%22")
        form = (
            f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="{safe}"\r\n\r\n'
            f"{self.table}\r\n--{border}--\r\n"
        )
        kind = f"multipart/form-data; boundary={border}"
        status, said = self.ask("POST", "/v1/uploads", form.encode(), kind)
        assert status == 201, said
        return said

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self.base}{path}", content, method=method)
        request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    def visits(self) -> Iterator[tuple[str, str, Any]]:
        """What is looked at: a name, an address, and what is done there."""
        few = 2 if self.attack.small else len(self.payloads)
        review = f"{self.base}/#/review/{self.project}"
        for number, (kind, text) in enumerate(list(PAYLOADS.items())[:few], 1):
            sent = quote(text, safe="")
            concept = f"HP:{number:07}"
            yield f"{kind}: string", f"{self.base}/#/look?q={sent}", _look
            yield f"{kind}: concept", f"{self.base}/#/look?q=disease&c={concept}", _look
            yield f"{kind}: term and history", f"{review}?status=all&q={sent}", _walk
            if self.attack.small:
                continue
            yield f"{kind}: concept in the address", f"{self.base}/#/look?c={sent}", _look
            yield f"{kind}: project in the address", f"{self.base}/#/review/{sent}", None
            yield f"{kind}: view in the address", f"{self.base}/#/{sent}/{sent}?{sent}", None
            yield f"{kind}: path", f"{self.base}/{sent}", None
            yield f"{kind}: reply", f"{self.base}/v1/search?q={sent}", None
            yield f"{kind}: error", f"{self.base}/v1/concepts/{sent}?relations={sent}", None
            yield f"{kind}: filter", f"{self.base}/#/look?q=x&types={sent}&languages={sent}", _look
        name = "<img src=x onerror=window.__hit=1>.csv"
        file = {"name": name, "mimeType": "text/csv", "buffer": self.table.encode()}
        yield "queue, counts, reviewers", f"{review}?status=all", _walk
        yield "jobs, projects, upload", f"{self.base}/#/map", lambda page: _send(page, file)
        yield "report", self.report.as_uri(), None
        yield "description", f"{self.base}/docs", None


def _look(page: Any) -> None:
    page.wait_for_timeout(400 if page.locator(".result").count() else 700)


def _walk(page: Any) -> None:
    """Terms one after the other, and what was done before."""
    page.wait_for_timeout(700)
    for key in ("ArrowDown", "j", "h", "?", "Escape"):
        page.keyboard.press(key)
    page.wait_for_timeout(200)


def _send(page: Any, file: dict[str, Any]) -> None:
    page.locator("input[type=file]").first.set_input_files(file)
    page.locator(".preview tbody tr").first.wait_for()


def _visit(tally: Tally, browser: Any, where: str, address: str, steps: Any) -> None:
    said: list[str] = []
    context = browser.new_context()
    context.set_default_timeout(1000 * _SECONDS)
    hostile = json.dumps(json.dumps(PAYLOADS["handler"]))
    context.add_init_script(f"try {{ localStorage.setItem('medcoder.who', {hostile}) }} catch {{}}")
    page = context.new_page()

    def dialog(one: Any) -> None:
        said.append(f"a dialog: {one.message}")
        one.dismiss()

    def console(line: Any) -> None:
        if "Content Security Policy" in line.text:
            said.append(f"only the policy stopped it: {line.text[:200]}")

    page.on("dialog", dialog)
    page.on("console", console)
    page.on("pageerror", lambda error: said.append(f"an error of the page: {error}"))
    try:
        page.goto(address)
        if steps is not None:
            steps(page)
        for frame in page.frames:
            if frame.evaluate("() => window.__hit") is not None:
                said.append("a script ran")
        tally.trials += 1
    finally:
        context.close()
    for what in said:
        tally.fail(f"{where}: {what}")


def _check_headers(tally: Tally, place: Place) -> None:
    for path in ("/", "/docs", "/v1/filters", "/nothing", "/main.js", "/v1/concepts/x", "/metrics"):
        tally.trials += 1
        try:
            with urllib.request.urlopen(f"{place.base}{path}", timeout=60) as reply:
                headers = reply.headers
        except urllib.error.HTTPError as error:
            headers = error.headers
        policy = headers.get("Content-Security-Policy", "")
        if not all(part in policy for part in POLICY) or "unsafe" in policy:
            tally.fail(f"{path}: the policy is {policy!r}")
        if headers.get("X-Content-Type-Options") != "nosniff":
            tally.fail(f"{path}: kinds of content may be guessed")


def _obo(text: str) -> str:
    for sign in '\\"{}':
        text = text.replace(sign, "\\" + sign)
    return text.replace("!", "\\!")


def _cell(text: str) -> str:
    return text.replace("\t", " ").replace('"', "'")


def _quoted_cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
