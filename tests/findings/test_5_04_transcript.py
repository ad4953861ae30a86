"""A transcript that can be read: formatted, with what each message took, and from its beginning."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.server.browser import entered, looking, needs_chromium, start_run, status_of
from tests.server.process import CREW, PATIENT, Served, serving

pytestmark = [needs_chromium, pytest.mark.timeout(300)]

REPORT = """\
# Report

All is **well**, see `main.py` and [the page](https://evil.example/page).
![a picture](https://evil.example/x.png)

- one
- [x] two

| name | size |
|------|------|
| a    | 1    |

```python
print("<b>hi</b>")
```

```diff
@@ -1,2 +1,2 @@
 same
-old
+new
```
"""
TOOLS = """\
def look_up(order: int) -> str:
    \"\"\"Looks an order up.\"\"\"
    return '{"order": 12345678901234567890, "lines": [{"item": "lamp"}]}'
"""
MODELLED = """\
version: "2.0"
name: office
entry_point: clerk
agents:
  - {id: clerk, tools: [look_up], model: "openai:gpt-4o-mini"}
  - {id: boss}
routing:
  signals:
    clerk: [{signal: "[NEXT]", target: boss}]
    boss: [{signal: "[DONE]"}]
"""
REPLIES: dict[str, list[Any]] = {
    "clerk": [
        {"tool_calls": [{"name": "look_up", "arguments": {"order": 7}}], "text": "I look."},
        {"text": f"{REPORT}\n[NEXT]", "usage": {"input_tokens": 1_200, "output_tokens": 34, "cost": 0.5}},
    ],
    "boss": ['{"ok": true}', "Fine. [DONE]"],
}
LONG = 130
TOP = "(box) => box.scrollTop"
LEFT = "(box) => box.scrollHeight - box.clientHeight - box.scrollTop"
# Waits until so much is left below, at least or at most.
UNTIL = """(box, [least, most]) => new Promise((done) => {
    const look = () => {
        const left = box.scrollHeight - box.clientHeight - box.scrollTop;
        if (left >= least && left <= most) done();
        else requestAnimationFrame(look);
    };
    look();
})"""


def test_replies_are_formatted_and_tell_what_they_took(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(TOOLS, "utf-8")
    toml = PATIENT + '[tools]\nmodules = ["desk"]\n'
    script = json.dumps({"replies": REPLIES})
    with serving(tmp_path, script=script, toml=toml, crew=MODELLED) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "go")
        status_of(page, "completed")
        require_formatted(page)
        require_tool(page)
        page.get_by_label("Agent").select_option("boss")
        expect(page.locator(".entry .author", has_text="clerk")).to_have_count(0)
        page.get_by_label("Agent").select_option("")
        page.get_by_label("Plain text").check()
        expect(page.locator(".entry-reply .said").nth(1)).to_have_text(f"{REPORT}\n[NEXT]", use_inner_text=True)
        look.require_peace(page)


def test_what_was_typed_while_the_history_was_loading_is_not_typed_any_more(tmp_path: Path) -> None:
    """The stream tells of a run whose history comes late: pieces of replies that the history has are no news."""
    script = json.dumps({"replies": {"clerk": ["Which? [WAIT]", "Last. [DONE]"]}})
    held: list[Route] = []
    with serving(tmp_path, script=script) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "go")
        status_of(page, "paused")
        page.route("**/events?follow=false*", lambda route: held.append(route))
        page.reload()
        status_of(page, "paused")
        page.get_by_text("live", exact=True).wait_for()
        answer_the_question(server)
        status_of(page, "completed")
        assert held
        for route in held:
            route.continue_()
        page.locator(".entry-reply", has_text="Last.").wait_for()
        expect(page.locator(".entry-saying")).to_have_count(0)


def answer_the_question(server: Served) -> None:
    with server.asking() as client:
        (question,) = client.get("/v1/questions").json()["questions"]
        client.post(f"/v1/questions/{question['id']}/answer", json={"answer": "this"}).raise_for_status()


def test_a_difference_far_down_makes_the_page_no_longer(tmp_path: Path) -> None:
    """What is there for those who hear the page scrolls with its transcript."""
    replies = {"clerk": ["word\n\n" * 60 + REPORT + "[NEXT]"], "boss": ["Fine. [DONE]"]}
    with serving(tmp_path, script=json.dumps({"replies": replies})) as server, looking(server) as look:
        page = entered(look, server)
        start_run(page, "go")
        status_of(page, "completed")
        page.locator(".line-remove").wait_for()
        assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0


def require_formatted(page: Page) -> None:
    reply = page.locator(".entry-reply").nth(1)
    expect(reply.get_by_role("heading", name="Report")).to_be_visible()
    expect(reply.locator("strong")).to_have_text("well")
    expect(reply.locator("p > code")).to_have_text("main.py")
    expect(reply.locator(".address")).to_have_text(["(https://evil.example/page)", "(https://evil.example/x.png)"])
    assert page.locator("a[href*=evil], img").count() == 0
    expect(reply.get_by_role("listitem")).to_have_count(2)
    expect(reply.get_by_role("cell", name="a")).to_be_visible()
    expect(reply.locator(".source-text")).to_have_text('print("<b>hi</b>")')
    expect(reply.locator(".line-add")).to_contain_text("+new")
    expect(reply.locator(".line-remove")).to_contain_text("-old")
    expect(reply.locator(".mark")).to_have_text("[NEXT]")
    facts = reply.locator(".facts-line")
    expect(facts).to_contain_text("openai:gpt-4o-mini · 1,234 tokens · $0.500 · ")
    expect(facts).to_contain_text("s")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reply.get_by_role("button", name="Copy message of clerk").click()
    expect(reply.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{REPORT}\n[NEXT]"


def require_tool(page: Page) -> None:
    """Folded with its result, and numbers as they were."""
    tool = page.locator(".entry-tool")
    expect(tool).to_have_count(1)
    expect(tool.locator("summary")).to_contain_text("look_up returned")
    expect(tool.get_by_text("Arguments")).to_be_hidden()
    tool.locator("summary").click()
    expect(tool.get_by_text("Arguments")).to_be_visible()
    expect(tool.locator(".source-json").last).to_contain_text('"order": 12345678901234567890,\n  "lines": [\n    {')


def test_a_run_that_is_over_opens_at_its_beginning_and_one_that_is_live_at_its_end(tmp_path: Path) -> None:
    turns = [f"Turn {n}. " + "word " * 60 + "[NEXT]" for n in range(LONG)]
    replies = {"clerk": [*turns, "Which? [WAIT]", "Last. [DONE]"], "boss": ["Back. [RETRY]"] * LONG}
    crew = CREW + f"settings: {{max_handoffs: {3 * LONG}, loop_window: 0}}\n"
    script = json.dumps({"replies": replies})
    with serving(tmp_path, script=script, crew=crew) as server, looking(server) as look:
        page = entered(look, server)
        run = start_run(page, "go")
        status_of(page, "paused")
        require_at_end(page, "Which?")
        page.reload()
        require_at_end(page, "Which?")
        box = page.locator(".transcript")
        box.hover()
        page.mouse.wheel(0, -600)
        box.evaluate(UNTIL, [300, 100_000])
        answer_the_question(server)
        status_of(page, "completed")
        page.locator(".entry", has_text="Last.").wait_for()
        assert box.evaluate(LEFT) > 300  # whoever scrolled up is left there
        page.goto(f"{look.address}/#/runs")
        page.goto(f"{look.address}/#/runs/{run}")
        page.locator(".entry-input").wait_for()
        expect(page.locator(".entry").first).to_contain_text("go")
        page.get_by_role("button", name="Show later").wait_for()
        assert box.evaluate(TOP) == 0
        look.require_peace(page)


def require_at_end(page: Page, words: str) -> None:
    page.locator(".entry", has_text=words).wait_for()
    page.locator(".transcript").evaluate(UNTIL, [-5, 5])
