"""Debian's chromium through playwright, and what a page may not do in it."""

import contextlib
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SECONDS = 15
# What the browser itself says of replies that are errors, which tests bring about.
_EXPECTED = "Failed to load resource"

# Text whose colour is too near to what is behind it: WCAG 2.2, 1.4.3.
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (parts) => {
    const [r, g, b] = parts.map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest(".hidden, .skip, :disabled, svg, noscript")) continue;
    const [one, other] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) faint.push(`${walk.currentNode.textContent.trim()} ${ratio.toFixed(2)}`);
  }
  return faint;
}"""

# Controls that a screen reader has no name for.
NAMELESS = """() => [...document.querySelectorAll("a, button, input, select, textarea, summary")]
  .filter((element) => element.checkVisibility() && !element.closest("[aria-hidden=true]"))
  .filter((element) => !(element.getAttribute("aria-label") || element.textContent.trim()
    || [...(element.labels ?? [])].some((label) => label.textContent.trim())))
  .map((element) => element.outerHTML.slice(0, 120))"""


class People:
    """Browser windows of people who share nothing but the service."""

    def __init__(self, browser, address):
        self._browser, self.address = browser, address
        self._said = []

    @contextlib.contextmanager
    def person(self, name="ann", *, width=1200, height=800, scheme="light", address=None):
        """A window of somebody who has said who they are; an error in it is one of the test."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme,
            base_url=address or self.address, accept_downloads=True, reduced_motion="reduce",
        )  # fmt: skip
        context.set_default_timeout(1000 * SECONDS)
        if name:
            context.add_init_script(
                f"try {{ localStorage.setItem('medcoder.who', '\"{name}\"') }} catch {{}}"
            )
        said = []
        page = context.new_page()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda line: line.type == "error" and said.append(line.text))
        page.on("request", lambda asked: self._said.append(asked.url))
        try:
            yield page
        finally:
            context.close()
        assert [line for line in said if not line.startswith(_EXPECTED)] == []

    def asked(self):
        """Every address that was asked for."""
        return self._said


@contextlib.contextmanager
def people(address):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield People(browser, address)
        finally:
            browser.close()
