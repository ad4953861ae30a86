"""Seed 002, sentence by sentence: each test is named after what the seed says."""

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cuid2 import Cuid

from interlock import Interlock, UsageError, load_crew
from interlock.adapters.bus_sqlite import SqliteBus
from interlock.adapters.models.scripted import Answer, ScriptedModel, ToolCall
from interlock.broadcast import matches
from interlock.broadcast.naming import is_broadcast_id
from interlock.crew.definition import Crew
from interlock.errors import StoreFailed
from interlock.frames import framed_words
from interlock.ports import ModelRequest
from interlock.testing import ManualClock
from tests.boxes import inside


async def until(check: Callable[[], Awaitable[Any]]) -> Any:
    while not (found := await check()):
        await asyncio.sleep(0)
    return found


def crew_of(folder: Path, text: str, name: str = "ci") -> Crew:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crew.yaml").write_text(f'version: "2.0"\nname: {name}\n{text}', "utf-8")
    return load_crew(folder)


ONE = """\
entry_point: a
agents: [{id: a, tools: [generate_signal, signal_subscribe, signal_unsubscribe]}, {id: b}]
routing: {signals: {a: [{signal: "[DONE]"}, {signal: "[NEXT]", target: b}], b: [{signal: "[DONE]"}]}}
subscriptions:
  b: [{pattern: "build:*:done", silent: %s}]
"""


def calls(name: str, **given: Any) -> Answer:
    return Answer(tool_calls=(ToolCall(name=name, arguments=given),))


def events_of(tmp_path: Path, *answers: Any, text: str = ONE % "true") -> list[dict[str, Any]]:
    crew = crew_of(tmp_path / "crew", text)

    async def story(box: Interlock) -> list[dict[str, Any]]:
        run = await box.start(crew, "go")
        await run.result()
        return [event async for event in run.events()]

    return inside(Interlock(tmp_path / "data", models=ScriptedModel({"a": [*answers, "so [DONE]"], "b": []})), story)


def emitted(tmp_path: Path, kind: str = "build:x:done", **more: Any) -> Any:
    return inside(Interlock(tmp_path / "data"), lambda box: box.signals.emit(kind, **more))


# Signals


def test_fire_and_forget_broadcasts_that_any_agent_can_subscribe_to_by_pattern(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", ONE % "true")

    async def story(box: Interlock) -> list[tuple[str, str]]:
        await box.listen(crew)
        for agent in ("a", "b"):
            await box.signals.add("ci", agent, "build:*:done")
        await box.signals.emit("build:x:done")
        return list(await box.signals.bus.mail())

    assert inside(Interlock(tmp_path / "data"), story) == [("ci", "a"), ("ci", "b")]


def test_the_producer_does_not_need_to_know_who_listens(tmp_path: Path) -> None:
    assert emitted(tmp_path).type == "build:x:done"


# Signal structure


def test_id_is_a_cuid2_identifier(tmp_path: Path) -> None:
    assert len(emitted(tmp_path).id) == len(Cuid().generate()) == 24
    assert is_broadcast_id(emitted(tmp_path).id)
    events = events_of(tmp_path / "run", calls("generate_signal", type="x"))
    (announced,) = [event["signal"] for event in events if event["type"] == "broadcast.emitted"]
    assert is_broadcast_id(announced["id"]) and len(announced["id"]) == 24


def test_type_is_a_colon_separated_string(tmp_path: Path) -> None:
    assert emitted(tmp_path, " build:project-x:done ").type == "build:project-x:done"


def test_data_is_an_optional_payload(tmp_path: Path) -> None:
    emitted(tmp_path)
    emitted(tmp_path, data={"n": [1, 2.5, None, "x"]})
    lines = (tmp_path / "data" / "signals" / "events.jsonl").read_text().splitlines()
    assert "data" not in json.loads(lines[0])
    assert json.loads(lines[1])["data"] == {"n": [1, 2.5, None, "x"]}


def test_created_at_is_a_unix_timestamp_in_milliseconds(tmp_path: Path) -> None:
    clock = ManualClock(1_790_000_000_123)
    made = inside(Interlock(tmp_path / "data", clock=clock), lambda box: box.signals.emit("x"))
    assert made.created_at == 1_790_000_000_123


# Source types


def test_system_internal_system_events(tmp_path: Path) -> None:
    async def sources(box: Interlock) -> set[Any]:
        return {(each.type, each.source.type, each.source.id) for each in await box.signals.newest()}

    events_of(tmp_path)
    found = inside(Interlock(tmp_path / "data"), sources)
    assert found == {("agent:a:wake", "system", ""), ("agent:a:sleep", "system", "")}


def test_agent_emitted_by_an_agent(tmp_path: Path) -> None:
    events = events_of(tmp_path, calls("generate_signal", type="x"))
    (announced,) = [event["signal"] for event in events if event["type"] == "broadcast.emitted"]
    assert announced["source"] == {"type": "agent", "id": "a"}


def test_webhook_triggered_by_an_external_webhook(tmp_path: Path) -> None:
    made = inside(Interlock(tmp_path / "data"), lambda box: box.signals.as_webhook("github").emit("push"))
    assert (made.source.type, made.source.id) == ("webhook", "github")


def test_process_emitted_by_a_running_process(tmp_path: Path) -> None:
    assert (emitted(tmp_path).source.type, emitted(tmp_path).source.id) == ("process", "")
    made = inside(Interlock(tmp_path / "data"), lambda box: box.signals.as_process("ci").emit("x"))
    assert made.source.id == "ci"


def test_the_emitter_may_not_state_another_source(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not yours"):
        emitted(tmp_path, source={"type": "system"})
    events = events_of(tmp_path, calls("generate_signal", type="x", source={"type": "agent", "id": "b"}))
    assert [event["ok"] for event in events if event["type"] == "tool.returned"] == [False]


# Subscriptions


@pytest.mark.parametrize("kind", ["build:project-x:done", "build:frontend:done"])
def test_build_star_done_matches(kind: str) -> None:
    assert matches("build:*:done", kind)


def test_star_matches_exactly_one_colon_separated_segment() -> None:
    assert not matches("build:*:done", "build:done") and not matches("build:*:done", "build:a:b:done")


def test_silent_is_the_default_and_does_not_trigger_inference(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", (ONE % "true").replace(", silent: true", ""))
    asked: list[str] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request.agent)
        return "so [DONE]"

    async def story(box: Interlock) -> Any:
        await (await box.start(crew, "go")).result()
        await box.signals.emit("build:x:done")
        for _ in range(100):
            await asyncio.sleep(0)
        await box.signals.bus.head()
        return await box.signals.bus.mail()

    mail = inside(Interlock(tmp_path / "data", models=answer, recover=True), story)
    assert asked == ["a"] and mail == [("ci", "b")]


def test_silent_is_delivered_as_a_system_message(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", ONE % "true")
    shown: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        shown.append(request)
        return "over [NEXT]" if request.agent == "a" else "so [DONE]"

    async def story(box: Interlock) -> Any:
        await box.listen(crew)
        await box.signals.emit("build:x:done", {"ok": 1})
        run = await box.start(crew, "go")
        await run.result()
        return (await box.state(run.id)).history

    history = inside(Interlock(tmp_path / "data", models=answer), story)
    (entry,) = [each for each in history if each.author == "system"]
    assert entry.role == "user" and "build:x:done" in entry.text
    data = framed_words(next(each.text for each in shown[-1].messages if "build:x:done" in each.text))
    assert [json.loads(words)["data"] for words in data] == [{"ok": 1}]


def test_not_silent_triggers_inference(tmp_path: Path) -> None:
    crew = crew_of(tmp_path / "crew", ONE % "false")
    asked: list[str] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request.agent)
        return "so [DONE]"

    async def story(box: Interlock) -> None:
        await box.listen(crew)
        await box.signals.emit("build:x:done")
        await until(lambda: box.journal.rows(status="completed"))

    inside(Interlock(tmp_path / "data", models=answer, recover=True), story)
    assert asked == ["b"]


# Tools


def test_generate_signal_emits_with_a_type_optional_source_and_optional_data(tmp_path: Path) -> None:
    own = {"type": "agent", "id": "a"}
    events = events_of(
        tmp_path, calls("generate_signal", type="x"), calls("generate_signal", type="y", source=own, data=[1])
    )
    announced = [event["signal"] for event in events if event["type"] == "broadcast.emitted"]
    assert [(each["type"], each.get("data")) for each in announced] == [("x", None), ("y", [1])]


def test_signal_subscribe_subscribes_to_signals_matching_a_pattern(tmp_path: Path) -> None:
    events_of(tmp_path, calls("signal_subscribe", pattern="deploy:*"))
    found = inside(Interlock(tmp_path / "data"), lambda box: box.signals.subscriptions())
    assert ("a", "deploy:*", True) in [(each.agent, each.pattern, each.silent) for each in found]


def test_signal_unsubscribe_removes_a_subscription_by_exact_pattern_match(tmp_path: Path) -> None:
    events_of(
        tmp_path,
        calls("signal_subscribe", pattern="deploy:*"),
        calls("signal_unsubscribe", pattern="deploy:x"),
        calls("signal_subscribe", pattern="other"),
        calls("signal_unsubscribe", pattern="other"),
    )
    found = inside(Interlock(tmp_path / "data"), lambda box: box.signals.subscriptions())
    assert [each.pattern for each in found if each.agent == "a"] == ["deploy:*"]


# Delayed signals


def test_scheduled_for_future_delivery_using_wall_time_timestamps(tmp_path: Path) -> None:
    clock = ManualClock()
    at = clock.now_ms() + 60_000
    entry = inside(Interlock(tmp_path / "data", clock=clock), lambda box: box.signals.schedule("x", at=at))
    assert entry.deliver_at == at


def test_stored_in_config_signals_delayed_json(tmp_path: Path) -> None:
    entry = inside(Interlock(tmp_path / "data"), lambda box: box.signals.schedule("x", {"n": 1}, in_ms=60_000))
    file = tmp_path / "data" / "signals" / "delayed.json"
    (kept,) = json.loads(file.read_text())["events"]
    assert (kept["id"], kept["deliverAt"], kept["data"]) == (entry.id, entry.deliver_at, {"n": 1})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_dispatched_once_deliver_at_is_reached(tmp_path: Path) -> None:
    clock = ManualClock()

    async def story(box: Interlock) -> None:
        entry = await box.signals.schedule("x", in_ms=60_000)
        assert await box.signals.newest() == []
        clock.jump(60_000)
        await box.signals.schedule("wake the dispatcher", in_ms=10**9)
        (announced,) = await until(box.signals.newest)
        assert announced.id == entry.id

    inside(Interlock(tmp_path / "data", clock=clock), story)


def test_semantics_are_at_least_once_with_retry_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, dispatch, tries = ManualClock(), SqliteBus.dispatch, []

    async def failing(self: SqliteBus, entries: Any, now: int) -> Any:
        tries.append([entry.id for entry in entries])
        if len(tries) < 3:
            raise StoreFailed("not now")
        return await dispatch(self, entries, now)

    async def story(box: Interlock) -> None:
        entry = await box.signals.schedule("x", in_ms=1)
        while not (announced := await box.signals.newest()):
            clock.advance(1_000)
            await asyncio.sleep(0)
        assert [each.id for each in announced] == [entry.id]

    monkeypatch.setattr(SqliteBus, "dispatch", failing)
    inside(Interlock(tmp_path / "data", clock=clock), story)
    assert len(tries) == 3 and len({tuple(ids) for ids in tries}) == 1, "the same id on every try"


def test_scheduling_type_and_repeat_key_replaces_any_older_queued_entry_with_the_same_pair(tmp_path: Path) -> None:
    async def story(box: Interlock) -> list[Any]:
        for n, key in enumerate(("k", "k", "other", None, None)):
            await box.signals.schedule("x", n, in_ms=60_000 + n, repeat_key=key)
        await box.signals.schedule("y", 9, in_ms=60_009, repeat_key="k")
        return [each.data for each in await box.signals.delayed()]

    assert inside(Interlock(tmp_path / "data"), story) == [1, 2, 3, 4, 9]


# Agent lifecycle signals


def test_wake_when_an_agent_becomes_active_and_sleep_when_it_falls_asleep(tmp_path: Path) -> None:
    events_of(tmp_path)
    found = inside(Interlock(tmp_path / "data"), lambda box: box.signals.newest())
    assert [each.type for each in found] == ["agent:a:wake", "agent:a:sleep"]


# Storage


def test_active_signals_are_stored_in_config_signals_events_jsonl(tmp_path: Path) -> None:
    made = emitted(tmp_path, data={"n": 1})
    (line,) = (tmp_path / "data" / "signals" / "events.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "id": made.id, "type": made.type, "source": {"type": "process"}, "data": {"n": 1}, "createdAt": made.created_at,
    }  # fmt: skip


def test_limit_default_200_max_1000(tmp_path: Path) -> None:
    async def story(box: Interlock) -> list[int]:
        for n in range(1_005):
            await box.signals.emit(f"x:{n}")
        with pytest.raises(UsageError):
            await box.signals.newest(1_001)
        with pytest.raises(UsageError):
            await box.signals.newest(0)
        newest = await box.signals.newest()
        assert [each.type for each in newest] == [f"x:{n}" for n in range(805, 1_005)]
        return [len(newest), len(await box.signals.newest(1_000))]

    assert inside(Interlock(tmp_path / "data", durability="normal"), story) == [200, 1_000]
