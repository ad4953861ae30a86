"""A hook that redacts: what it sees at its six points reaches no model, no event, no result, and no file."""

import asyncio
import re
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

from interlock import HookCall, Interlock, RunOutput, load_crew
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.tools.python_tools import ToolContext
from interlock.cli.main import interlock
from interlock.crew.host import Host
from interlock.errors import ToolFailed
from interlock.ports import ModelReply, ModelRequest

FILES = {
    "crew.yaml": """\
version: "2.0"
name: desk
entry_point: a
agents:
  - {id: a, tools: [look_up, break_it, memory_write, memory_read, generate_signal]}
  - {id: clerk}
sub_crews: {team: {config_path: team}}
routing:
  signals:
    a: [{signal: "[WAIT]"}, {signal: "[TEAM]", type: sub_crew, target_crew: team}, {signal: "[DONE]"}]
delegation: {children: {a: [clerk]}, select: all}
subscriptions: {a: [{pattern: "door:*"}]}
""",
    "team/crew.yaml": """\
version: "2.0"
name: team
entry_point: x
agents: [{id: x, tools: [look_up, memory_read]}]
routing: {signals: {x: [{signal: "[DONE]"}]}}
subscriptions: {x: [{pattern: "news:*"}]}
""",
}
CANARY = re.compile("canary-[0-9]+")


def clean(text: str) -> str:
    return CANARY.sub("REDACTED", text)


def clean_value(value: Any) -> Any:
    return msgspec.json.decode(clean(msgspec.json.encode(value).decode()))


class Redact:
    """Replaces at every point, and keeps no reply that it replaced."""

    name, keeps_original = "redact", False

    def on_input(self, text: str) -> str:
        return clean(text)

    def before_model(self, request: ModelRequest) -> ModelRequest | None:
        said = tuple(msgspec.structs.replace(each, text=clean(each.text)) for each in request.messages)
        safe = msgspec.structs.replace(request, system=clean(request.system), messages=said)
        return safe if safe != request else None

    async def after_model(self, _request: ModelRequest, reply: ModelReply) -> ModelReply:
        calls = tuple(msgspec.structs.replace(each, arguments=clean(each.arguments)) for each in reply.tool_calls)
        return msgspec.structs.replace(reply, text=clean(reply.text), tool_calls=calls)

    async def before_tool(self, call: HookCall) -> dict[str, Any]:
        given: dict[str, Any] = clean_value(call.arguments)
        return given

    def after_tool(self, _call: HookCall, result: str) -> str:
        return clean(result)

    def on_output(self, output: RunOutput) -> str:
        return clean(output.output)


class Story:
    """A run in which canaries come in at every place; `asked` is what the models were asked."""

    def __init__(self, folder: Path, *hooks: Any) -> None:
        self.folder, self.hooks = folder, hooks
        self.asked: list[tuple[str, Any]] = []
        self.shown: list[object] = []
        self.arguments: list[str] = []
        self._numbers = count()
        for path, text in FILES.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, "utf-8")
        self.crew = load_crew(folder, host=Host(tools=("look_up", "break_it"))).definition
        self.scripted = ScriptedModel({"a": self.of_a(), "clerk": self.of_clerk(), "x": self.of_x()})

    @property
    def canaries(self) -> list[str]:
        return [f"canary-{number}" for number in range(next(self._numbers))]

    def hide(self, many: int = 2) -> str:
        return " ".join(f"canary-{next(self._numbers)}" for _ in range(many))

    def calls(self, name: str, **given: Any) -> ScriptedAnswer:
        return ScriptedAnswer(f"I call it {self.hide()}", tool_calls=(ToolCall(name, given),))

    def of_a(self) -> list[Any]:
        return [
            self.calls("look_up", what=self.hide()),
            self.calls("break_it"),
            self.calls("memory_write", key="k", value={"deep": [self.hide()]}),
            self.calls("memory_read", key="k"),
            self.calls("generate_signal", type="news:today", data={"what": self.hide()}),
            self.calls("delegate", to="clerk", task=self.hide()),
            f"Which {self.hide()}?\n[WAIT]",
            f"Team, look at {self.hide()}\n[TEAM]",
            f"All is {self.hide()}\n[DONE]",
        ]

    def of_clerk(self) -> list[Any]:
        return [self.calls("look_up", what="not mine"), self.calls("report", result=f"found {self.hide()}")]

    def of_x(self) -> list[Any]:
        return [
            self.calls("look_up", what=self.hide()),
            self.calls("memory_read", key="k"),
            f"We found {self.hide()}\n[DONE]",
        ]

    async def look_up(self, what: str) -> str:
        self.arguments.append(what)
        return f"{what} is {self.hide()}"

    async def break_it(self) -> str:
        raise ToolFailed(f"it broke at {self.hide()}")

    def box(self) -> Interlock:
        story = self

        class Noting:
            def reply(self, request: ModelRequest) -> Any:
                story.asked.append((request.system, tuple(request.messages)))
                return story.scripted.reply(request)

        tools: list[Any] = [self.look_up, self.break_it]
        return Interlock(self.folder / "data", models=Noting(), tools=tools, hooks=self.hooks)

    async def play(self) -> None:
        async with self.box() as box:
            box.watch(lambda stored: self.shown.append(stored), self.shown.append)
            run = await box.start(self.crew, f"begin {self.hide()}", run_id="r")
            self.shown.append(await run.result())
            await box.resume("r", f"that one {self.hide()}")
            self.shown.append(await run.result())
            self.shown += [event async for event in run.events()]

    def transcript(self) -> str:
        words = ["runs", "show", "r", "--data", str(self.folder / "data")]
        told = CliRunner().invoke(interlock, words)
        assert told.exit_code == 0
        return told.output

    def stored(self) -> bytes:
        files = [path for path in (self.folder / "data").rglob("*") if path.is_file()]
        return b"".join(path.read_bytes() for path in files)


def found_in(story: Story) -> dict[str, set[str]]:
    places = {
        "requests": repr(story.asked),
        "shown": repr(story.shown),
        "tools": repr(story.arguments),
        "transcript": story.transcript(),
        "files": story.stored().decode("utf-8", "replace"),
    }
    return {place: set(CANARY.findall(text)) for place, text in places.items()}


def test_fifty_canaries_come_in_everywhere_and_none_gets_out(tmp_path: Path) -> None:
    story = Story(tmp_path, Redact())
    asyncio.run(story.play())
    result = story.shown[-1]
    assert "[DONE]" in repr(result) and len(story.asked) == 14
    assert "REDACTED" in repr(story.asked) and "REDACTED" in story.transcript()
    assert len(story.canaries) >= 50
    assert found_in(story) == {"requests": set(), "shown": set(), "tools": set(), "transcript": set(), "files": set()}


def test_without_the_hook_the_same_run_shows_them(tmp_path: Path) -> None:
    """The test above can fail: every place that it looks at would show canaries."""
    story = Story(tmp_path)
    asyncio.run(story.play())
    sizes = {place: len(found) for place, found in found_in(story).items()}
    assert sizes == {"requests": 46, "shown": 50, "tools": 4, "transcript": 14, "files": 50}


def test_what_no_point_sees_is_kept_out_of_requests_and_stays_in_the_folder(tmp_path: Path) -> None:
    """A broadcast of the host and what a tool writes to memory are stored as they are; `before_model` sees them."""
    story = Story(tmp_path, Redact())
    story.scripted = ScriptedModel({"a": [self_call(), f"All is {story.hide()}\n[DONE]"]})
    heard, kept = story.hide(1), story.hide(1)

    async def look_up(context: ToolContext, what: str) -> str:
        context.memory["k"] = kept
        return "kept"

    async def play() -> None:
        story.look_up = look_up  # type: ignore[method-assign,assignment]
        async with story.box() as box:
            await box.listen(story.crew)
            await box.signals.emit("door:rung", {"by": heard})
            story.shown.append(await (await box.start(story.crew, "begin", run_id="r")).result())

    asyncio.run(play())
    found = found_in(story)
    assert "door:rung" in repr(story.asked)
    assert found["requests"] == set()
    assert {heard, kept} <= found["files"]


def self_call() -> ScriptedAnswer:
    return ScriptedAnswer("", tool_calls=(ToolCall("look_up", {"what": "a"}), ToolCall("memory_read", {"key": "k"})))
