"""The context of a tool: in a run, and made by hand in a test of the tool."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from interlock import Retry, ToolContext, tool
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.errors import ToolFailed
from interlock.limits import MEMORY_VALUE_BYTES_MAX, TOOL_PROGRESS_CHARS_MAX
from interlock.ports import ToolCall
from tests.adapters.tools.tool_runs import Calls, play


class Note(BaseModel):
    text: str


async def test_a_tool_sees_its_run_its_call_and_its_user() -> None:
    seen: list[ToolContext] = []

    def look(context: ToolContext) -> None:
        seen.append(context)

    played = await play(PythonToolbox([look], deps_for=lambda root: {"root": root}), [[("look", {})]], user="ann")
    (context,) = seen
    (called,) = [event for event in played.events if event["type"] == "tool.called"]
    assert (context.run, context.agent, context.crew, context.user) == ("r", "clerk", "desk", "ann")
    assert (context.call, context.key, context.epoch) == (called["call"], f"r:{called['call']}", 0)
    assert context.deps == {"root": "r"}


def test_a_test_makes_its_own_context() -> None:
    @tool
    def keep(text: str, context: ToolContext[list[str]]) -> str:
        context.deps.append(text)
        context.memory["text"] = text
        context.progress("kept")
        return f"{context.memory.read('text')}{context.memory.read('other', '!')}"

    context = ToolContext(deps=["before"], user="ann")
    assert keep("now", context) == "now!"
    assert (context.deps, dict(context.memory)) == (["before", "now"], {"text": "now"})


# Shared memory


async def test_what_a_tool_writes_is_a_fact_of_the_run_when_it_returns() -> None:
    def keep(context: ToolContext) -> str:
        memory = context.memory
        memory["z"], memory["a"] = {"n": [1]}, Note(text="t")
        memory.write("path", Path("x/y"))
        memory["z"]["n"].append(2)  # a copy: what is kept does not change
        return f"{sorted(memory)} {memory['z']} {'b' in memory} {memory.get('b', 0)} {len(memory)}"

    def look(context: ToolContext) -> Any:
        return dict(context.memory)

    rounds: list[Calls] = [[("keep", {})], [("look", {}), ("memory_read", {"key": "a"})]]
    played = await play(PythonToolbox([keep, look]), rounds, also="memory_read")
    assert played.told == [
        "['a', 'path', 'z'] {'n': [1]} False 0 3",
        '{"a":{"text":"t"},"path":"x/y","z":{"n":[1]}}',
        '{"text":"t"}',
    ]
    types = [(event["type"], event.get("key"), event.get("by")) for event in played.events]
    at = types.index(("tool.returned", None, None))
    assert types[at + 1 : at + 4] == [("memory.written", key, "clerk") for key in ("a", "path", "z")]
    assert played.state.memory == {"a": {"text": "t"}, "path": "x/y", "z": {"n": [1]}}
    returned = [event for event in played.events if event["type"] == "tool.returned"]
    assert [sorted(event.get("memory", ())) for event in returned] == [["a", "path", "z"], [], []]


async def test_a_call_that_fails_has_written_nothing() -> None:
    def fail(how: str, context: ToolContext) -> None:
        context.memory["a"] = 1
        raise Retry(how) if how else ValueError

    played = await play(PythonToolbox([fail]), [[("fail", {"how": "so"})], [("fail", {"how": ""})]])
    assert played.told == ["error: call 'fail' again with other arguments: so", "error: ValueError: "]
    assert played.state.memory == {}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("k", "x" * MEMORY_VALUE_BYTES_MAX, "the value of 'k' in the shared memory has "),
        ("", 1, "'' is not a key of the shared memory; use a text of 1 to 200 characters"),
        ("k" * 201, 1, "' is not a key of the shared memory"),
        ("k", object(), "a object cannot be kept: JSON has no form for a object"),
        ("k", "\ud800", "the value of 'k' cannot be kept in the shared memory: it is not JSON"),
    ],
)
async def test_what_cannot_be_kept_is_told_at_once(key: str, value: Any, expected: str) -> None:
    def keep(context: ToolContext) -> None:
        context.memory[key] = value

    (told,) = (await play(PythonToolbox([keep]), [[("keep", {})]])).told
    assert told.startswith("error: ")
    assert expected in told


async def test_a_late_write_of_a_thread_that_was_left_behind_is_refused() -> None:
    late, over, refused = threading.Event(), threading.Event(), list[str]()

    def leave(context: ToolContext) -> str:
        def write_later() -> None:
            late.wait(30)
            try:
                context.memory["late"] = 1
            except ToolFailed as error:
                refused.append(str(error))
            context.progress("too late")
            over.set()

        threading.Thread(target=write_later, daemon=True).start()
        return "left"

    played = await play(PythonToolbox([leave]), [[("leave", {})]])
    late.set()
    assert over.wait(30)
    assert refused == ["'late' is not kept in the shared memory: the call is over"]
    assert played.state.memory == {}


# Progress


async def test_progress_is_shown_to_followers_in_order_and_not_stored() -> None:
    def work(context: ToolContext) -> str:
        for n in range(3):
            context.progress(f"{n} of 3")
        return "done"

    async def work_async(context: ToolContext) -> str:
        context.progress("x" * (TOOL_PROGRESS_CHARS_MAX + 5))
        await asyncio.sleep(0)
        return "done"

    played = await play(PythonToolbox([work, work_async]), [[("work", {})], [("work_async", {})]])
    shown = [event for event in played.events if event["type"] == "tool.progress"]
    calls = [event["call"] for event in played.events if event["type"] == "tool.called"]
    assert [event["text"] for event in shown[:3]] == ["0 of 3", "1 of 3", "2 of 3"]
    assert shown[0] == {"run": "r", "type": "tool.progress", "agent": "clerk", "call": calls[0], "text": "0 of 3"}
    assert shown[3]["text"] == "x" * TOOL_PROGRESS_CHARS_MAX + "\n[cut: 5 more characters]"
    types = [event["type"] for event in played.events]
    assert types.index("tool.called") < types.index("tool.progress") < types.index("tool.returned")


# Loops


async def test_an_async_tool_works_in_the_loop_that_its_run_was_given() -> None:
    ready, stop = threading.Event(), threading.Event()
    other = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: (other.call_soon(ready.set), other.run_forever()), daemon=True)
    thread.start()
    ready.wait(30)

    async def where() -> str:
        return threading.current_thread().name

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stop.set()

    toolbox = PythonToolbox([where, hang], loop_for=lambda root: other if root == "r" else None)
    assert await toolbox.run(ToolCall(name="where", root="r")) == thread.name
    assert await toolbox.run(ToolCall(name="where", root="s")) == threading.current_thread().name
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await toolbox.run(ToolCall(name="hang", root="r"))
    assert stop.wait(30)
    other.call_soon_threadsafe(other.stop)
    thread.join(30)
    other.close()
