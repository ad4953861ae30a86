"""Whatever reaches the page as text is shown as text: no script runs, no request leaves, the page keeps working."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.server.browser import (
    Looking,
    entered,
    looking,
    needs_chromium,
    open_question,
    require_fit,
    scrolled,
    status_of,
)
from tests.server.hostile import HOSTILE, PLAIN
from tests.server.process import PATIENT, serving
from tests.server.receiving import SECRET, SECRET_VALUE, receiving

pytestmark = [needs_chromium, pytest.mark.timeout(240)]

EVERYTHING = "\n".join(HOSTILE)
HUGE = "x" * 300_000
NAME = "<img src=x onerror=alert(1)> __proto__ \u202eoffice"
TOOLS = """
def echo(part: int) -> str:
    \"\"\"Gives back what a stranger wrote.\"\"\"
    import json, pathlib
    return json.loads(pathlib.Path("hostile.json").read_text("utf-8"))[part]

from interlock import tool

@tool(needs_approval=True)
def pay(amount: int = 0) -> str:
    \"\"\"Pays.\"\"\"
    return "paid"
"""
PARTS = ["\n".join(HOSTILE[n : n + 105]) for n in range(0, len(HOSTILE), 105)]
# A schema has at most a hundred parts.
FIELDS = {
    line[:200]: {"type": "string", "title": line, "description": line, **({"enum": PLAIN[:12]} if n % 10 == 0 else {})}
    for n, line in enumerate(PLAIN[:90])
}
ARGUMENTS = {line[:200]: line for line in HOSTILE[:150]}
STRANGE = (
    "#root :is(script, iframe, object, embed, style, base, meta, link, form[action], img, video, audio, math, marquee)"
)
ISOLATED = "[...document.querySelectorAll('bdi')].every((e) => getComputedStyle(e).unicodeBidi === 'isolate')"
LINKS = "[...document.querySelectorAll('a:not(.react-flow__attribution a)')].every((e) => e.matches('[href^=\"#\"]'))"


def as_yaml(value: Any) -> str:
    """JSON with the escapes that YAML wants, and without pairs of surrogates, which it does not take."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def crew() -> dict[str, Any]:
    return {
        "version": "2.0",
        "name": NAME,
        "description": PARTS[0],
        "entry_point": "clerk",
        "agents": [
            {
                "id": "clerk",
                "name": PARTS[1],
                "role": PARTS[2],
                "description": PARTS[3],
                "system_prompt": EVERYTHING.replace("\x00", ""),
                "tools": ["ask_user", "echo", "pay"],
            },
            {"id": "constructor", "role": PARTS[4]},
        ],
        "routing": {
            "signals": {
                "clerk": [
                    {"signal": "[NEXT]", "target": "constructor", "description": PARTS[0]},
                    {"signal": "[DONE]", "description": PARTS[1]},
                ],
                "constructor": [{"signal": "[DONE]", "description": PARTS[2]}],
            }
        },
    }


def broken() -> dict[str, Any]:
    """A problem for each: as a target, as a key and as an entry."""
    routes = [{"signal": f"[S{n}]", "target": line} for n, line in enumerate(PLAIN)]
    return {
        "version": "2.0",
        "name": "broken",
        "entry_point": PLAIN[0],
        "agents": [{"id": "clerk", **dict.fromkeys((line[:200] for line in PLAIN), 1)}],
        "routing": {"signals": {"clerk": routes}},
    }


def script() -> str:
    asked = {"question": EVERYTHING, "choices": [f"{n} {line}"[:500] for n, line in enumerate(PLAIN[:99])] + ["fine"]}
    form = {"question": PARTS[0], "context": PARTS[1], "answer_schema": {"type": "object", "properties": FIELDS}}
    clerk: list[Any] = [
        {"tool_calls": [{"name": "echo", "arguments": {"part": n}} for n in range(len(PARTS))]},
        {"tool_calls": [{"name": "ask_user", "arguments": asked}]},
        {"tool_calls": [{"name": "ask_user", "arguments": form}]},
        {"tool_calls": [{"name": "pay", "arguments": ARGUMENTS}]},
        f"{EVERYTHING}\n[NEXT]",
    ]
    last: list[Any] = [{"error": PARTS[0]}, f"{HUGE}\n[DONE]"]
    return as_yaml({"replies": {"clerk": clerk, "constructor": last}})


def write_files(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "broken.yaml").write_text(as_yaml(broken()), "utf-8")
    (folder / "strange_tools.py").write_text(TOOLS, "utf-8")
    (folder / "hostile.json").write_text(json.dumps(PARTS), "utf-8")


def announce(client: httpx2.Client) -> None:
    """Each of them as a broadcast, now and later, as a value and as a key."""
    for n, line in enumerate(HOSTILE):
        client.post("/v1/engine/signals", json={"type": f"strange:{n}", "data": {line: line}}).raise_for_status()
    for n, line in enumerate(PLAIN):
        later = {"type": f"later:{n}", "data": line, "inMs": 3_600_000}
        client.post("/v1/engine/signals/delayed", json=later).raise_for_status()


def lines(text: str | None) -> list[str]:
    """A NUL may be shown as what stands for it."""
    return (text or "").replace("\x00", "\ufffd").split("\n")


def require_harmless(look: Looking, page: Page) -> None:
    assert page.locator(STRANGE).count() == 0
    assert page.evaluate(ISOLATED)
    assert page.evaluate(LINKS)
    require_fit(page)
    assert page.evaluate("Object.keys(Object.prototype)") == []
    look.require_peace(page)


def test_there_are_five_hundred_of_them_and_no_two_alike() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 500
    assert all("\n" not in line for line in HOSTILE)


def test_hostile_words_are_words_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.setenv(SECRET, SECRET_VALUE)
    with receiving(410) as receiver:
        toml = f'{PATIENT}[tools]\nmodules = ["strange_tools"]\n{receiver.as_toml("run.finished")}'
        with (
            serving(tmp_path, "broken.yaml", script=script(), toml=toml, crew=as_yaml(crew())) as server,
            looking(server, width=360, height=740) as look,
        ):
            page = entered(look, server)
            with server.asking() as client:
                announce(client)
            see_the_run(look, page)
            see_the_crews(look, page)
            see_the_broadcasts(look, page)
            see_the_rest(look, page)


def see_the_run(look: Looking, page: Page) -> None:
    page.get_by_label("Input").fill(EVERYTHING)
    page.get_by_role("button", name="Start run").click()
    drawer = open_question(page)
    drawer.get_by_text("<svg onload=alert(1)>").first.wait_for()
    drawer.locator(".drawer-question").get_by_role("button", name="Show all").click()
    require_harmless(look, page)
    drawer.get_by_label("Your answer").select_option("fine")
    drawer.get_by_role("button", name="Send answer").click()
    see_the_form(look, page)
    see_the_approval(look, page)
    status_of(page, "completed")
    for tab in ("Timeline", "Events", "Decisions", "Transcript"):
        page.get_by_role("tab", name=tab).click()
        page.locator(".panel > *").first.wait_for()
        require_harmless(look, page)
    show_all(page)
    for entry in page.locator(".entry-tool details").all():
        entry.evaluate("(each) => { each.open = true; }")
    require_harmless(look, page)  # formatted
    page.get_by_label("Plain text").check()
    show_all(page)
    said = [lines(text) for text in page.locator(".entry .said").all_text_contents()]
    for text in (EVERYTHING, *PARTS, f"{EVERYTHING}\n[NEXT]", f"{HUGE}\n[DONE]"):
        assert lines(text) in said
    require_harmless(look, page)
    page.get_by_role("tab", name="Events").click()
    page.locator(".event-row", has_text="run.finished").click()
    page.locator(".event-whole", has_text="xxxx").wait_for()
    require_harmless(look, page)


def show_all(page: Page) -> None:
    while (more := page.locator(".entry").get_by_role("button", name="Show all")).count():
        more.first.click()


def see_the_form(look: Looking, page: Page) -> None:
    """Hostile names, titles, descriptions and choices of fields, and hostile answers in them."""
    drawer = open_question(page)
    expect(drawer.locator("input[type=text], textarea, select")).to_have_count(len(FIELDS))
    require_harmless(look, page)
    for n, field in enumerate(drawer.locator("input[type=text], textarea").all()):
        field.fill(PLAIN[n].replace("\x00", ""))
    drawer.get_by_role("button", name="Send answer").click()
    require_harmless(look, page)
    drawer.wait_for(state="detached")


def see_the_approval(look: Looking, page: Page) -> None:
    """Hostile names and values of arguments, and their difference."""
    drawer = open_question(page)
    expect(drawer.locator(".field")).to_have_count(len(ARGUMENTS) + 1)  # and what the tool takes
    for field in drawer.locator(".field :is(input, textarea)").all()[1:]:
        field.fill("<img src=x onerror=alert(1)>")
    expect(drawer.locator(".changes ins").first).to_contain_text("<img")
    require_harmless(look, page)
    drawer.get_by_role("button", name="Reject").click()
    drawer.wait_for(state="detached")


def see_the_crews(look: Looking, page: Page) -> None:
    page.get_by_role("link", name="Crews").click()
    page.locator(".card", has_text="__proto__").wait_for()
    require_harmless(look, page)
    page.locator(".card", has_text="__proto__").click()
    page.locator(".node", has_text="constructor").wait_for()
    page.get_by_role("button", name="Show all").first.click()
    prompt = page.locator(".prompt .said").first.text_content() or ""
    assert [line for line in HOSTILE if line.replace("\x00", "") not in prompt] == []
    require_harmless(look, page)
    page.get_by_role("tab", name="Signals").click()
    page.get_by_role("cell", name="[NEXT]").first.wait_for()
    require_harmless(look, page)
    page.goto(f"{look.address}/#/crews/broken")
    page.locator(".problem").nth(len(PLAIN)).wait_for()
    require_harmless(look, page)


def see_the_broadcasts(look: Looking, page: Page) -> None:
    page.get_by_role("link", name="Broadcasts").click()
    page.locator(".feed-row").first.wait_for()
    page.get_by_role("region", name="Scheduled").get_by_role("cell", name="later:0 ").wait_for()
    page.get_by_role("region", name="Failed webhooks").get_by_text("run.finished", exact=True).click()
    require_harmless(look, page)
    for part in range(5):
        scrolled(page, ".feed .virtual", part / 5)
        page.locator(".feed-row", has_text=f"strange:{part * len(HOSTILE) // 5 + 3}").first.wait_for()
        require_harmless(look, page)


def see_the_rest(look: Looking, page: Page) -> None:
    for place in ("runs", "questions", "usage"):
        page.goto(f"{look.address}/#/{place}")
        page.locator("#content > *").first.wait_for()
        page.get_by_text("Loading").first.wait_for(state="detached")
        require_harmless(look, page)
    page.get_by_role("combobox", name="By").select_option("agent")
    page.get_by_text("constructor").first.wait_for()
    require_harmless(look, page)
