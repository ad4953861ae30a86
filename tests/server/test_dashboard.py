"""What people do with the dashboard, in a real browser against a real server. Nothing sleeps: everything is awaited."""

import json
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.server.browser import (
    answer,
    entered,
    entry_texts,
    looking,
    needs_chromium,
    open_question,
    require_fit,
    start_run,
    status_of,
)
from tests.server.process import serving

pytestmark = [needs_chromium, pytest.mark.timeout(240)]

MOVING = """\
replies:
  clerk:
    - {text: "A lamp, and who pays? [WAIT]", delay_seconds: 0.2}
    - {text: "Over to the boss. [NEXT]", delay_seconds: 0.6}
    - {text: "Then it is done. [DONE]", delay_seconds: 0.6}
  boss:
    - {text: "Not like that. [RETRY]", delay_seconds: 0.6}
"""
TRAVEL = Path(__file__).parents[2] / "examples" / "travel"
ASKING = 'replies: {clerk: ["Which colour? [WAIT]", {text: "Blue it is. [DONE]", delay_seconds: 0.2}]}\n'
SLOW = """\
replies:
  clerk: [{text: "First. [NEXT]", delay_seconds: 0.5}, {text: "Third. [DONE]", delay_seconds: 0.5}]
  boss: [{text: "Second. [RETRY]", delay_seconds: 2}]
"""


def active(page: Page, agent: str) -> None:
    page.locator(".node.is-active", has_text=agent).wait_for()


def test_start_a_run_watch_it_move_answer_the_dialog_and_see_it_finish(tmp_path: Path) -> None:
    with serving(tmp_path, script=MOVING) as server, looking(server) as look:
        page = entered(look, server)
        assert "code=" not in page.url
        run = start_run(page, "A lamp, please")
        page.locator(".notice", has_text="A lamp, and who pays?").wait_for()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_have_count(0)
        expect(page.locator(".node.is-waiting", has_text="clerk")).to_be_visible()
        expect(page.locator("nav .count")).to_have_text("1")
        answer(page, "the customer")
        dialog.wait_for(state="detached")
        active(page, "boss")
        active(page, "clerk")
        status_of(page, "completed")
        expect(page.locator(".edge.is-taken")).to_have_count(4)  # wait, next, retry, done
        expect(page.locator("nav .count")).to_have_count(0)
        expect(entry_texts(page)).to_have_text(
            [
                "A lamp, please",
                "A lamp, and who pays? [WAIT]",
                "the customer",
                "Over to the boss. [NEXT]",
                "Not like that. [RETRY]",
                "Then it is done. [DONE]",
            ]
        )
        with server.asking() as client:
            assert client.get(f"/v1/runs/{run}").json()["status"] == "completed"
        look.require_peace(page)


def test_the_slider_shows_the_past_and_a_run_is_forked_there(tmp_path: Path) -> None:
    with serving(tmp_path, script=SLOW) as server, looking(server) as look:
        page = entered(look, server)
        run = start_run(page, "go")
        status_of(page, "completed")
        slider = page.get_by_label("Replay")
        slider.focus()
        page.keyboard.press("Home")
        expect(page.locator(".entry")).to_have_count(1)
        status_of(page, "running")
        while page.locator(".replay-at").inner_text().split(" · ")[1] != "handoff":
            page.get_by_role("button", name="One event forward").click()
        expect(page.locator(".edge.is-taken")).to_have_count(1)
        page.get_by_role("button", name="Fork here").click()
        page.get_by_text("can't fork run").wait_for()  # in the middle of a step
        page.get_by_role("button", name="Fork after").last.click()
        page.get_by_text("Continues").wait_for()
        status_of(page, "completed")
        assert page.url.rpartition("/")[2] != run
        page.get_by_role("tab", name="Decisions").click()
        page.get_by_text("ended the run on [DONE]").wait_for()
        page.get_by_role("tab", name="Timeline").click()
        page.locator(".lane", has_text="boss").wait_for()
        look.require_peace(page)


def test_a_run_is_cancelled_and_filters_find_it(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "stop me")
        page.get_by_role("button", name="Cancel run").click()
        status_of(page, "cancelled")
        page.get_by_role("link", name="Runs").click()
        page.get_by_label("Status").select_option("completed")
        page.get_by_text("No runs match these filters.").wait_for()
        page.get_by_label("Status").select_option("cancelled")
        page.locator(".run-row .badge-cancelled").wait_for()
        look.require_peace(page)


def test_two_tabs_are_asked_and_the_second_answer_is_told_that_it_is_one(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        first = entered(look, server)
        second, third = look.tab(), look.tab()
        for page in (second, third):
            page.get_by_text("live", exact=True).wait_for()
        start_run(first, "a lamp")
        for page in (first, second, third):
            open_question(page).get_by_text("Which colour?").first.wait_for()
        third.route("**/v1/questions?*", lambda route: route.abort())  # it does not hear of the answer
        answer(first, "blue")
        status_of(first, "completed")
        second.get_by_text("answered elsewhere").wait_for()
        answer(third, "green")
        third.get_by_text("This was already answered").wait_for()
        first.locator(".entry:not(.entry-saying)", has_text="Blue it is.").wait_for()
        look.require_peace(first, second, third)


def test_what_the_server_refuses_of_an_answer_is_shown_and_the_text_is_kept(tmp_path: Path) -> None:
    def refuse(route: Route) -> None:
        problem = {"status": 422, "code": "bad-body", "title": "", "detail": "answer: a number between 1 and 9"}
        route.fulfill(status=422, content_type="application/problem+json", body=json.dumps(problem))

    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "a lamp")
        page.route("**/answer", refuse)
        answer(page, "many")
        page.get_by_role("dialog").get_by_text("a number between 1 and 9").wait_for()
        expect(page.get_by_label("Your answer")).to_have_value("many")
        page.unroute("**/answer")
        answer(page, "7")
        status_of(page, "completed")


def test_a_reload_in_the_middle_shows_the_same_run_and_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, script=SLOW) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "go")
        active(page, "boss")
        page.reload()
        active(page, "boss")
        page.locator(".entry:not(.entry-saying)", has_text="First.").wait_for()
        status_of(page, "completed")
        expect(entry_texts(page)).to_have_text(
            [
                "go",
                "First. [NEXT]",
                "Second. [RETRY]",
                "Third. [DONE]",
            ]
        )
        look.require_peace(page)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_goes_and_comes_back_loses_nothing_on_the_open_page(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, script=SLOW) as server, looking(server) as look:
        port = server.address.rpartition(":")[2]
        page = entered(look, server)
        start_run(page, "go")
        active(page, "boss")
        server.tell(number)
        server.process.wait(60)
        page.get_by_text("reconnecting…").wait_for()
        with serving(tmp_path, "--port", port, script=SLOW):
            page.get_by_text("live", exact=True).wait_for()
            status_of(page, "completed")
            page.get_by_role("tab", name="Events").click()
            page.locator(".event-row").first.wait_for()
            numbers = [int(text) for text in page.locator(".event-row .number").all_inner_texts()]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            page.get_by_role("tab", name="Transcript").click()
            expect(entry_texts(page)).to_have_text(["go", "First. [NEXT]", "Second. [RETRY]", "Third. [DONE]"])
            look.require_peace(page)


# As when a user switches to another tab and back; without a screen all tabs are seen.
HIDE = """(isHidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_tabs_that_nobody_sees_hold_up_none_that_is_seen_and_miss_nothing(tmp_path: Path) -> None:
    """A browser has six connections to a server for all its tabs together."""
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        first = entered(look, server)
        hidden = [first, *(look.tab() for _ in range(5))]
        for page in hidden:
            page.get_by_text("live", exact=True).wait_for()
            page.evaluate(HIDE, True)
        last = look.tab()
        last.get_by_text("live", exact=True).wait_for()
        start_run(last, "a lamp")
        answer(last, "blue")
        status_of(last, "completed")
        expect(first.locator(".run-row")).to_have_count(0)
        first.evaluate(HIDE, False)
        first.locator("a.run-row .badge-completed").wait_for()
        look.require_peace(last, *hidden)


def test_a_history_that_could_not_be_read_is_read_when_the_server_is_back(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        page = entered(look, server)
        page.route("**/events?follow=false*", lambda route: route.abort())
        start_run(page, "a lamp")
        page.get_by_text("Failed to fetch").wait_for()
        page.unroute("**/events?follow=false*")
        page.evaluate(HIDE, True)
        page.evaluate(HIDE, False)
        page.locator(".entry:not(.entry-saying)", has_text="Which colour?").wait_for()
        expect(page.get_by_text("Failed to fetch")).to_have_count(0)
        look.require_peace(page)


def test_back_and_forward_lead_through_the_screens(tmp_path: Path) -> None:
    with serving(tmp_path, script=SLOW) as server, looking(server) as look:
        page = entered(look, server)
        run = start_run(page, "go")
        page.get_by_role("link", name="Crews").click()
        page.get_by_role("heading", name="Crews").wait_for()
        page.go_back()
        page.locator(".run-head", has_text=run).wait_for()
        page.go_back()
        page.get_by_role("heading", name="Runs").wait_for()
        assert "code" not in page.url
        page.go_forward()
        page.locator(".run-head", has_text=run).wait_for()
        look.require_peace(page)


def test_who_leaves_is_told_if_the_session_could_not_be_closed(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server) as look:
        page = entered(look, server)
        page.route("**/v1/session", lambda route: route.abort())
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("Your session could not be closed").wait_for()
        page.unroute("**/v1/session")
        page.reload()
        page.get_by_role("heading", name="Runs").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Key").wait_for()
        expect(page.get_by_role("alert")).to_have_count(0)
        page.reload()
        page.get_by_label("Key").wait_for()


def test_the_page_fits_a_telephone_and_a_keyboard(tmp_path: Path) -> None:
    with serving(tmp_path, script=ASKING) as server, looking(server, width=360, height=740) as look:
        page = entered(look, server)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#content")).to_be_focused()
        start_run(page, "a lamp")
        open_question(page)
        require_fit(page)
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        page.get_by_role("tab", name="Transcript").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Timeline")).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        for place in ("runs", "questions", "crews", "crews/office", "broadcasts", "usage", "nowhere"):
            page.goto(f"{look.address}/#/{place}")
            page.locator("#content > *").first.wait_for()
            require_fit(page)
        look.require_peace(page)


def test_the_door_says_what_to_do_and_opens_for_the_key(tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(server) as look:
        page = look.tab("#code=wrong")
        page.get_by_text("was already used, or has expired").wait_for()
        page.get_by_text("server.key").wait_for()
        page.get_by_label("Key").fill("ilk_wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("not the key of this server").wait_for()
        page.get_by_label("Key").fill(server.key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("No runs yet").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Key").wait_for()
        look.tab().get_by_label("Key").wait_for()
        look.require_peace(page)


def test_broadcasts_are_announced_found_delayed_changed_and_cancelled(tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(server) as look:
        page = entered(look, server)
        page.get_by_role("link", name="Broadcasts").click()
        page.get_by_text("No broadcasts yet").wait_for()
        page.get_by_label("Type").fill("build:x:done")
        page.get_by_label("Data").fill('{"note": "<img src=x onerror=alert(1)>"}')
        page.get_by_role("button", name="Emit").click()
        feed = page.get_by_role("region", name="Feed")
        feed.get_by_text("build:x:done").wait_for()
        feed.get_by_label("Pattern").fill("build:*:failed")
        feed.get_by_text("No broadcasts match this pattern.").wait_for()
        with server.asking() as client:  # another client emits, and the feed shows it
            client.post("/v1/engine/signals", json={"type": "build:y:failed"}).raise_for_status()
        feed.get_by_text("build:y:failed").wait_for()
        page.get_by_label("Pattern to subscribe").fill("build:*:done")
        page.get_by_role("button", name="Subscribe").click()
        page.get_by_role("cell", name="office › clerk").wait_for()
        page.get_by_role("button", name="Remove").click()
        page.get_by_text("No subscriptions").wait_for()
        page.get_by_label("Type").fill("report:due")
        page.get_by_label("In seconds").fill("3600")
        page.get_by_role("button", name="Schedule").click()
        queue = page.get_by_role("region", name="Scheduled")
        queue.get_by_role("cell", name="report:due").wait_for()
        queue.get_by_role("button", name="Edit").click()
        queue.get_by_label("Type").fill("report:overdue")
        queue.get_by_role("button", name="Save").click()
        queue.get_by_role("button", name="Save").wait_for(state="detached")
        queue.get_by_role("cell", name="report:overdue").wait_for()
        queue.get_by_role("cell", name="report:due").wait_for(state="detached")
        queue.get_by_role("button", name="Cancel").click()
        queue.get_by_text("No scheduled broadcasts").wait_for()
        page.get_by_label("Type").fill(":".join("a" * 200))
        page.get_by_label("In seconds").fill("")
        page.get_by_role("button", name="Emit").click()
        page.get_by_role("alert").wait_for()
        look.require_peace(page)


def test_usage_is_drawn_and_told(tmp_path: Path) -> None:
    reply = {
        "text": "Fine. [DONE]",
        "usage": {"input_tokens": 1_200, "cache_read_tokens": 900, "output_tokens": 34, "cost": 0.5},
    }
    with serving(tmp_path, script=json.dumps({"replies": {"clerk": [reply]}})) as server, looking(server) as look:
        page = entered(look, server)
        page.get_by_role("link", name="Usage").click()
        page.get_by_text("No runs in this period").wait_for()
        page.get_by_role("link", name="Runs").click()
        start_run(page, "go")
        status_of(page, "completed")
        page.get_by_role("link", name="Usage").click()
        page.get_by_text("1 run, 1 call, 1,234 tokens, $0.500; 75% of the input cached, saved unknown").wait_for()
        page.locator(".chart canvas").wait_for()
        page.get_by_role("row", name="clerk 1 1,200 75% 34 $0.500 unknown").wait_for()
        look.require_peace(page)


def test_an_exchange_of_messages_is_told_and_its_ways_are_lit(tmp_path: Path) -> None:
    script = (TRAVEL / "script.yaml").read_text("utf-8")
    with serving(tmp_path, str(TRAVEL), script=script) as server, looking(server) as look:
        page = entered(look, server)
        page.locator("form.start select").select_option("travel")
        start_run(page, "Plan a trip from LAX to Italy")
        page.locator(".notice", has_text="How many nights will you stay?").wait_for()
        expect(page.locator(".node.is-waiting")).to_have_count(1)
        expect(page.locator(".node.is-waiting", has_text="hotels")).to_have_text("hotelswaiting for you")
        expect(page.locator(".node.is-active", has_text="planner")).to_have_text("plannerwaiting for reports")
        expect(page.locator(".node.is-active", has_text="flights")).to_have_count(0)
        answer(page, "many")
        page.get_by_role("dialog").get_by_text("Please enter a whole number").wait_for()
        answer(page, "5")
        status_of(page, "completed")
        expect(page.locator(".edge-delegate.is-taken")).to_have_count(2)  # museums was not needed
        notes = page.locator(".entry .entry-head .quiet").all_text_contents()
        assert [note for note in notes if note.startswith("gives a task")] == [
            "gives a task to flights",
            "gives a task to hotels",
            "gives a task to flights",
        ]
        assert notes.count("is not accepted") == 1
        assert not [said for said in entry_texts(page).all_text_contents() if "completed" in said]
        look.require_peace(page)
