"""Somebody types while questions, choices and approvals arrive: nothing is answered, nothing typed is lost. Then
that person answers by form, edits the arguments of an approval, and sees the difference before it is sent."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.findings.asking_crews import CREWS, PROPOSED
from tests.findings.test_5_01_no_key_answers_a_question import open_questions, served, start, waiting
from tests.findings.test_5_02_forms import TRIP, answers_of, fill_in, require_paid
from tests.server.browser import entered, needs_chromium, status_of
from tests.server.process import Served

pytestmark = [needs_chromium, pytest.mark.timeout(300)]

# What somebody who looks at the field and not at the notices may press next.
NEXT = ("Space", "Enter", "y", "Space", "Escape", "Space")
TYPED = {"Space": " ", "Enter": "\n", "y": "y"}


def test_typing_while_all_kinds_arrive_then_answering_by_form_and_with_an_edit(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        field = page.get_by_label("Input")
        field.focus()
        runs = typed_while_they_arrive(page, field, server)
        before = field.input_value()
        fill_in_the_form(page)
        expect(field).to_have_value(before)  # and the field behind the drawer is as it was
        edit_the_approval(page)
        require_questions(server, {"words", "choices"})
        assert [json.loads(each) for each in answers_of(server, runs["forms"])] == [TRIP]
        assert [json.loads(each) for each in answers_of(server, runs["approvals"])] == [{**PROPOSED, "amount": 12}]
        expect(field).to_have_value(before)
        require_paid(page, f"{look.address}/#/runs/{runs['approvals']}", "paid 12 to Ada (no note) fees")
        page.goto(f"{look.address}/#/runs/{runs['forms']}")
        status_of(page, "completed")
        look.require_peace(page)


def typed_while_they_arrive(page: Page, field: Locator, server: Served) -> dict[str, str]:
    """The runs by their crew."""
    runs, typed = {}, ""
    for n, crew in enumerate(CREWS, 1):
        page.keyboard.type("Dear ")
        runs[crew] = start(server, crew)
        page.keyboard.type(f"{crew},")
        waiting(page, n)
        expect(page.locator(".notice").first).to_be_visible()
        for key in NEXT:
            page.keyboard.press(key)
        typed += f"Dear {crew}," + "".join(TYPED.get(key, "") for key in NEXT)
        expect(field).to_be_focused()
        expect(field).to_have_value(typed)
        expect(page.get_by_role("dialog")).to_have_count(0)
        require_questions(server, set(runs))
    assert [answers_of(server, run) for run in runs.values()] == [[]] * len(CREWS)
    return runs


def require_questions(server: Served, crews: set[str]) -> None:
    """Exactly these are still asked."""
    found = open_questions(server)
    assert {each["crew"] for each in found} == crews
    assert len(found) == len(crews)


def drawer_of(page: Page, crew: str) -> Locator:
    """Opened from the list of questions, on another screen; then back, where somebody typed."""
    screens = page.get_by_role("navigation", name="Screens")
    screens.get_by_role("link", name="Questions").click()
    page.locator(".inbox li", has_text=CREWS[crew]).get_by_role("button").click()
    screens.get_by_role("link", name="Runs").click()
    return page.get_by_role("dialog")


def fill_in_the_form(page: Page) -> None:
    drawer = drawer_of(page, "forms")
    fill_in(drawer)
    drawer.get_by_label("City").press("Enter")  # sends nothing
    expect(drawer.get_by_label("City")).to_be_focused()
    drawer.get_by_role("button", name="Send answer").click()
    drawer.wait_for(state="detached")


def edit_the_approval(page: Page) -> None:
    drawer = drawer_of(page, "approvals")
    reason = drawer.get_by_label("Reason to reject")
    reason.fill("too dear")
    for key in ("Enter", "Control+Enter", "Meta+Enter"):
        reason.press(key)  # whoever gives a reason to reject does not approve
    page.keyboard.press("Escape")
    drawer = drawer_of(page, "approvals")
    expect(reason).to_have_value("too dear")
    drawer.get_by_label("amount").fill("12")
    drawer.get_by_label("amount").press("Enter")
    changes = drawer.get_by_role("status", name="Changes")
    expect(changes).to_contain_text("1 change")
    expect(changes.locator("del")).to_contain_text("24")
    expect(changes.locator("ins")).to_contain_text("12")
    drawer.get_by_role("button", name="Approve with changes").click()
    drawer.wait_for(state="detached")
