"""What runs have cost, over all of them: every call once, by crew and agent."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from interlock import Crew, Interlock, load_crew
from interlock.adapters.sqlite.sealed_tables import register_seal_function
from interlock.compose.usage import CostReport
from interlock.engine.events import Usage
from interlock.ports import ModelReply, ModelRequest
from interlock.testing import ManualClock
from tests.boxes import sqlite_of

CREW = """\
version: "2.0"
name: {name}
entry_point: a
agents: [{{id: a}}, {{id: b}}]
routing:
  signals:
    a: [{{signal: "[NEXT]", target: b}}]
    b: [{{signal: "[END]"}}]
"""
A_CALL, B_CALL = Usage(input_tokens=10, output_tokens=2, cost_micros=7), Usage(input_tokens=20, cost_micros=90)


def answer(request: ModelRequest) -> ModelReply:
    if request.agent == "a":
        return ModelReply(text="one\n[NEXT]", usage=A_CALL)
    return ModelReply(text="two\n[END]", usage=B_CALL)


@asynccontextmanager
async def box_in(folder: Path) -> AsyncIterator[tuple[Interlock, ManualClock]]:
    clock = ManualClock()
    async with Interlock(folder / "data", models=answer, clock=clock) as box:
        yield box, clock


def crew(folder: Path, name: str) -> Crew:
    (folder / f"{name}.yaml").write_text(CREW.format(name=name))
    return load_crew(folder / f"{name}.yaml")


def once(usage: Usage, times: int = 1) -> Usage:
    return sum([usage + Usage(calls=1)] * times, Usage())


async def test_a_result_says_what_each_agent_has_cost(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, _):
        result = await (await box.start(crew(tmp_path, "one"), "go")).result()
        assert list(result.usage_by_agent.items()) == [("a", once(A_CALL)), ("b", once(B_CALL))]
        assert result.usage == once(A_CALL) + once(B_CALL)


async def test_runs_are_summed_by_crew_and_agent_the_dearest_first(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, _):
        for name in ("one", "two", "two"):
            await (await box.start(crew(tmp_path, name), "go")).result()
        assert (await box.usage(crew="one")).usage == once(A_CALL) + once(B_CALL)
        assert (await box.usage(crew="nobody")).crews == ()
        spent = await box.usage()
    assert [(each.crew, each.runs) for each in spent.crews] == [("two", 2), ("one", 1)]
    assert list(spent.crews[0].agents.items()) == [("b", once(B_CALL, 2)), ("a", once(A_CALL, 2))]
    assert (spent.runs, spent.usage) == (3, once(A_CALL, 3) + once(B_CALL, 3))


async def test_what_a_fork_was_given_is_not_counted_again_and_what_a_run_continues_neither(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, clock):
        own = crew(tmp_path, "one")
        first = await box.start(own, "go")
        handed_over = [event["seq"] async for event in box.runner.follow(first.id) if event["type"] == "model.called"][
            -1
        ]
        clock.advance(1_000)
        fork = await (await box.fork(first.id, handed_over)).result()
        assert fork.usage == once(A_CALL) + once(B_CALL)
        await (await box.continue_run(own, "on", first.id)).result()
        spent = await box.usage()
    assert spent.crews[0].agents == {"a": once(A_CALL, 2), "b": once(B_CALL, 3)}


async def test_older_runs_can_be_left_out(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, clock):
        await (await box.start(crew(tmp_path, "one"), "go")).result()
        clock.advance(5_000)
        now = clock.now_ms()
        await (await box.start(crew(tmp_path, "one"), "go")).result()
        assert (await box.usage(since_ms=now)).runs == 1


async def test_times_begin_at_the_step_and_sum_up_to_what_agents_have_cost(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, clock):
        for _ in range(3):
            await (await box.start(crew(tmp_path, "one"), "go")).result()
            clock.advance(1_000)
        spent = await box.usage(step_ms=2_000)
    begin = spent.times[0].at
    assert begin % 2_000 == 0
    assert [(each.at - begin, each.crew, each.agent, each.usage) for each in spent.times] == [
        (0, "one", "a", once(A_CALL, 2)),
        (0, "one", "b", once(B_CALL, 2)),
        (2_000, "one", "a", once(A_CALL)),
        (2_000, "one", "b", once(B_CALL)),
    ]


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    with sqlite3.connect(folder / "data" / "interlock.db") as connection:
        register_seal_function(connection)
        yield connection
    connection.close()


async def asked(box: Interlock, clock: ManualClock) -> CostReport:
    return await box.usage()


async def test_a_run_is_added_up_once_and_again_only_when_the_sum_is_damaged(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, _):
        await (await box.start(crew(tmp_path, "one"), "go")).result()
        first = await box.usage()
    with database(tmp_path) as connection:
        kept = connection.execute("select body from spent").fetchall()
        connection.execute("update records set body = x'00'")
    assert len(kept) == 1
    async with box_in(tmp_path) as (box, clock):
        assert await asked(box, clock) == first
    with database(tmp_path) as connection:
        connection.execute("update spent set body = x'7b7d'")
    async with box_in(tmp_path) as (box, clock):
        assert len((await asked(box, clock)).unread) == 1


async def test_a_run_that_went_on_is_added_up_anew_and_one_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, _):
        both = '[{{signal: "[NEXT]", type: pause}}, {{signal: "[OTHER]", type: route, target: b}}]'
        waits = CREW.replace('[{{signal: "[NEXT]", target: b}}]', both)
        (tmp_path / "waits.yaml").write_text(waits.format(name="waits"))
        run = await box.start(load_crew(tmp_path / "waits.yaml"), "go")
        for calls in (1, 2):
            await run.result()
            assert (await box.usage()).usage.calls == calls
            assert (await box.usage()).usage.calls == calls
            await box.resume(run.id, "on")
        await box.cancel(run.id)
        await box.usage()
        await box.archive.delete_run(run.id, 0)
    with database(tmp_path) as connection:
        assert connection.execute("select count(*) from spent").fetchone() == (0,)


async def test_what_runs_have_cost_can_be_asked_while_nothing_can_be_written(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, _):
        for _ in range(30):
            await (await box.start(crew(tmp_path, "one"), "go")).result()
        await sqlite_of(box).limit_bytes(1)
        assert (await box.usage()).runs == 30


async def test_a_damaged_run_is_named_and_hides_no_other(tmp_path: Path) -> None:
    async with box_in(tmp_path) as (box, _):
        for name in ("broken", "whole"):
            await (await box.start(crew(tmp_path, "one"), "go", run_id=name)).result()
    with database(tmp_path) as connection:
        connection.execute("update records set body = x'00' where position = 2")

    async with box_in(tmp_path) as (box, clock):
        spent = await asked(box, clock)
    assert (spent.runs, spent.unread) == (1, ("broken",))
