"""Ten thousand events: what the page holds and asks for is bounded, whatever the run has done."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser import entered, looking, needs_chromium, scrolled, start_run, status_of
from tests.server.process import CREW, serving

pytestmark = [needs_chromium, pytest.mark.timeout(240)]

LONG = 1_500
LONG_CREW = CREW + f"settings: {{max_handoffs: {2 * LONG}, timeout_seconds: 900, loop_window: 0}}\n"
# The frame, the graph and a hundred entries, each with a handful of elements; the timeline has up to a thousand bars.
ELEMENTS_MAX = 1_500
# The page, its script, style and icon, the session, two streams, and what the screen shows.
REQUESTS_MAX = 20
WATCH = """() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => Math.round(each.duration))))
        .observe({ type: "longtask", buffered: true });
}"""


def require_few_elements(page: Page, tab: str) -> None:
    count = page.evaluate("document.querySelectorAll('*').length")
    assert count < ELEMENTS_MAX, f"{tab} has {count} elements"


def test_ten_thousand_events_open_and_scroll_with_few_elements_and_requests(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    turns = {"clerk": ["Go on. [NEXT]"] * LONG + ["Enough. [DONE]"], "boss": ["Go on. [RETRY]"] * LONG}
    with serving(tmp_path, script=json.dumps({"replies": turns}), crew=LONG_CREW) as server, looking(server) as look:
        page = entered(look, server)
        page.evaluate(WATCH)
        page.set_default_timeout(120_000)
        start_run(page, "go")
        page.get_by_role("tab", name="Events").click()
        status_of(page, "completed")
        page.locator(".replay-at", has_text="run.finished").wait_for()
        count = int(page.locator(".replay-at").inner_text().split(" / ")[1].split(" ")[0])
        assert count > 10_000
        expect(page.locator(".event-row b").last).to_have_text("run.finished")
        # Times are told and not judged: the machine may be busy with something else.
        record_property("long tasks while it ran, in ms", page.evaluate("window.tasks"))
        opened_anew(page, count, look.asked)
        page.evaluate(WATCH)
        for tab in ("Transcript", "Timeline", "Decisions", "Events"):
            page.get_by_role("tab", name=tab).click()
            page.locator(".panel > *").first.wait_for()
            page.get_by_text("Loading").wait_for(state="detached")
            require_few_elements(page, tab)
        scroll_through(page)
        page.get_by_label("Replay").focus()
        page.keyboard.press("Home")
        expect(page.locator(".event-row")).to_have_count(1)
        record_property("long tasks while it was looked at, in ms", page.evaluate("window.tasks"))
        look.require_peace(page)


def opened_anew(page: Page, count: int, asked: list[str]) -> None:
    """A run that is over is fetched in one piece, not in thousands."""
    asked.clear()
    page.reload()
    page.locator(".replay-at", has_text=f"{count} / {count}").wait_for()
    assert len(asked) <= REQUESTS_MAX, asked


def scroll_through(page: Page) -> None:
    for part in range(10):
        top = scrolled(page, ".events .virtual", part / 10)
        row = page.locator(".event-row .number", has_text=str(round(top / 30) + 5)).first
        row.wait_for()
        assert page.locator(".event-row").count() < 100
        require_few_elements(page, "Events")
