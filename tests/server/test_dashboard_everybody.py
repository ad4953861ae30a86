"""The page for everybody: by keyboard alone, in light and dark, on a telephone and on a wide screen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.server.browser import (
    answer,
    entered,
    looking,
    needs_chromium,
    open_question,
    require_fit,
    sign_in,
    start_run,
    status_of,
)
from tests.server.burying import bury
from tests.server.process import PATIENT, serving
from tests.server.receiving import SECRET, SECRET_VALUE, receiving
from tests.tools import needs
from web.stamp import WEB

pytestmark = [needs_chromium, pytest.mark.timeout(240)]

AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = needs(AXE.is_file(), "web/node_modules is not here: make page-tools")
ASKING = """\
replies:
  clerk: ["Which colour? [WAIT]", {text: "Blue. [NEXT]", usage: {input_tokens: 9, cost: 0.1}}]
  boss: ["So. [DONE]"]
"""
BROKEN = 'version: "2.0"\nname: broken\nentry_point: nobody\nagents: [{id: clerk}]\n'
PLACES = ("runs", "questions", "crews", "crews/office", "crews/broken", "broadcasts", "usage", "nowhere")
TABS = ("Transcript", "Timeline", "Events", "Decisions")
LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (360, 1600)]

MARK = """() => {
    const can = "a[href], button, input, select, textarea, summary, [tabindex]";
    const seen = [...document.querySelectorAll(can)].filter((each) =>
        !each.disabled && each.tabIndex >= 0 && each.checkVisibility({ visibilityProperty: true }));
    seen.forEach((each, n) => (each.dataset.stop = n));
    return seen.length;
}"""
STANDS = """() => {
    const at = document.activeElement, look = getComputedStyle(at);
    const isSeen = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2;
    return { stop: at.dataset.stop ?? "", isSeen, what: at.outerHTML.slice(0, 120), inDrawer: !!at.closest(".drawer") };
}"""


def stops(page: Page, most: int) -> Iterator[dict[str, Any]]:
    """Where the focus goes when a user presses Tab, until it has been everywhere or so often."""
    for _ in range(most):
        page.keyboard.press("Tab")
        yield page.evaluate(STANDS)


def shown(page: Page, address: str, place: str) -> None:
    page.goto(f"{address}/#/{place}")
    page.locator("#content > *").first.wait_for()
    page.get_by_text("Loading").first.wait_for(state="detached")


def test_every_action_is_reached_by_keyboard_and_seen_to_be(tmp_path: Path) -> None:
    bury(tmp_path)
    (tmp_path / "broken.yaml").write_text(BROKEN, "utf-8")
    with serving(tmp_path, "broken.yaml", script=ASKING) as server, looking(server) as look:
        page = entered(look, server)
        run = start_run(page, "a lamp")
        page.locator(".notice").wait_for()
        for place in (*PLACES, f"runs/{run}"):
            shown(page, look.address, place)
            page.evaluate("document.activeElement.blur()")
            count = page.evaluate(MARK)
            found = list(stops(page, count + 3))
            missed = {str(n) for n in range(count)} - {each["stop"] for each in found}
            assert not missed, (
                place,
                [page.locator(f"[data-stop='{n}']").evaluate("(e) => e.outerHTML") for n in missed],
            )
            unseen = [each["what"] for each in found if each["stop"] and not each["isSeen"]]
            assert not unseen, (place, unseen)
        look.require_peace(page)


def test_the_drawer_takes_the_focus_of_who_opens_it_holds_it_not_and_gives_it_back(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "a lamp")
        opener = page.get_by_role("button", name="Answer clerk")
        opener.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="clerk (office) asks")).to_be_focused()
        found = list(stops(page, 12))
        assert any(each["inDrawer"] for each in found)
        assert not all(each["inDrawer"] for each in found)  # the page behind it can be used
        page.get_by_label("Your answer").focus()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        expect(opener).to_be_focused()
        look.require_peace(page)


def test_a_run_is_started_answered_and_looked_through_without_a_mouse(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        page = entered(look, server)
        page.get_by_label("Input").focus()
        page.keyboard.type("a lamp")
        page.keyboard.press("Control+Enter")
        page.get_by_role("button", name="Answer…").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="clerk (office) asks")).to_be_focused()
        for _ in range(3):  # past the button that closes it and the link to the run
            page.keyboard.press("Tab")
        expect(page.get_by_label("Your answer")).to_be_focused()
        page.keyboard.type("blue")
        page.keyboard.press("Control+Enter")
        status_of(page, "completed")
        page.get_by_role("tab", name="Transcript").focus()
        for tab in (*TABS[1:], TABS[0]):
            page.keyboard.press("ArrowRight")
            expect(page.get_by_role("tab", name=tab)).to_be_focused()
        look_through_events(page)
        page.get_by_label("Replay").focus()
        page.keyboard.press("Home")
        expect(page.locator(".replay-at")).to_contain_text("run.started")
        page.keyboard.press("End")
        expect(page.locator(".replay-at")).to_contain_text("run.finished")
        look.require_peace(page)


def test_a_run_that_is_started_before_the_crews_are_listed_starts_when_they_are(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        page = look.tab()
        held: list[Route] = []
        page.route("**/v1/crews", lambda route: held.append(route))
        sign_in(page, server.key)
        page.get_by_label("Input").fill("a lamp")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("button", name="Start run")).to_be_disabled()
        for route in held:
            route.continue_()
        page.get_by_role("button", name="Answer…").wait_for()
        look.require_peace(page)


def look_through_events(page: Page) -> None:
    """The list is one tab stop, however long it is; arrows move in it."""
    page.get_by_role("tab", name="Events").click()
    rows, whole = page.get_by_role("listbox"), page.locator(".event-whole")
    rows.focus()
    for key, kind in (
        ("Enter", "run.finished"),
        ("Home", "run.started"),
        ("ArrowUp", "run.started"),
        ("ArrowDown", "turn.started"),
        ("End", "run.finished"),
    ):
        page.keyboard.press(key)
        page.keyboard.press("Enter")
        expect(whole).to_contain_text(f'"type": "{kind}"')
        expect(page.locator(".event-row[data-current=true]")).to_contain_text(kind)
    expect(page.get_by_role("option", selected=True)).to_contain_text("run.finished")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    page.get_by_role("tab", name="Transcript").click()


def require_no_barrier(page: Page, where: str) -> None:
    """Nothing that axe calls serious or critical."""
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    bad = [
        (each["id"], node["html"][:200], node["failureSummary"][:300])
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    assert not bad, (where, bad)


@needs_axe
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_no_screen_has_a_barrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: Any, width: int) -> None:
    bury(tmp_path)
    monkeypatch.setenv(SECRET, SECRET_VALUE)
    (tmp_path / "broken.yaml").write_text(BROKEN, "utf-8")
    with (
        receiving(410) as receiver,
        serving(tmp_path, "broken.yaml", script=ASKING, toml=PATIENT + receiver.as_toml("run.finished")) as server,
        looking(server, width=width, color_scheme=scheme) as look,
    ):
        page = look.tab("#code=wrong")
        page.get_by_label("Key").wait_for()
        page.evaluate(AXE.read_text("utf-8"))
        require_no_barrier(page, "the door")
        page.close()
        page = entered(look, server)
        page.evaluate(AXE.read_text("utf-8"))
        run = start_run(page, "a lamp")
        page.locator(".notice").wait_for()
        require_no_barrier(page, "the notice")
        open_question(page).get_by_text("a lamp").wait_for()
        require_no_barrier(page, "the drawer")
        answer(page, "blue")
        status_of(page, "completed")
        for tab in TABS:
            page.get_by_role("tab", name=tab).click()
            page.get_by_text("Loading").wait_for(state="detached")
            require_no_barrier(page, tab)
        page.goto(f"{look.address}/#/runs")
        start_run(page, "another")
        page.locator(".notice").wait_for()
        page.goto(f"{look.address}/#/broadcasts")
        page.get_by_role("cell", name="410").wait_for()
        for place in (*PLACES, f"runs/{run}"):
            shown(page, look.address, place)
            require_fit(page)
            require_no_barrier(page, place)
        look.require_peace(page)
