"""What a person is asked in the drawer: tools that need approval, answers of a certain form, and runs that wait."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.browser import answer, entered, looking, needs_chromium, open_question, start_run, status_of
from tests.server.process import PATIENT, serving

pytestmark = [needs_chromium, pytest.mark.timeout(240)]

TOOLS = """\
from interlock import tool


@tool(needs_approval=True)
def pay(amount: int) -> str:
    \"\"\"Pays.\"\"\"
    return f"paid {amount}"
"""
CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk, tools: [pay, ask_user]}]
routing: {signals: {clerk: [{signal: "[WAIT]"}, {signal: "[DONE]"}]}}
"""
TOML = PATIENT + '[tools]\nmodules = ["till"]\n'
PAYING = json.dumps(
    {"replies": {"clerk": [{"tool_calls": [{"name": "pay", "arguments": {"amount": 24}}]}, "So. [DONE]"]}}
)


def asked(page: Page) -> Locator:
    drawer = open_question(page)
    drawer.get_by_role("heading", name="clerk (office) wants to use pay").wait_for()
    return drawer


def told_by_the_tool(page: Page, words: str) -> None:
    status_of(page, "completed")
    expect(page.locator(".entry-tool .said").last).to_have_text(words)


def test_a_tool_is_approved_refused_and_given_other_arguments(tmp_path: Path) -> None:
    (tmp_path / "till.py").write_text(TOOLS, "utf-8")
    with serving(tmp_path, script=PAYING, toml=TOML, crew=CREW) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "pay")
        asked(page).get_by_role("button", name="Approve").click()
        told_by_the_tool(page, "paid 24")
        page.get_by_role("link", name="Runs").click()
        start_run(page, "pay")
        asked(page).get_by_role("button", name="Reject").click()
        status_of(page, "completed")
        expect(page.locator(".entry-answer")).to_contain_text("no")
        expect(page.locator(".entry-tool", has_text="returned")).to_have_count(0)
        page.get_by_role("link", name="Runs").click()
        start_run(page, "pay")
        drawer = asked(page)
        drawer.get_by_label("amount").fill("12")
        drawer.get_by_role("button", name="Approve with changes").click()
        told_by_the_tool(page, "paid 12")
        look.require_peace(page)


def test_a_question_with_choices_takes_one_of_them(tmp_path: Path) -> None:
    asks = {"question": "Which colour?", "choices": ["blue", "<b>red</b>"]}
    replies = [{"tool_calls": [{"name": "ask_user", "arguments": asks}]}, "So. [DONE]"]
    (tmp_path / "till.py").write_text(TOOLS, "utf-8")
    script = json.dumps({"replies": {"clerk": replies}})
    with serving(tmp_path, script=script, toml=TOML, crew=CREW) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "a lamp")
        drawer = open_question(page)
        drawer.get_by_text("Which colour?").first.wait_for()
        drawer.get_by_role("radiogroup", name="Your answer").get_by_label("<b>red</b>").check()
        drawer.get_by_role("button", name="Send answer").click()
        status_of(page, "completed")
        page.locator(".entry-answer", has_text="<b>red</b>").wait_for()
        look.require_peace(page)


def test_a_run_that_waits_goes_on_from_the_inbox_and_from_its_own_screen(tmp_path: Path) -> None:
    script = 'replies: {clerk: ["First? [WAIT]", "Second? [WAIT]", "So. [DONE]"]}\n'
    (tmp_path / "till.py").write_text(TOOLS, "utf-8")
    with serving(tmp_path, script=script, toml=TOML, crew=CREW) as server, looking(server) as look:
        page = entered(look, server)
        run = start_run(page, "go")
        open_question(page).get_by_role("button", name="Decide later").click()
        page.get_by_role("link", name="Questions").click()
        page.get_by_role("button", name="Answer", exact=True).click()
        answer(page, "one")
        page.locator(".inbox").get_by_text("Second?").wait_for()
        page.locator(".inbox").get_by_role("link", name="Open run").click()
        page.get_by_role("button", name="Answer clerk").click()
        answer(page, "two")
        status_of(page, "completed")
        assert page.url.endswith(run)
        look.require_peace(page)
