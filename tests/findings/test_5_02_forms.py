"""Answers are given in forms made of their schema, approvals are edited in fields; nobody reads or writes a schema."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.findings.asking_crews import PROPOSED
from tests.findings.test_5_01_no_key_answers_a_question import open_questions, served, start
from tests.server.browser import entered, needs_chromium, open_question, status_of
from tests.server.process import Served

pytestmark = [needs_chromium, pytest.mark.timeout(300)]

TRIP = {
    "city": "Roma",
    "nights": 5,
    "window": False,
    "when": "2026-11-30",
    "class": "business",
    "guests": [{"name": "Ada"}, {"name": "Grace"}],
}


def fault(field: Locator) -> Locator:
    """What stands beside a field that is wrong."""
    ids = field.get_attribute("aria-describedby") or ""
    return field.page.locator(f"[id='{ids.split(' ')[-1]}']")


def answers_of(server: Served, run: str) -> list[str]:
    with server.asking() as client:
        events = client.get(f"/v1/runs/{run}/events").raise_for_status().json()["events"]
    return [event["input"] for event in events if event["type"] == "run.resumed"]


def fill_in(drawer: Locator) -> None:
    drawer.get_by_label("City").fill("Roma")
    drawer.get_by_label("nights").fill("5")
    drawer.get_by_role("radiogroup", name="Window seat").get_by_label("No", exact=True).check()
    drawer.get_by_label("First day").fill("2026-11-30")
    drawer.get_by_role("radiogroup", name="class").get_by_label("business").check()
    for n, name in enumerate(("Ada", "Grace"), 1):
        drawer.get_by_role("button", name="Add Guest").click()
        drawer.get_by_role("group", name=f"Guest {n}").get_by_label("name").fill(name)


def test_a_form_of_every_kind_of_field_is_filled_in_and_sent(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        run = start(server, "forms")
        drawer = open_question(page)
        expect(drawer).to_contain_text("Where to stay.")
        expect(drawer).to_contain_text("A whole number from 1 to 30.")
        expect(drawer).to_contain_text("class (optional)")
        shown = drawer.inner_text()
        assert not [word for word in ('"type"', "properties", "minLength", "{") if word in shown.replace("{3}", "")]
        fill_in(drawer)
        drawer.get_by_role("button", name="Send answer").click()
        drawer.wait_for(state="detached")
        page.goto(f"{look.address}/#/runs/{run}")
        status_of(page, "completed")
        assert [json.loads(each) for each in answers_of(server, run)] == [TRIP]
        look.require_peace(page)


def test_what_is_wrong_stands_beside_its_field_in_words(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        run = start(server, "forms")
        drawer = open_question(page)
        drawer.get_by_label("nights").fill("many")
        drawer.get_by_label("City").fill("R")
        drawer.get_by_role("button", name="Send answer").click()
        city = drawer.get_by_label("City")
        expect(fault(city)).to_have_text("Please use at least 2 characters; this has 1.")
        expect(city).to_be_focused()
        expect(city).to_have_attribute("aria-invalid", "true")
        expect(fault(drawer.get_by_label("nights"))).to_have_text("Please enter a whole number, such as 12.")
        expect(fault(drawer.get_by_label("First day"))).to_have_text("Please fill this in.")
        expect(drawer.get_by_role("group", name="Guest")).to_contain_text("Please give at least 1.")
        drawer.get_by_label("nights").fill("31")
        drawer.get_by_role("button", name="Send answer").click()
        expect(fault(drawer.get_by_label("nights"))).to_have_text("Must be at most 30.")
        assert answers_of(server, run) == []
        look.require_peace(page)


def test_what_the_server_refuses_is_shown_at_its_field_and_everything_typed_stays(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        run = start(server, "forms")
        drawer = open_question(page)
        fill_in(drawer)
        drawer.get_by_label("Code").fill("lax")
        drawer.get_by_role("button", name="Send answer").click()
        expect(fault(drawer.get_by_label("Code"))).to_have_text("This should have the form [A-Z]{3}[0-9].")
        require_kept(drawer)
        page.route("**/answer", refuse)
        drawer.get_by_label("Code").fill("LAX1")
        drawer.get_by_role("button", name="Send answer").click()
        expect(drawer.get_by_role("alert")).to_have_text("the store is away")
        require_kept(drawer)
        page.unroute("**/answer")
        drawer.get_by_role("button", name="Send answer").click()
        drawer.wait_for(state="detached")
        assert json.loads(answers_of(server, run)[-1]) == {**TRIP, "code": "LAX1"}


def refuse(route: Route) -> None:
    problem = {"status": 503, "code": "store-failed", "title": "", "detail": "the store is away"}
    route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem))


def require_kept(drawer: Locator) -> None:
    expect(drawer.get_by_label("City")).to_have_value("Roma")
    expect(drawer.get_by_role("group", name="Guest 2").get_by_label("name")).to_have_value("Grace")
    expect(drawer.get_by_label("business")).to_be_checked()


def test_an_approval_is_edited_in_fields_and_the_difference_is_seen_first(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        run = start(server, "approvals")
        drawer = open_question(page)
        amount = drawer.get_by_label("amount")
        expect(amount).to_have_value("24")
        expect(drawer).to_contain_text("In whole dollars.")
        assert "{" not in drawer.locator("form").inner_text()
        amount.fill("a lot")
        drawer.get_by_role("button", name="Approve").click()
        expect(fault(amount)).to_have_text("Please enter a whole number, such as 12.")
        amount.fill("12")
        drawer.get_by_label("note").fill("as agreed")
        changes = drawer.get_by_role("status", name="Changes")
        expect(changes).to_contain_text("2 changes")
        expect(changes.locator("dt")).to_have_text(["amount", "note"])
        expect(changes.locator("del bdi").first).to_have_text("24")
        expect(changes.locator("ins bdi").first).to_have_text("12")
        drawer.get_by_role("button", name="Undo changes").click()
        expect(drawer.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
        amount.fill("12")
        assert len(open_questions(server)) == 1
        drawer.get_by_role("button", name="Approve with changes").click()
        require_paid(page, f"{look.address}/#/runs/{run}", "paid 12 to Ada (no note) fees")
        assert [json.loads(each) for each in answers_of(server, run)] == [{**PROPOSED, "amount": 12}]
        look.require_peace(page)


def test_an_approval_without_an_edit_is_a_yes(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        run = start(server, "approvals")
        open_question(page).get_by_role("button", name="Approve").click()
        require_paid(page, f"{look.address}/#/runs/{run}", "paid 24 to Ada (no note) fees")
        assert answers_of(server, run) == ["yes"]


def require_paid(page: Page, address: str, words: str) -> None:
    page.goto(address)
    status_of(page, "completed")
    expect(page.locator(".entry-tool .said").last).to_have_text(words)


def test_a_choice_is_chosen_and_then_sent(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        run = start(server, "choices")
        drawer = open_question(page)
        drawer.get_by_role("button", name="Send answer").click()
        expect(drawer).to_contain_text("Please fill this in.")
        drawer.get_by_label("red").focus()
        page.keyboard.press("Space")  # chooses, and sends nothing
        page.keyboard.press("Enter")
        assert len(open_questions(server)) == 1
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Control+Enter")
        drawer.wait_for(state="detached")
        assert answers_of(server, run) == ["blue"]
        look.require_peace(page)
