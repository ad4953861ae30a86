"""What a person is asked in the drawer: tools that need approval, answers of a certain form, and runs that wait."""

import hashlib
import json
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

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


RULES = """\
[approvals]
ask = ["pay:amount > 10"]
deadline_seconds = 3600
[server.keys.reader]
sha256 = "{sha256}"
scopes = ["read", "answer"]
"""
READER = "ilk_reader"

# `interlock serve` in a program that gives its boxes a hook: no command can.
GUARDED = """\
from functools import partial

from interlock import Ask, Interlock
from interlock.cli import open_host
from interlock.cli.main import interlock


class Limit:
    name = "limit"

    def before_tool(self, call):
        return Ask(f"Pay {call.arguments['amount']} <b>now</b>?", deadline_seconds=3600)


open_host.Interlock = partial(Interlock, hooks=[Limit()])
interlock()
"""


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


def standing(page: Page) -> Locator:
    return page.get_by_role("region", name="Standing approvals")


def test_an_approval_that_always_holds_is_listed_and_revoked_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "till.py").write_text(TOOLS.replace("@tool(needs_approval=True)\n", ""), "utf-8")
    rules = RULES.format(sha256=hashlib.sha256(READER.encode()).hexdigest())
    with serving(tmp_path, script=PAYING, toml=TOML + rules, crew=CREW) as server, looking(server) as look:
        page = entered(look, server)
        page.get_by_role("link", name="Questions").click()
        expect(standing(page)).to_contain_text("No standing approvals")
        page.get_by_role("link", name="Runs").click()
        run = start_run(page, "pay")
        drawer = asked(page)
        expect(drawer).to_contain_text("rule 'pay:amount > 10' asks")
        expect(drawer).to_contain_text("after that the call is denied")
        drawer.get_by_label("The approval holds").select_option("always")
        expect(drawer).to_contain_text("for all calls of office that fit pay:amount > 10")
        drawer.get_by_role("button", name="Approve").click()
        told_by_the_tool(page, "paid 24")
        page.get_by_role("link", name="Runs").click()
        start_run(page, "pay")
        told_by_the_tool(page, "paid 24")  # nobody was asked
        page.get_by_role("link", name="Questions").click()
        row = standing(page).get_by_role("row", name="pay:amount > 10")
        expect(row).to_contain_text("of crew office")
        expect(row).to_contain_text("always")
        expect(row).to_contain_text("by session:owner")
        assert row.get_by_role("link", name="Run that asked").get_attribute("href") == f"#/runs/{run}"
        row.get_by_role("button", name="Revoke").click()
        row.get_by_role("button", name="Keep it").click()
        row.get_by_role("button", name="Revoke").click()
        row.get_by_role("button", name="Yes, revoke").click()
        expect(standing(page)).to_contain_text("No standing approvals")
        standing(page).get_by_text("Revoked (1)").click()
        expect(standing(page).get_by_role("row", name="pay:amount > 10")).to_contain_text("by session:owner")
        page.get_by_role("link", name="Runs").click()
        start_run(page, "pay")
        asked(page)
        require_fit(page)
        look.require_peace(page)


def test_who_lacks_the_scope_approves_once_and_may_not_revoke(tmp_path: Path) -> None:
    (tmp_path / "till.py").write_text(TOOLS, "utf-8")
    rules = RULES.format(sha256=hashlib.sha256(READER.encode()).hexdigest())
    with serving(tmp_path, script=PAYING, toml=TOML + rules, crew=CREW) as server, looking(server) as look:
        with server.asking() as client:
            for answer_text in ("for this run", ""):
                run = client.post("/v1/runs", json={"crew": "office", "input": "pay"}).raise_for_status().json()["id"]
                while not (questions := client.get(f"/v1/runs/{run}").json()["questions"]):
                    pass
                if answer_text:
                    path = f"/v1/questions/{questions[0]['id']}/answer"
                    client.post(path, json={"answer": answer_text}).raise_for_status()
                    first = run
        page = look.tab("#/questions")
        sign_in(page, READER)
        row = standing(page).get_by_role("row", name="pay")
        expect(row).to_contain_text(f"for run {first}")
        button = row.get_by_role("button", name="Revoke")
        expect(button).to_be_disabled()
        expect(button).to_have_attribute("title", "Your key lacks the scope approve.")
        page.locator(".inbox").get_by_role("button", name="Review").click()
        drawer = page.get_by_role("dialog")
        expect(drawer.get_by_label("The approval holds")).to_have_count(0)
        drawer.get_by_role("button", name="Approve").click()
        page.get_by_text("No open questions").wait_for()
        look.require_peace(page)


def test_the_question_of_a_hook_is_answered_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "till.py").write_text(TOOLS, "utf-8")
    (tmp_path / "guarded.py").write_text(GUARDED, "utf-8")
    program = (sys.executable, "guarded.py")
    with (
        serving(tmp_path, script=PAYING, toml=TOML, crew=CREW, program=program) as server,
        looking(server) as look,
    ):
        page = entered(look, server)
        start_run(page, "pay")
        drawer = open_question(page)
        drawer.get_by_role("heading", name="clerk (office) needs a decision").wait_for()
        expect(drawer.locator(".drawer-question")).to_have_text("Pay 24 <b>now</b>?")
        expect(drawer).to_contain_text("after that the answer is no")
        expect(drawer.get_by_label("The approval holds")).to_have_count(0)
        drawer.get_by_role("button", name="Approve").click()
        told_by_the_tool(page, "paid 24")  # a yes to the hook is the tool's approval too
        page.get_by_role("link", name="Runs").click()
        start_run(page, "pay")
        page.get_by_role("link", name="Questions").click()
        page.locator(".inbox").get_by_role("button", name="Review").click()
        drawer = page.get_by_role("dialog")
        drawer.get_by_label("Reason to reject").fill("too much")
        drawer.get_by_role("button", name="Reject").click()
        page.get_by_text("No open questions").wait_for()
        page.get_by_role("link", name="Runs").click()
        page.locator("a[href^='#/runs/']").first.click()
        status_of(page, "completed")
        expect(page.locator(".entry-answer")).to_contain_text("no: too much")
        expect(page.locator(".entry-tool", has_text="paid")).to_have_count(0)
        look.require_peace(page)
