"""Finding 1.16, second half: a run that cannot be driven is taken up again, ends, or is set aside with a reason."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.cli.main import interlock
from interlock.crew.host import Host
from interlock.engine.run import Run
from interlock.errors import StoreBroken, Unstorable
from interlock.ports import ModelRequest
from interlock.runtime.commit import Committer
from interlock.testing import ManualClock
from tests.boxes import inside

INNER = """\
version: "2.0"
name: inner
entry_point: x
agents: [{id: x}]
routing: {signals: {x: [{signal: "[END]"}]}}
"""
CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}]
sub_crews: {inner: {config_path: inner}}
routing:
  signals:
    a: [{signal: "[SUB]", type: sub_crew, target_crew: inner}, {signal: "[END]"}]
"""


def crew_in(folder: Path) -> Any:
    (folder / "inner").mkdir()
    (folder / "inner" / "crew.yaml").write_text(INNER, "utf-8")
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return load_crew(folder)


async def result(box: Interlock, clock: ManualClock, folder: Path) -> Any:
    run = await box.start(crew_in(folder), "go", run_id="r1")
    outcome = asyncio.ensure_future(run.result())
    while not outcome.done():
        for _ in range(5):  # by the writer's thread, after all that it has been given before
            await box.journal.rows(limit=1)
        clock.advance(1_000)
    return await outcome


async def played(folder: Path, replies: dict[str, list[str]]) -> tuple[Any, list[dict[str, Any]], Any]:
    clock = ManualClock()
    asked: dict[str, int] = {}

    def model(request: ModelRequest) -> str:
        asked[request.agent] = asked.get(request.agent, 0) + 1
        return replies[request.agent][min(request.number, len(replies[request.agent])) - 1]

    async with Interlock(folder / "data", models=model, clock=clock) as box:
        ended = await result(box, clock, folder)
        events = [event async for event in box.runner.follow("r1")]
        return ended, events, (box.set_aside, asked)


def failing(monkeypatch: pytest.MonkeyPatch, times: int, run: str = "r1") -> None:
    """The engine fails at replies, so many times."""
    apply, left = Run.apply, [times]

    def broken(self: Run, event: Any) -> Any:
        if type(event).__name__ == "ModelReplied" and self.state.run.startswith(run) and left[0]:
            left[0] -= 1
            raise ZeroDivisionError("a fault of ours")
        return apply(self, event)

    monkeypatch.setattr(Run, "apply", broken)


async def test_a_run_whose_driver_failed_once_is_taken_up_by_its_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, 1)
    ended, events, (aside, asked) = await played(tmp_path, {"a": ["done\n[END]"]})
    assert (ended.status, ended.reason, aside) == ("completed", "signal:[END]", ())
    assert asked == {"a": 2}, "the call whose reply was never stored is made again"
    assert events[-1]["type"] == "run.finished"


async def test_a_run_that_fails_again_and_again_ends_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, 10**6)
    ended, events, (_, asked) = await played(tmp_path, {"a": ["done\n[END]"]})
    assert (ended.status, ended.reason) == ("failed", "cannot_continue")
    assert asked["a"] <= 5
    (warned,) = [event for event in events if event["type"] == "warning"]
    assert "a fault of ours" in warned["message"]


async def test_a_child_that_cannot_be_driven_ends_with_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, 10**6, "r1~")
    ended, _, _ = await played(tmp_path, {"a": ["sub\n[SUB]", "done\n[END]"], "x": ["in\n[END]"]})
    assert (ended.status, ended.reason) == ("failed", "cannot_continue")


@pytest.mark.parametrize("error", [StoreBroken, Unstorable])
async def test_what_cannot_be_stored_is_set_aside_or_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    transit = Committer.commit_event

    async def broken(self: Committer, live: Any, event: Any, **how: Any) -> None:
        if type(event).__name__ == "ModelReplied":
            raise error("it cannot be written")
        await transit(self, live, event, **how)

    monkeypatch.setattr(Committer, "commit_event", broken)

    clock = ManualClock()
    async with Interlock(tmp_path / "data", models=lambda _: "done\n[END]", clock=clock) as box:
        if error is Unstorable:
            assert (await result(box, clock, tmp_path)).reason == "cannot_continue"
            assert box.set_aside == ()
        else:
            with pytest.raises(error):
                await result(box, clock, tmp_path)
            assert [aside.reason for aside in box.set_aside] == ["it cannot be written"]


TOOL_INSIDE = INNER.replace("{id: x}", "{id: x, tools: [pay]}")


async def pay() -> str:
    """Pays."""
    return "paid"


async def leave_tree(folder: Path) -> None:
    """A process ends while the model of a sub-crew works; nobody parks its runs."""

    async def model(request: ModelRequest) -> str:
        if request.agent == "x":
            await asyncio.Event().wait()
        return "sub\n[SUB]"

    (folder / "inner").mkdir()
    (folder / "inner" / "crew.yaml").write_text(TOOL_INSIDE, "utf-8")
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    crew = load_crew(folder, host=Host(tools=("pay",)))
    async with Interlock(folder / "data", models=model, tools=[pay]) as box:
        run = await box.start(crew, "go", run_id="r1")
        async for event in box.runner.follow(run.id):
            if event["type"] == "model.called" and event["agent"] == "x":
                return


async def rows_of(folder: Path) -> dict[str, tuple[str, str]]:
    async with Interlock(folder / "data") as box:
        rows = await box.journal.rows(limit=9)
    return {row.run.partition("~")[0] + "~" * ("~" in row.run): (row.status, row.reason) for row in rows}


def test_what_was_set_aside_is_seen_by_every_process_and_recovered_where_it_can_be(tmp_path: Path) -> None:
    asyncio.run(leave_tree(tmp_path))
    assert asyncio.run(rows_of(tmp_path)) == {"r1": ("running", ""), "r1~": ("running", "")}

    async def asides(box: Interlock) -> Any:
        return [(aside.run, "pay" in aside.reason) for aside in box.set_aside]

    for _ in range(2):  # a second process that lacks the tool changes nothing
        assert inside(Interlock(tmp_path / "data", models=lambda _: "x", recover=True), asides) == [("r1", True)]
        assert asyncio.run(rows_of(tmp_path)) == {"r1": ("paused", "set_aside"), "r1~": ("paused", "set_aside")}
    shown = CliRunner().invoke(interlock, ["runs", "show", "r1", "--data", str(tmp_path / "data")]).output
    assert "r1 is set aside: 'interlock resume r1' continues it" in shown
    assert "needs from its host what this process does not have: pay" in shown
    refused = CliRunner().invoke(interlock, ["resume", "r1", "--data", str(tmp_path / "data")])
    assert refused.exit_code == 2

    def ends(request: ModelRequest) -> str:
        return "done\n[END]"

    async def settled(box: Interlock) -> Any:
        await box.runner.wait_until_settled("r1")
        return box.set_aside

    assert inside(Interlock(tmp_path / "data", models=ends, tools=[pay], recover=True), settled) == ()
    assert asyncio.run(rows_of(tmp_path))["r1"] == ("completed", "signal:[END]")
    assert CliRunner().invoke(interlock, ["runs", "replay", "r1", "--data", str(tmp_path / "data")]).exit_code == 0
