"""Whole runs on a server that misbehaves: each ends in a typed outcome, and its journal says why."""

import asyncio
import json
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, UsageError
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.models.openai.providers import ProviderSettings
from interlock.compose.crews import load_definition
from interlock.compose.interlock import Result, RunHandle
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.events import Event, ModelCalled, ModelFailed, ModelReplied, ToolReturned, Usage
from interlock.testing import ManualClock
from tests.adapters.hostile_server import (
    DONE,
    Behaviour,
    Line,
    answers,
    chunk,
    data,
    drips,
    fails,
    framed,
    hangs,
    head,
    hostile_server,
    replies,
    said,
    sends,
    tool_pieces,
)

HASTY = ProviderSettings(
    hosts=("127.0.0.1",),
    connect_timeout_seconds=0.4,
    first_byte_timeout_seconds=0.5,
    idle_timeout_seconds=0.5,
    total_timeout_seconds=1,
)
HOST = HostSettings(provider_settings={"openai-compatible": ProviderSettings(max_reply_kb=10, hosts=("127.0.0.1",))})
PATIENT = HostSettings(provider_settings={"openai-compatible": ProviderSettings(hosts=("127.0.0.1",))})
HASTY_HOST = HostSettings(provider_settings={"openai-compatible": HASTY})
PATIENCE_SECONDS = 20
STORM_RUNS, STORM_REFUSED, STORM_SECONDS = 500, 100, 120  # five seconds of CPU


def crew_of(folder: Path, url: str, backup: str = "", tools: str = "", more: str = "") -> CrewDefinition:
    other = f", backup: {{model: 'openai-compatible:other', provider_url: '{backup}'}}" if backup else ""
    text = f"""\
    version: "2.0"
    name: story
    entry_point: a
    agents: [{{id: a, tools: [{tools}], primary: {{model: 'openai-compatible:m', provider_url: '{url}'}}{other}}}]
    routing: {{signals: {{a: [{{signal: "[END]"}}]}}}}
    settings: {{retry_backoff_min_millis: 1{more}}}
    """
    folder.mkdir(exist_ok=True)
    (folder / "crew.yaml").write_text(textwrap.dedent(text), "utf-8")
    return load_definition(folder, host=Host(tools=("look",)))


async def finished(box: Interlock, crew: CrewDefinition) -> tuple[Result, list[Event]]:
    async with box, asyncio.timeout(PATIENCE_SECONDS):
        run = await box.start(crew, "go")
        result = await run.result()
        records = await box.journal.records(run.id)
    return result, [event for record in records for event in record.events]


async def outcome(folder: Path, *behaviours: Behaviour, host: HostSettings = HOST) -> tuple[Result, list[Event], int]:
    """How a run on such a server ends, what its journal holds, and how often the server was asked."""

    async with hostile_server(*behaviours) as server:
        crew = crew_of(folder / "crew", server.url)
        result, events = await finished(Interlock(folder / "data", host=host), crew)
        return result, events, len(server.asked)


def failures(events: list[Event]) -> list[str]:
    return [event.error for event in events if isinstance(event, ModelFailed)]


async def test_a_run_on_a_server_goes_from_input_to_its_ending(tmp_path: Path) -> None:
    result, events, _ = await outcome(tmp_path, replies(said("xong rồi [END]"), 9))
    assert (result.status, result.reason, result.text) == ("completed", "signal:[END]", "xong rồi")
    assert (result.usage.calls, result.usage.input_tokens, result.usage.output_tokens) == (1, 11, 7)
    assert not failures(events)


async def test_pieces_of_a_reply_are_told_as_they_come_and_are_not_stored(tmp_path: Path) -> None:
    followed, told_a_piece = asyncio.Event(), asyncio.Event()
    role, first, *rest = said("xong rồi [END]", pieces=4).split(b"\n\n")

    async def reply_in_two_parts(line: Line) -> None:
        await followed.wait()
        await line.send(head() + framed(role + b"\n\n" + first + b"\n\n"))
        await told_a_piece.wait()
        await line.send(framed(b"\n\n".join(rest)) + b"0\r\n\r\n")

    async def tell(run: RunHandle) -> AsyncIterator[dict[str, Any]]:
        async for event in box.runner.follow(run.id):
            followed.set()
            if event["type"] == "model.delta":
                told_a_piece.set()
            yield event

    async with hostile_server(reply_in_two_parts) as server:
        crew = crew_of(tmp_path / "crew", server.url)
        async with Interlock(tmp_path / "data", host=PATIENT) as box, asyncio.timeout(PATIENCE_SECONDS):
            run = await box.start(crew, "go")
            told = [event async for event in tell(run)]
            stored = [event for record in await box.journal.records(run.id) for event in record.events]
    kinds = [event["type"] for event in told]
    pieces = [event for event in told if event["type"] == "model.delta"]
    assert len(pieces) > 1 and "".join(event["text"] for event in pieces) == "xong rồi [END]"
    assert all(event["agent"] == "a" and "seq" not in event for event in pieces)
    assert kinds.index("model.called") < kinds.index("model.delta") < kinds.index("model.replied")
    assert len(stored) == len(told) - len(pieces)


WHOLE = said("fine [END]")

BAD: dict[str, tuple[Behaviour, str]] = {
    "a closed socket": (sends(b""), "dropped the connection"),
    "a truncated stream": (sends(head() + framed(WHOLE)[:300]), "dropped the connection"),
    "an unmarked truncated stream": (sends(head(chunked=False) + WHOLE[:300]), "broke off before its end"),
    "the limit of tokens": (replies(said("fine [END]", finish="length")), "without finishing (finish_reason length)"),
    "malformed JSON": (replies(b"data: {\n\n" + WHOLE), "not a chat completion"),
    "one byte at a time": (drips(WHOLE, 0.02, head(chunked=False)), "took longer than 1 s"),
    "slow headers": (drips(head("200 OK", "text/event-stream", *["X: y"] * 99), 0.02), "said nothing for 0.5 s"),
    "silence": (hangs(), "said nothing for 0.5 s"),
    "silence in the middle": (hangs(head() + framed(data(chunk("so")))), "said nothing for 0.5 s"),
    "a storm of 429": (fails("429 X", "slow down", "Retry-After: 0"), "answered 429: slow down"),
    "a broken gateway": (answers("502 X", b"<html>Bad Gateway</html>", kind="text/html"), "answered 502"),
}
HOPELESS: dict[str, tuple[Behaviour, str]] = {
    "ten megabytes": (replies(data(*(chunk("x" * 1_000) for _ in range(10_000))), 200), "larger than 10,000 bytes"),
    "a wrong content type": (answers("200 OK", WHOLE, kind="text/html"), "instead of text/event-stream"),
    "a redirect": (answers("301 X", b"", "Location: http://127.0.0.1:9/"), "redirects are not followed"),
    "a wrong model": (fails("404 X", "no such model"), "answered 404: no such model"),
}


# Each of these takes a deadline to notice; once is enough.
SLOW = ("one byte at a time", "slow headers", "silence", "silence in the middle")


@pytest.mark.parametrize("name", [name for name in BAD if name not in SLOW])
async def test_what_may_pass_is_asked_three_times_and_nothing_is_taken_from_it(tmp_path: Path, name: str) -> None:
    behaviour, reason = BAD[name]
    result, events, asked = await outcome(tmp_path, behaviour)
    assert (result.status, result.reason, result.output) == ("failed", "model_error", "")
    assert asked == 3
    assert all(reason in error for error in failures(events)), failures(events)


@pytest.mark.parametrize("name", BAD)
async def test_when_it_has_passed_the_run_completes(tmp_path: Path, name: str) -> None:
    behaviour, reason = BAD[name]
    result, events, asked = await outcome(
        tmp_path, behaviour, replies(WHOLE), host=HASTY_HOST if name in SLOW else HOST
    )
    assert (result.status, result.text) == ("completed", "fine")
    assert asked == len(failures(events)) + 1 == 2
    assert reason in failures(events)[0]


@pytest.mark.parametrize("name", HOPELESS)
async def test_what_will_not_pass_is_asked_once(tmp_path: Path, name: str) -> None:
    behaviour, reason = HOPELESS[name]
    result, events, asked = await outcome(tmp_path, behaviour)
    assert (result.status, result.reason, asked) == ("failed", "model_error", 1)
    assert reason in failures(events)[0]


async def test_half_a_character_is_no_failure(tmp_path: Path) -> None:
    half = json.dumps(chunk("caf§\n[END]"), ensure_ascii=False).encode().replace("§".encode(), b"\xc3")
    body = b"data: " + half + b"\n\n" + data(chunk(finish="stop")) + b"data: [DONE]\n\n"
    result, _, _ = await outcome(tmp_path, replies(body))
    assert (result.status, result.text) == ("completed", "caf\ufffd")


def look(at: int) -> str:
    """Looks there."""
    return f"a gull at {at}"


def call(arguments: str, name: str = "look") -> Behaviour:
    return replies(tool_pieces({"index": 0, "id": "c1", "function": {"name": name, "arguments": arguments}}))


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (call('{"at": 3}'), "a gull at 3"),
        (call('{"at": '), "error: "),
        (call('{"at": {}}'), "error: "),
        (call("{}", "no_such_tool"), "error: agent 'a' has no tool 'no_such_tool'"),
    ],
    ids=["well", "malformed JSON", "a wrong type", "an unknown tool"],
)
async def test_a_model_is_told_what_came_of_its_tool_calls(tmp_path: Path, behaviour: Behaviour, told: str) -> None:
    async with hostile_server(behaviour, replies(WHOLE)) as server:
        crew = crew_of(tmp_path / "crew", server.url, tools="look")
        box = Interlock(tmp_path / "data", host=HOST, tools=[look])
        result, events, messages = *(await finished(box, crew)), server.asked[1].body["messages"]
    (returned,) = [event for event in events if isinstance(event, ToolReturned)]
    assert returned.output in told or told in f"error: {returned.output}"
    assert (messages[-1]["role"], messages[-1]["tool_call_id"]) == ("tool", "c1")
    assert told in messages[-1]["content"]
    assert result.status == "completed"


async def test_a_provider_that_asks_for_time_gets_it(tmp_path: Path) -> None:
    """On a clock that the test moves: nothing is asked before the time is over."""

    clock, moved = ManualClock(), list[int]()
    behaviours = [fails("429 X", "later", "Retry-After: 40"), fails("503 X", "later", "Retry-After: 7000")]
    async with hostile_server(*behaviours, replies(WHOLE)) as server, asyncio.timeout(PATIENCE_SECONDS):
        crew = crew_of(tmp_path / "crew", server.url)
        async with Interlock(tmp_path / "data", host=HOST, clock=clock) as box:
            run = await box.start(crew, "go")
            over = asyncio.ensure_future(run.result())
            while not over.done():
                await asyncio.sleep(0.005)
                wake = clock.next_wake_ms()
                if wake is not None and wake < 500_000:  # the run's own bounds are far away
                    assert len(server.asked) == len(moved) + 1
                    moved.append(wake - clock.monotonic_ms())
                    clock.advance(moved[-1])
            assert over.result().status == "completed"
            (first, second), asked = moved, len(server.asked)
    assert 40_000 <= first <= 50_000
    assert 60_000 <= second <= 75_000  # an hour would look like death
    assert asked == 3


async def test_what_was_heard_of_a_reply_that_broke_off_is_paid_for(tmp_path: Path) -> None:
    """By an upper estimate at the agent's prices; a call that was turned away costs nothing."""
    half = framed(data(chunk("so many words before it breaks")))
    result, events, _ = await outcome(tmp_path, sends(head() + half), fails("503 X", "later"), replies(WHOLE))
    broken, refused = [event for event in events if isinstance(event, ModelFailed)]
    assert broken.usage.output_tokens >= 6 and broken.usage.input_tokens > 0
    assert refused.usage == Usage()
    (reply,) = [event for event in events if isinstance(event, ModelReplied)]
    assert result.usage == broken.usage + reply.usage + Usage(calls=3)
    assert result.usage_by_agent == {"a": result.usage}


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_a_failed_call_that_the_provider_counted_is_paid_for_as_counted(tmp_path: Path, finish: str) -> None:
    """Also if nothing was shown: a limit of tokens may be used up by reasoning that the provider keeps for itself."""
    counted = {"prompt_tokens": 90, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 50}}
    thought = data(chunk(finish=finish), {"choices": [], "usage": counted}) + DONE
    result, events, _ = await outcome(tmp_path, replies(thought), replies(WHOLE))
    (failed,) = [event for event in events if isinstance(event, ModelFailed)]
    assert failed.usage == Usage(input_tokens=90, output_tokens=50, reasoning_tokens=50, unpriced_calls=1)
    paid = [event.usage for event in events if isinstance(event, ModelFailed | ModelReplied)]
    assert result.usage.output_tokens == sum(usage.output_tokens for usage in paid)


def next_try(clock: ManualClock) -> int:
    """The time of the next try; the bounds of the runs themselves are far away."""
    wake = clock.next_wake_ms()
    return wake if wake is not None and wake < 500_000 else 0


class StormClock(ManualClock):
    """Knows who waits for the end of the storm."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = set[asyncio.Task[Any] | None]()

    async def sleep_until(self, monotonic_ms: int) -> None:
        if is_for_storm := monotonic_ms < 500_000:
            self.waiting.add(asyncio.current_task())
        try:
            await super().sleep_until(monotonic_ms)
        finally:
            if is_for_storm:
                self.waiting.discard(asyncio.current_task())


async def test_a_storm_of_429_is_weathered_without_a_stampede(tmp_path: Path) -> None:
    """100 runs are turned away for a minute of a clock that the test moves, so 400 others do not even ask.

    All complete as soon as the server takes calls again, and come back one by one.
    """
    clock, refused, times, all_refused = StormClock(), list[int](), list[int](), asyncio.Event()

    async def busy(line: Line) -> None:
        now = clock.monotonic_ms()
        if now >= 60_000:
            times.append(now)
            await replies(WHOLE)(line)
            return
        refused.append(now)
        if len(refused) == STORM_REFUSED:
            all_refused.set()
        await all_refused.wait()
        await fails("429 X", "later", f"Retry-After: {(60_000 - now) // 1000 + 1}")(line)

    async with hostile_server(busy) as server, asyncio.timeout(STORM_SECONDS):
        crew = crew_of(tmp_path / "crew", server.url)
        async with Interlock(tmp_path / "data", host=PATIENT, clock=clock) as box:
            runs = [await box.start(crew, "go") for _ in range(STORM_REFUSED)]
            await until(lambda: sum(live.run.state.usage.calls for live in box.runner.live.values()) == STORM_REFUSED)
            runs += [await box.start(crew, "go") for _ in range(STORM_RUNS - STORM_REFUSED)]
            # One task waits for all that try again, and each call that is held back waits for itself.
            await until(lambda: len(clock.waiting) == 1 + STORM_RUNS - STORM_REFUSED)
            over = asyncio.gather(*[run.result() for run in runs])
            while len(times) < STORM_RUNS:
                # Those that woke at the same moment as others may still be on their way, with no further try to come.
                await until(lambda: next_try(clock) > 0 or len(times) == STORM_RUNS)
                if wake := next_try(clock):
                    before = len(times)
                    clock.advance(wake - clock.monotonic_ms())
                    await until(lambda before=before: len(times) > before)  # type: ignore[misc]
            statuses = {result.status for result in await over}
    assert statuses == {"completed"}
    assert (len(refused), len(times)) == (STORM_REFUSED, STORM_RUNS)
    again = [moment // 1_000 for moment in times]
    assert max(again) <= 75  # a minute and a quarter of it
    assert max(map(again.count, again)) < STORM_RUNS / 5


async def test_the_backup_answers_when_the_primary_cannot(tmp_path: Path) -> None:
    async with hostile_server(fails("500 X", "down")) as first, hostile_server(replies(WHOLE)) as second:
        crew = crew_of(tmp_path / "crew", first.url, second.url)
        result, events = await finished(Interlock(tmp_path / "data", host=HOST), crew)
        assert [request.body["model"] for request in second.asked] == ["other"]
        asked, asked_backup = len(first.asked), len(second.asked)
    assert (result.status, asked, asked_backup) == ("completed", 3, 1)
    called = [event.model for event in events if isinstance(event, ModelCalled)]
    assert called == ["", "", "", "openai-compatible:other"]
    assert [event.model for event in events if isinstance(event, ModelReplied)] == ["openai-compatible:other"]


async def test_a_circuit_that_is_open_sends_the_next_run_to_the_backup_at_once(tmp_path: Path) -> None:
    async with hostile_server(fails("500 X", "down")) as first, hostile_server(replies(WHOLE)) as second:
        crew = crew_of(tmp_path / "crew", first.url, second.url, more=", max_consecutive_errors: 3")
        for _ in range(3):
            result, _ = await finished(Interlock(tmp_path / "data", host=HOST), crew)
            assert (result.status, result.reason) == ("completed", "signal:[END]")
        assert (len(first.asked), len(second.asked)) == (3, 3)


async def test_a_run_that_was_with_its_backup_goes_on_there_after_a_crash(tmp_path: Path) -> None:
    async with hostile_server(fails("400 X", "no")) as first, hostile_server(hangs(), replies(WHOLE)) as second:
        crew = crew_of(tmp_path / "crew", first.url, second.url)
        async with Interlock(tmp_path / "data", host=PATIENT) as box:
            run = await box.start(crew, "go")
            await until(lambda: len(second.asked) == 1)
        async with (
            Interlock(tmp_path / "data", host=PATIENT, recover=True) as box,
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            await box.runner.wait_until_settled(run.id)
            result = await box.result(run.id)
        assert (result.status, len(first.asked), len(second.asked)) == ("completed", 1, 2)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():
            await asyncio.sleep(0.005)


async def test_cancelling_a_run_hangs_up(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def listen(line: Any) -> None:
        await line.send(head() + framed(data(chunk("so"))))
        await line.was_closed()
        closed.set()

    async with hostile_server(listen) as server, Interlock(tmp_path / "data", host=PATIENT) as box:
        run = await box.start(crew_of(tmp_path / "crew", server.url), "go")
        await until(lambda: len(server.asked) == 1)
        await box.cancel(run.id)
        await until(closed.is_set)
        assert (await run.result()).status == "cancelled"


async def test_a_mapping_of_models_comes_before_a_server(tmp_path: Path) -> None:
    box = Interlock(tmp_path / "data", models={"openai-compatible": lambda _request: "fine [END]"})
    result, _ = await finished(box, crew_of(tmp_path / "crew", "http://127.0.0.1:9/v1"))
    assert result.status == "completed"


async def test_a_missing_key_is_said_before_anything_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOUSE_KEY", raising=False)
    settings = ProviderSettings(url="https://house.example.org/v1", key_env="HOUSE_KEY")
    host = HostSettings(provider_settings={"openai-compatible": settings})

    async with Interlock(tmp_path / "data", host=host) as box:
        with pytest.raises(UsageError, match=r"agent 'a' of crew 'story': .*set the environment variable HOUSE_KEY"):
            await box.start(crew_of(tmp_path / "crew", "https://house.example.org/v1"), "go")
        with pytest.raises(UsageError, match=r"would send HOUSE_KEY to https://evil\.example"):
            await box.start(crew_of(tmp_path / "crew", "https://evil.example.org/v1"), "go")
        assert await box.journal.rows() == []


async def test_a_box_that_is_opened_again_in_another_loop_connects_again(tmp_path: Path) -> None:
    with_server: Callable[[Interlock, CrewDefinition], Awaitable[tuple[Result, list[Event]]]] = finished

    async def once(box: Interlock) -> str:
        async with hostile_server(replies(WHOLE)) as server:
            result, _ = await with_server(box, crew_of(tmp_path / "crew", server.url))
            return result.status

    box = Interlock(tmp_path / "data", host=HOST)
    assert [await once(box), await once(box)] == ["completed", "completed"]


async def test_a_budget_holds_where_a_provider_counts_no_tokens(tmp_path: Path) -> None:
    """Nothing would ever be spent otherwise."""

    uncounted = data(chunk("What? " * 50), chunk(finish="stop"))
    async with hostile_server(replies(uncounted)) as server:
        crew = crew_of(tmp_path, server.url, more=", max_tokens_per_run: 200, on_no_signal: nudge")
        result, events = await finished(Interlock(tmp_path / "data", host=HOST), crew)
    heard = [(event.estimated, event.usage.output_tokens) for event in events if isinstance(event, ModelReplied)]
    assert (result.reason, set(heard)) == ("budget:tokens", {(True, 100)})
    assert result.usage.input_tokens > 0
