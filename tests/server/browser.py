"""The dashboard in a real Chromium: Debian's, without a network of its own."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import BrowserContext, Dialog, Locator, Page, expect, sync_playwright

from tests.server.process import Served
from tests.tools import needs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
needs_chromium = needs(bool(CHROMIUM), "chromium is not here: make browser")

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
]
# How long anything may take before the page is said not to do it; five other things may use this machine.
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""

WIDE = """document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth)
    .map((each) => `${each.tagName}.${each.className}`)"""


class Looking:
    """A user at a browser, and everything that should not have happened there."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self._context, self.address = context, address
        self.faults: list[str] = []
        self.asked: list[str] = []

    def tab(self, place: str = "#/runs") -> Page:
        page = self._context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(WATCH)
        page.on("dialog", self._surprised)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", self._heard)
        page.goto(f"{self.address}/{place}")
        return page

    def _surprised(self, dialog: Dialog) -> None:
        self.faults.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def _heard(self, message: Any) -> None:
        # A server that is away is a failed request to the browser, and nothing to the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def require_peace(self, *pages: Page) -> None:
        """Nothing was executed that came from an agent, and no other server got a request."""
        violations = [each for page in pages for each in page.evaluate("window.violations")]
        elsewhere = [url for url in self.asked if not url.startswith((self.address, "data:"))]
        assert not violations, violations
        assert not self.faults, self.faults
        assert not elsewhere, elsewhere


@contextmanager
def looking(server: Served, *, width: int = 1280, height: int = 900, **more: Any) -> Iterator[Looking]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            context = browser.new_context(viewport={"width": width, "height": height}, **more)
            yield Looking(context, server.address)
        finally:
            browser.close()


def entered(look: Looking, server: Served) -> Page:
    """A tab that was signed in with the key of the data folder."""
    page = look.tab()
    sign_in(page, server.key)
    page.get_by_role("heading", name="Runs").wait_for()
    page.get_by_text("live", exact=True).wait_for()
    return page


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def start_run(page: Page, text: str) -> str:
    """The id of a run that was started on the page."""
    page.get_by_label("Input").fill(text)
    page.get_by_role("button", name="Start run").click()
    page.locator(".run-head").wait_for()
    return page.url.rpartition("/")[2]


def status_of(page: Page, status: str) -> None:
    """Waits until the run that the page shows stands so."""
    page.locator(f".run-head .badge-{status}").wait_for()


def open_question(page: Page) -> Locator:
    """The drawer of the newest question, opened from its notice: nothing opens by itself."""
    page.locator(".notices").get_by_role("button", name=re.compile("Answer…|Review…")).first.click()
    return page.get_by_role("dialog")


def answer(page: Page, text: str) -> None:
    """Answers the question in the drawer, or else the newest one that a notice tells of."""
    page.locator(".drawer, .notice").first.wait_for()
    drawer = page.get_by_role("dialog") if page.locator(".drawer").count() else open_question(page)
    drawer.get_by_label("Your answer").fill(text)
    drawer.get_by_role("button", name="Send answer").click()


def entry_texts(page: Page) -> Locator:
    """The texts of the entries of the transcript."""
    return page.locator(".entry :is(.said, .formatted)")


def scrolled(page: Page, place: str, part: float) -> float:
    """How far down a list stands when it was scrolled to a part of it."""
    move = "(box, part) => { box.scrollTop = part * box.scrollHeight; return box.scrollTop; }"
    return float(page.locator(place).evaluate(move, part))


def require_fit(page: Page) -> None:
    """Nothing makes the page wider than the window."""
    wide = page.evaluate(WIDE)
    assert not wide, wide
