"""Seed 002, sentence by sentence: each test is named after what the seed says."""

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cuid2 import Cuid

from interlock import Interlock, UsageError
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.broadcast import matches
from interlock.broadcast.naming import is_broadcast_id
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.errors import StoreFailed
from interlock.messages.frames import words_in_frames
from interlock.ports import ModelRequest
from interlock.testing import ManualClock


async def until(check: Callable[[], Awaitable[Any]]) -> Any:
    while not (found := await check()):
        await asyncio.sleep(0)
    return found


def crew_of(folder: Path, text: str, name: str = "ci") -> CrewDefinition:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crew.yaml").write_text(f'version: "2.0"\nname: {name}\n{text}', "utf-8")
    return load_definition(folder)


ONE = """\
entry_point: a
agents: [{id: a, tools: [generate_signal, signal_subscribe, signal_unsubscribe]}, {id: b}]
routing: {signals: {a: [{signal: "[DONE]"}, {signal: "[NEXT]", target: b}], b: [{signal: "[DONE]"}]}}
subscriptions:
  b: [{pattern: "build:*:done", silent: %s}]
"""


def calls(name: str, **given: Any) -> ScriptedAnswer:
    return ScriptedAnswer(tool_calls=(ToolCall(name=name, arguments=given),))


async def events_of(tmp_path: Path, *answers: Any, text: str = ONE % "true") -> list[dict[str, Any]]:
    crew = crew_of(tmp_path / "crew", text)

    async with Interlock(tmp_path / "data", models=ScriptedModel({"a": [*answers, "so [DONE]"], "b": []})) as box:
        run = await box.start(crew, "go")
        await run.result()
        return [event async for event in run.events()]


async def emitted(tmp_path: Path, kind: str = "build:x:done", **more: Any) -> Any:
    async with Interlock(tmp_path / "data") as box:
        return await box.signals.emit(kind, **more)


# Signals


async def test_fire_and_forget_broadcasts_that_any_agent_can_subscribe_to_by_pattern(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", ONE % "true")

    async with Interlock(tmp_path / "data") as box:
        await box.listen(crew)
        for agent in ("a", "b"):
            await box.signals.add("ci", agent, "build:*:done")
        await box.signals.emit("build:x:done")
        assert list(await box.signals.bus.agents_with_unread()) == [("ci", "a"), ("ci", "b")]


async def test_the_producer_does_not_need_to_know_who_listens(tmp_path: Path) -> None:
    assert (await emitted(tmp_path)).type == "build:x:done"


# Signal structure


async def test_id_is_a_cuid2_identifier(tmp_path: Path) -> None:
    assert len((await emitted(tmp_path)).id) == len(Cuid().generate()) == 24
    assert is_broadcast_id((await emitted(tmp_path)).id)
    events = await events_of(tmp_path / "run", calls("generate_signal", type="x"))
    (announced,) = [event["signal"] for event in events if event["type"] == "broadcast.emitted"]
    assert is_broadcast_id(announced["id"]) and len(announced["id"]) == 24


async def test_type_is_a_colon_separated_string(tmp_path: Path) -> None:
    assert (await emitted(tmp_path, " build:project-x:done ")).type == "build:project-x:done"


async def test_data_is_an_optional_payload(tmp_path: Path) -> None:
    await emitted(tmp_path)
    await emitted(tmp_path, data={"n": [1, 2.5, None, "x"]})
    lines = (tmp_path / "data" / "signals" / "events.jsonl").read_text().splitlines()
    assert "data" not in json.loads(lines[0])
    assert json.loads(lines[1])["data"] == {"n": [1, 2.5, None, "x"]}


async def test_created_at_is_a_unix_timestamp_in_milliseconds(tmp_path: Path) -> None:
    clock = ManualClock(1_790_000_000_123)
    async with Interlock(tmp_path / "data", clock=clock) as box:
        made = await box.signals.emit("x")
    assert made.created_at == 1_790_000_000_123


# Source types


async def test_system_internal_system_events(tmp_path: Path) -> None:
    await events_of(tmp_path)
    async with Interlock(tmp_path / "data") as box:
        found = {(each.type, each.source.type, each.source.id) for each in await box.signals.newest()}
    assert found == {("agent:a:wake", "system", ""), ("agent:a:sleep", "system", "")}


async def test_agent_emitted_by_an_agent(tmp_path: Path) -> None:
    events = await events_of(tmp_path, calls("generate_signal", type="x"))
    (announced,) = [event["signal"] for event in events if event["type"] == "broadcast.emitted"]
    assert announced["source"] == {"type": "agent", "id": "a"}


async def test_webhook_triggered_by_an_external_webhook(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data") as box:
        made = await box.signals.as_webhook("github").emit("push")
    assert (made.source.type, made.source.id) == ("webhook", "github")


async def test_process_emitted_by_a_running_process(tmp_path: Path) -> None:
    assert ((await emitted(tmp_path)).source.type, (await emitted(tmp_path)).source.id) == ("process", "")
    async with Interlock(tmp_path / "data") as box:
        made = await box.signals.as_process("ci").emit("x")
    assert made.source.id == "ci"


async def test_the_emitter_may_not_state_another_source(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not yours"):
        await emitted(tmp_path, source={"type": "system"})
    events = await events_of(tmp_path, calls("generate_signal", type="x", source={"type": "agent", "id": "b"}))
    assert [event["ok"] for event in events if event["type"] == "tool.returned"] == [False]


# Subscriptions


@pytest.mark.parametrize("kind", ["build:project-x:done", "build:frontend:done"])
def test_build_star_done_matches(kind: str) -> None:
    assert matches("build:*:done", kind)


def test_star_matches_exactly_one_colon_separated_segment() -> None:
    assert not matches("build:*:done", "build:done") and not matches("build:*:done", "build:a:b:done")


async def test_silent_is_the_default_and_does_not_trigger_inference(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", (ONE % "true").replace(", silent: true", ""))
    asked: list[str] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request.agent)
        return "so [DONE]"

    async with Interlock(tmp_path / "data", models=answer, recover=True) as box:
        await (await box.start(crew, "go")).result()
        await box.signals.emit("build:x:done")
        for _ in range(100):
            await asyncio.sleep(0)
        await box.signals.bus.head()
        mail = await box.signals.bus.agents_with_unread()
    assert asked == ["a"] and mail == [("ci", "b")]


async def test_silent_is_delivered_as_a_system_message(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", ONE % "true")
    shown: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        shown.append(request)
        return "over [NEXT]" if request.agent == "a" else "so [DONE]"

    async with Interlock(tmp_path / "data", models=answer) as box:
        await box.listen(crew)
        await box.signals.emit("build:x:done", {"ok": 1})
        run = await box.start(crew, "go")
        await run.result()
        history = (await box.state(run.id)).history
    (entry,) = [each for each in history if each.author == "system"]
    assert entry.role == "user" and "build:x:done" in entry.text
    data = words_in_frames(next(each.text for each in shown[-1].messages if "build:x:done" in each.text))
    assert [json.loads(words)["data"] for words in data] == [{"ok": 1}]


async def test_not_silent_triggers_inference(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", ONE % "false")
    asked: list[str] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request.agent)
        return "so [DONE]"

    async with Interlock(tmp_path / "data", models=answer, recover=True) as box:
        await box.listen(crew)
        await box.signals.emit("build:x:done")
        await until(lambda: box.journal.rows(status="completed"))
    assert asked == ["b"]


# Tools


async def test_generate_signal_emits_with_a_type_optional_source_and_optional_data(tmp_path: Path) -> None:
    own = {"type": "agent", "id": "a"}
    events = await events_of(
        tmp_path, calls("generate_signal", type="x"), calls("generate_signal", type="y", source=own, data=[1])
    )
    announced = [event["signal"] for event in events if event["type"] == "broadcast.emitted"]
    assert [(each["type"], each.get("data")) for each in announced] == [("x", None), ("y", [1])]


async def test_signal_subscribe_subscribes_to_signals_matching_a_pattern(tmp_path: Path) -> None:
    await events_of(tmp_path, calls("signal_subscribe", pattern="deploy:*"))
    async with Interlock(tmp_path / "data") as box:
        found = await box.signals.subscriptions()
    assert ("a", "deploy:*", True) in [(each.agent, each.pattern, each.silent) for each in found]


async def test_signal_unsubscribe_removes_a_subscription_by_exact_pattern_match(tmp_path: Path) -> None:
    await events_of(
        tmp_path,
        calls("signal_subscribe", pattern="deploy:*"),
        calls("signal_unsubscribe", pattern="deploy:x"),
        calls("signal_subscribe", pattern="other"),
        calls("signal_unsubscribe", pattern="other"),
    )
    async with Interlock(tmp_path / "data") as box:
        found = await box.signals.subscriptions()
    assert [each.pattern for each in found if each.agent == "a"] == ["deploy:*"]


# Delayed signals


async def test_scheduled_for_future_delivery_using_wall_time_timestamps(tmp_path: Path) -> None:
    clock = ManualClock()
    at = clock.now_ms() + 60_000
    async with Interlock(tmp_path / "data", clock=clock) as box:
        entry = await box.signals.schedule("x", at=at)
    assert entry.deliver_at == at


async def test_stored_in_config_signals_delayed_json(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data") as box:
        entry = await box.signals.schedule("x", {"n": 1}, in_ms=60_000)
    file = tmp_path / "data" / "signals" / "delayed.json"
    (kept,) = json.loads(file.read_text())["events"]
    assert (kept["id"], kept["deliverAt"], kept["data"]) == (entry.id, entry.deliver_at, {"n": 1})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_dispatched_once_deliver_at_is_reached(tmp_path: Path) -> None:
    clock = ManualClock()

    async with Interlock(tmp_path / "data", clock=clock) as box:
        entry = await box.signals.schedule("x", in_ms=60_000)
        assert await box.signals.newest() == []
        clock.jump(60_000)
        await box.signals.schedule("wake the dispatcher", in_ms=10**9)
        (announced,) = await until(box.signals.newest)
        assert announced.id == entry.id


async def test_semantics_are_at_least_once_with_retry_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, dispatch, tries = ManualClock(), SqliteBus.dispatch, []

    async def failing(self: SqliteBus, entries: Any, now: int) -> Any:
        tries.append([entry.id for entry in entries])
        if len(tries) < 3:
            raise StoreFailed("not now")
        return await dispatch(self, entries, now)

    monkeypatch.setattr(SqliteBus, "dispatch", failing)
    async with Interlock(tmp_path / "data", clock=clock) as box:
        entry = await box.signals.schedule("x", in_ms=1)
        while not (announced := await box.signals.newest()):
            clock.advance(1_000)
            await asyncio.sleep(0)
        assert [each.id for each in announced] == [entry.id]
    assert len(tries) == 3 and len({tuple(ids) for ids in tries}) == 1, "the same id on every try"


async def test_scheduling_type_and_repeat_key_replaces_any_older_queued_entry_with_the_same_pair(
    tmp_path: Path,
) -> None:
    async with Interlock(tmp_path / "data") as box:
        for n, key in enumerate(("k", "k", "other", None, None)):
            await box.signals.schedule("x", n, in_ms=60_000 + n, repeat_key=key)
        await box.signals.schedule("y", 9, in_ms=60_009, repeat_key="k")
        assert [each.data for each in await box.signals.list_delayed()] == [1, 2, 3, 4, 9]


# Agent lifecycle signals


async def test_wake_when_an_agent_becomes_active_and_sleep_when_it_falls_asleep(tmp_path: Path) -> None:
    await events_of(tmp_path)
    async with Interlock(tmp_path / "data") as box:
        found = await box.signals.newest()
    assert [each.type for each in found] == ["agent:a:wake", "agent:a:sleep"]


# Storage


async def test_active_signals_are_stored_in_config_signals_events_jsonl(tmp_path: Path) -> None:
    made = await emitted(tmp_path, data={"n": 1})
    (line,) = (tmp_path / "data" / "signals" / "events.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "id": made.id, "type": made.type, "source": {"type": "process"}, "data": {"n": 1}, "createdAt": made.created_at,
    }  # fmt: skip


async def test_limit_default_200_max_1000(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data", durability="normal") as box:
        for n in range(1_005):
            await box.signals.emit(f"x:{n}")
        with pytest.raises(UsageError):
            await box.signals.newest(1_001)
        with pytest.raises(UsageError):
            await box.signals.newest(0)
        newest = await box.signals.newest()
        assert [each.type for each in newest] == [f"x:{n}" for n in range(805, 1_005)]
        assert [len(newest), len(await box.signals.newest(1_000))] == [200, 1_000]
