"""Questions, choices and approvals come as notices: they take no focus, and no key that was meant for something else
answers them. What is needed to decide is in the drawer."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.findings.asking_crews import CREWS, TOML, crew_text, script, write_crews
from tests.server.browser import Looking, entered, looking, needs_chromium, open_question, require_fit, status_of
from tests.server.process import Served, serving

pytestmark = [needs_chromium, pytest.mark.timeout(300)]

FOCUS = "document.activeElement.tagName"


@contextmanager
def served(folder: Path, **looks: Any) -> Iterator[tuple[Served, Looking]]:
    others = write_crews(folder)
    with (
        serving(folder, *others, script=script(), toml=TOML, crew=crew_text("words")) as server,
        looking(server, **looks) as look,
    ):
        yield server, look


def start(server: Served, crew: str) -> str:
    """A run that asks something at once; its id."""
    with server.asking() as client:
        answer = client.post("/v1/runs", json={"crew": crew, "input": f"the input of {crew}"}).raise_for_status()
        return str(answer.json()["id"])


def open_questions(server: Served) -> list[dict[str, Any]]:
    with server.asking() as client:
        return list(client.get("/v1/questions").raise_for_status().json()["questions"])


def waiting(page: Page, count: int) -> None:
    expect(page.locator("nav .count")).to_have_text(str(count))


@pytest.mark.parametrize("seed", [1, 2])
def test_whoever_types_while_questions_arrive_answers_none_and_loses_no_letter(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        field = page.get_by_label("Input")
        field.focus()
        typed = ""
        for n, crew in enumerate(chance.sample([*CREWS, *CREWS], 6), 1):
            start(server, crew)
            for _ in range(chance.randrange(3, 9)):
                typed += press(page, chance)
            waiting(page, n)
            typed += press(page, chance, " ")  # the very next key after it came
            typed += press(page, chance, "Enter")
            press(page, chance, "Escape")
            expect(page.locator(".notice").first).to_be_visible()
            expect(page.get_by_role("dialog")).to_have_count(0)
            expect(field).to_be_focused()
            assert len(open_questions(server)) == n
        expect(field).to_have_value(typed)
        look.require_peace(page)


def press(page: Page, chance: random.Random, key: str = "") -> str:
    """Presses a key, any if none is named; what the field must hold of it. Tab leaves the field and comes back."""
    key = key or chance.choice(["a", "b", " ", "Enter", "Escape", "Tab"])
    page.keyboard.press({" ": "Space"}.get(key, key))
    if key == "Tab":
        page.keyboard.press("Shift+Tab")
    return {"Enter": "\n", "Escape": "", "Tab": ""}.get(key, key)


def test_what_is_typed_into_one_question_survives_others_that_come_and_go(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        start(server, "words")
        drawer = open_question(page)
        field = drawer.get_by_label("Your answer")
        field.focus()
        page.keyboard.type("dark ")
        for n, crew in enumerate(("approvals", "choices", "approvals"), 2):
            start(server, crew)
            waiting(page, n)
            page.keyboard.press("Space")
            page.keyboard.press("Enter")
        with server.asking() as client:  # somebody else answers the others
            for each in open_questions(server):
                if each["crew"] != "words":
                    text = "yes" if each["tool"] else "blue"
                    client.post(f"/v1/questions/{each['id']}/answer", json={"answer": text}).raise_for_status()
        waiting(page, 1)
        expect(page.locator(".notice")).to_have_count(0)
        page.keyboard.type("blue")
        expect(field).to_be_focused()
        expect(field).to_have_value("dark  \n \n \nblue")
        page.keyboard.press("Escape")  # is no answer, and loses nothing
        expect(drawer).to_have_count(0)
        page.get_by_role("link", name="Questions").click()
        page.get_by_role("button", name="Answer", exact=True).click()
        expect(field).to_have_value("dark  \n \n \nblue")
        field.press("Control+Enter")
        expect(page.locator("nav .count")).to_have_count(0)
        assert open_questions(server) == []
        look.require_peace(page)


def test_two_tabs_answer_at_once_and_one_is_told_that_it_was_second(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        first = entered(look, server)
        second = look.tab()
        second.get_by_text("live", exact=True).wait_for()
        run = start(server, "words")
        for page, text in ((first, "red"), (second, "blue")):
            open_question(page).get_by_label("Your answer").fill(text)
        second.route("**/v1/questions?*", lambda route: route.abort())  # it hears of the answer too late
        for page in (first, second):
            page.get_by_label("Your answer").press("Control+Enter")
        first.get_by_role("dialog").wait_for(state="detached")
        second.get_by_text("This was already answered").wait_for()
        second.unroute("**/v1/questions?*")
        expect(second.get_by_label("Your answer")).to_have_value("blue")
        first.goto(f"{look.address}/#/runs/{run}")
        first.locator(".entry-answer", has_text="red").wait_for()
        look.require_peace(first, second)


def test_the_drawer_has_what_is_needed_to_decide(tmp_path: Path) -> None:
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        run = start(server, "forms")
        notice = page.locator(".notice")
        expect(notice).to_contain_text("planner (forms) asks")
        expect(notice).to_contain_text("Your trip, please.")
        expect(notice).to_contain_text("left to answer")
        expect(notice.get_by_role("link", name="Open run")).to_have_attribute("href", f"#/runs/{run}")
        drawer = open_question(page)
        for words in (run, "asked just now", "60 min left to answer", "To book it.", "the input of forms"):
            expect(drawer).to_contain_text(words)
        expect(drawer).to_contain_text("after that the agent continues without an answer")
        drawer.get_by_role("button", name="Decide later").click()
        start(server, "approvals")
        drawer = open_question(page)
        expect(drawer).to_contain_text("cashier (approvals) wants to use pay")
        expect(drawer).to_contain_text("I pay the fees.")
        buttons = drawer.locator("form .actions button").all_text_contents()
        assert buttons == ["Approve", "Reject"]
        look.require_peace(page)


@pytest.mark.parametrize("crew", ["approvals", "choices"])
def test_keys_that_open_the_drawer_do_not_press_what_is_in_it(tmp_path: Path, crew: str) -> None:
    """Enter that is held down, and the second half of a double click."""
    with served(tmp_path) as (server, look):
        page = entered(look, server)
        start(server, crew)
        page.locator(".notice").get_by_role("button").first.focus()
        for _ in range(5):
            page.keyboard.press("Enter")
            page.keyboard.press("Space")
        expect(page.get_by_role("heading", name=CREWS[crew])).to_be_focused()
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Questions").click()
        page.locator(".inbox button").dblclick()
        assert len(open_questions(server)) == 1
        look.require_peace(page)


def test_on_a_telephone_a_notice_covers_little_and_the_drawer_fits(tmp_path: Path) -> None:
    with served(tmp_path, width=360, height=740, color_scheme="dark") as (server, look):
        page = entered(look, server)
        run = start(server, "approvals")
        notice = page.locator(".notice")
        notice.wait_for()
        box = notice.bounding_box()
        assert box is not None
        assert box["height"] < 740 / 3
        require_fit(page)
        drawer = open_question(page)
        expect(drawer.get_by_role("button", name="Approve")).to_be_visible()
        require_fit(page)
        drawer.get_by_label("Reason to reject").fill("too dear")
        drawer.get_by_role("button", name="Reject").click()
        page.goto(f"{look.address}/#/runs/{run}")
        status_of(page, "completed")
        page.locator(".entry-answer", has_text="no: too dear").wait_for()
        look.require_peace(page)
