"""What a key may not do, the page does not offer; what it offers, the server does."""

import hashlib
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser import Looking, answer, entered, looking, needs_chromium, start_run, status_of
from tests.server.burying import bury
from tests.server.process import PATIENT, Served, serving
from tests.server.receiving import SECRET, SECRET_VALUE, receiving

pytestmark = [needs_chromium, pytest.mark.timeout(240)]

KEYS = {"reader": ["read"], "runner": ["read", "run"], "answerer": ["read", "answer"], "keeper": ["admin"]}
ALL = ["admin", "answer", "metrics", "read", "run"]
ASKING = 'replies: {clerk: ["Which colour? [WAIT]", "Blue it is. [DONE]"]}\n'
BUTTONS = {
    "runs": {"Start run": "run"},
    "questions": {"Answer": "answer"},
    "runs/{run}": {"Answer clerk": "answer", "Cancel run": "run", "Fork here": "run"},
    "broadcasts": {
        "Emit": "run",
        "Subscribe": "run",
        "Remove": "run",
        "Edit": "run",
        "Cancel": "run",
        "Deliver again": "admin",
    },
}


def key_of(name: str) -> str:
    return f"ilk_{name * 10}"


def toml(keys: dict[str, list[str]]) -> str:
    found = PATIENT
    for name, scopes in keys.items():
        sha256 = hashlib.sha256(key_of(name).encode()).hexdigest()
        found += f'[server.keys.{name}]\nsha256 = "{sha256}"\nscopes = {scopes}\n'
    return found


def entered_with(look: Looking, name: str) -> Page:
    page = look.tab()
    page.get_by_label("Key").fill(key_of(name))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("live", exact=True).wait_for()
    return page


def a_run_that_waits(server: Served) -> str:
    with server.asking() as client:
        run = client.post("/v1/runs", json={"crew": "office", "input": "a lamp"}).raise_for_status().json()["id"]
        later = {"type": "report:due", "inMs": 3_600_000}
        client.post("/v1/engine/signals/delayed", json=later).raise_for_status()
    return str(run)


@pytest.mark.parametrize("name", KEYS)
def test_buttons_are_those_that_the_key_may_press(tmp_path: Path, name: str) -> None:
    scopes = ALL if KEYS[name] == ["admin"] else KEYS[name]
    bury(tmp_path)
    with serving(tmp_path, script=ASKING, toml=toml(KEYS)) as server, looking(server) as look:
        run = a_run_that_waits(server)
        page = entered_with(look, name)
        expect(page.get_by_role("note")).to_have_count(0 if scopes == ALL else 1)
        for place, buttons in BUTTONS.items():
            page.goto(f"{look.address}/#/{place.format(run=run)}")
            for button, scope in buttons.items():
                see(page, button, scope, scope in scopes)
        use(look, page, run, scopes)
        look.require_peace(page)


def see(page: Page, button: str, scope: str, is_allowed: bool) -> None:
    found = page.get_by_role("button", name=button, exact=True).first
    found.wait_for()
    if is_allowed:
        expect(found).to_be_enabled()
    else:
        expect(found).to_be_disabled()
        expect(found).to_have_attribute("title", f"Your key lacks the scope {scope}.")


def use(look: Looking, page: Page, run: str, scopes: list[str]) -> None:
    """What can be pressed works."""
    page.goto(f"{look.address}/#/runs/{run}")
    status_of(page, "paused")
    if "answer" in scopes:
        page.get_by_role("button", name="Answer clerk").click()
        answer(page, "blue")
        status_of(page, "completed")
    elif "run" in scopes:
        page.get_by_role("button", name="Cancel run").click()
        status_of(page, "cancelled")
    if "admin" in scopes:
        page.goto(f"{look.address}/#/broadcasts")
        lost = page.get_by_role("region", name="Undelivered")
        expect(lost).to_contain_text("clerk (office)")
        lost.get_by_role("button", name="Deliver again").click()
        page.get_by_text("None", exact=True).wait_for()
        page.get_by_text("No failed webhooks").wait_for()
    else:
        page.goto(f"{look.address}/#/broadcasts")
        page.get_by_text("Not available").wait_for()


def test_who_may_not_answer_is_not_asked_and_no_keys_get_around_it(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING, toml=toml(KEYS)) as server, looking(server) as look:
        page = entered_with(look, "runner")
        start_run(page, "a lamp")
        page.locator(".node.is-waiting").wait_for()
        expect(page.locator("nav .count")).to_have_text("1")
        expect(page.locator(".drawer, .notice")).to_have_count(0)
        other = look.tab()
        other.get_by_role("button", name="Sign out").click()
        reader = entered_with(look, "reader")
        reader.get_by_label("Input").fill("another lamp")
        reader.keyboard.press("Control+Enter")
        expect(reader.locator("a.run-row")).to_have_count(1)
        look.require_peace(reader)


def test_a_key_that_may_not_read_stays_at_the_door(tmp_path: Path) -> None:
    with serving(tmp_path, toml=toml({"blind": ["run"]})) as server, looking(server) as look:
        page = look.tab()
        page.get_by_label("Key").fill(key_of("blind"))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Your key lacks the scope read.").wait_for()
        look.require_peace(page)


def test_letters_that_a_webhook_did_not_take_are_sent_again_or_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, SECRET_VALUE)
    with (
        receiving(410) as receiver,
        serving(tmp_path, toml=PATIENT + receiver.as_toml("run.finished")) as server,
        looking(server) as look,
    ):
        page = entered(look, server)
        for _ in range(2):
            page.goto(f"{look.address}/#/runs")
            start_run(page, "go")
            status_of(page, "completed")
        page.get_by_role("link", name="Broadcasts").click()
        letters = page.get_by_role("region", name="Failed webhooks")
        expect(letters.get_by_role("row")).to_have_count(3)
        expect(letters.get_by_role("row").last).to_contain_text("410")
        letters.get_by_text("run.finished", exact=True).first.click()
        letters.get_by_text('"status": "completed"').first.wait_for()
        letters.get_by_role("button", name="Discard").first.click()
        expect(letters.get_by_role("row")).to_have_count(2)
        receiver.status = 204
        letters.get_by_role("button", name="Deliver again").click()
        letters.get_by_text("No failed webhooks").wait_for()
        receiver.require(3)
        look.require_peace(page)
