"""Finding 3.6: a run that another process drives is cancelled, answered and resumed from here."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interlock import AlreadyResumed, Interlock, load_crew
from interlock.cli.main import interlock
from interlock.cli.system_user import system_user
from interlock.compose import orders
from interlock.engine.events import CancelRequested, RunResumed
from interlock.errors import NotWaiting, OrderPending
from interlock.ports import ModelRequest, RunOrder
from interlock.runtime.orders import RESUME, resume_body
from tests.boxes import sqlite_of
from tests.compose.working.test_recovery import Slow, asked_about, cut_off, pay
from tests.nested_crews import nested_crew
from tests.server.process import COMMAND

HANGING = """\
version: "2.0"
name: lone
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""

# Drives a run until it is killed: its model answers only the process that comes after it, told by the file.
DRIVER = """
import asyncio, sys
from pathlib import Path
from interlock import Interlock, load_crew
async def hang(request):
    print("calling", flush=True)
    await asyncio.Event().wait()
async def main():
    folder = Path(sys.argv[1])
    async with Interlock(folder / "data", models=hang, recover=True) as box:
        if not await box.journal.rows():
            await box.start(load_crew(folder), "go", run_id="r")
        await asyncio.Event().wait()
asyncio.run(main())
"""


def command(data: Path, *words: str) -> Result:
    return CliRunner().invoke(interlock, [*words, "--data", str(data)], catch_exceptions=False)


@contextmanager
def driving(folder: Path, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that drives run r, in the middle of a model call."""
    (folder / "crew.yaml").write_text(HANGING, "utf-8")
    program = [sys.executable, "-c", DRIVER, str(folder)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment or None) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "calling\n"
            yield process
        finally:
            process.kill()


async def events_of(data: Path, kind: type) -> list[Any]:
    async with Interlock(data) as box:
        records = await box.journal.records("r")
        return [event for record in records for event in record.events if isinstance(event, kind)]


# The command line


def test_a_run_of_another_process_is_cancelled_from_the_command_line(tmp_path: Path) -> None:
    with driving(tmp_path) as process:
        done = command(tmp_path / "data", "runs", "cancel", "r")
        assert (done.exit_code, done.output) == (0, "r is cancelled\n")
        assert process.poll() is None  # its process goes on with other runs
        again = command(tmp_path / "data", "runs", "cancel", "r")
        assert (again.exit_code, again.output) == (0, "r is cancelled\n")
    assert [event.by for event in asyncio.run(events_of(tmp_path / "data", CancelRequested))] == [system_user()]


def test_an_answer_that_nobody_asked_for_is_refused_by_the_command_line_as_ever(tmp_path: Path) -> None:
    with driving(tmp_path):
        refused = command(tmp_path / "data", "resume", "r", "--input", "hello")
        assert refused.exit_code == 1
        assert "is not waiting for input: it is running; 'interlock runs follow' shows it" in refused.output


def test_a_run_whose_process_was_killed_is_cancelled_here(tmp_path: Path) -> None:
    """Kill -9 of the driver: the order is carried out by who posted it."""
    with driving(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        done = command(tmp_path / "data", "runs", "cancel", "r")
        assert (done.exit_code, done.output) == (0, "r is cancelled\n")
    assert len(asyncio.run(events_of(tmp_path / "data", CancelRequested))) == 1


async def test_a_driver_that_dies_while_it_is_waited_for_leaves_the_run_to_the_poster(tmp_path: Path) -> None:
    with driving(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)  # it lives and takes nothing
        async with Interlock(tmp_path / "data") as box:
            cancelling = asyncio.create_task(box.cancel("r"))
            while not await open_orders(box):
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            handle = await cancelling
            assert (await handle.result()).status == "cancelled"
            assert await open_orders(box) == []
    assert len(await events_of(tmp_path / "data", CancelRequested)) == 1


async def no_orders(owner: str) -> list[RunOrder]:
    """A process that does not take orders."""
    return []


async def open_orders(box: Interlock) -> list[Any]:
    return await sqlite_of(box).read("look", lambda connection: connection.execute("select key from orders").fetchall())


@pytest.mark.parametrize("number", range(1, 13))
def test_wherever_the_poster_is_killed_the_order_is_carried_out_once_or_not_at_all(tmp_path: Path, number: int) -> None:
    with driving(tmp_path):
        words = [COMMAND, "runs", "cancel", "r", "--data", str(tmp_path / "data")]
        environment = {"INTERLOCK_CRASH_AT": str(number), "PATH": "/usr/bin:/bin"}
        died = subprocess.run(words, env=environment, capture_output=True, timeout=60, check=False)
        assert died.returncode in (0, 137)
        done = command(tmp_path / "data", "runs", "cancel", "r")
        assert (done.exit_code, done.output) == (0, "r is cancelled\n")
    assert len(asyncio.run(events_of(tmp_path / "data", CancelRequested))) == 1


# From `Interlock` in another process


@asynccontextmanager
async def asked_elsewhere(folder: Path) -> AsyncIterator[tuple[Interlock, Interlock, Slow, str]]:
    """A run that another box drives: a question of b is open, and c works. With this box, and the question's token."""
    await cut_off(folder)
    model = Slow()
    async with (
        Interlock(folder / "data", models=model, tools=[pay], recover=True) as driver,
        Interlock(folder / "data") as box,
    ):
        token = await asked_about(driver, model)
        yield driver, box, model, token


async def test_an_answer_reaches_the_process_that_drives_the_run(tmp_path: Path) -> None:
    async with asked_elsewhere(tmp_path) as (driver, box, model, token):
        run = await box.resume("r", "paid")
        assert (await driver.state("r")).answered == {token: "paid"}
        assert await open_orders(box) == []  # it was read, and is not kept
        await box.resume("r", "paid", token=token)
        with pytest.raises(AlreadyResumed):
            await box.resume("r", "not paid", token=token)
        for held in model.let_go.values():
            held.set()
        assert (await run.result()).status == "completed"
    assert [event.input for event in await events_of(tmp_path / "data", RunResumed)] == ["paid"]


async def test_the_command_line_answers_and_shows_the_rest(tmp_path: Path) -> None:
    async with asked_elsewhere(tmp_path) as (driver, _, model, token):
        words = ["runs", "answer", token, "paid", "--json"]
        asking = asyncio.create_task(asyncio.to_thread(in_process, tmp_path / "data", *words))
        while token not in (await driver.state("r")).answered:
            await asyncio.sleep(0.01)
        for held in model.let_go.values():
            held.set()
        code, output = await asking
        events = [json.loads(line) for line in output.splitlines()]
        assert (code, events[-1]["type"], events[-1]["status"]) == (0, "run.finished", "completed")


def in_process(data: Path, *words: str) -> tuple[int, str]:
    program = [COMMAND, *words, "--data", str(data)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout


async def test_two_posters_at_once_get_one_answer_taken(tmp_path: Path) -> None:
    async with (
        asked_elsewhere(tmp_path) as (driver, box, _, token),
        Interlock(tmp_path / "data") as second,
    ):
        answers = [box.resume("r", "paid", token=token), second.resume("r", "not paid", token=token)]
        done = await asyncio.gather(*answers, return_exceptions=True)
        refused = [each for each in done if isinstance(each, AlreadyResumed)]
        assert len(refused) == 1
        assert (await driver.state("r")).answered[token] in ("paid", "not paid")
    assert len(await events_of(tmp_path / "data", RunResumed)) == 1


async def test_a_cancel_beside_an_answer_ends_the_run(tmp_path: Path) -> None:
    async with (
        asked_elsewhere(tmp_path) as (_, box, _, token),
        Interlock(tmp_path / "data") as second,
    ):
        both = [box.resume("r", "paid", token=token), second.cancel("r")]
        done = await asyncio.gather(*both, return_exceptions=True)
        assert not isinstance(done[1], BaseException)
        assert not isinstance(done[0], BaseException) or isinstance(done[0], NotWaiting)
        assert (await second.run("r").result()).status == "cancelled"


async def test_a_running_run_of_another_process_is_followed_by_a_resume_without_input(tmp_path: Path) -> None:
    async with asked_elsewhere(tmp_path) as (_, box, _, _token):
        assert (await box.resume("r")).id == "r"
        assert await open_orders(box) == []


async def test_a_driver_that_does_not_answer_leaves_the_order_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked_elsewhere(tmp_path) as (driver, box, _, token):
        real = driver.runner.orders.orders_for

        driver.runner.orders.orders_for = no_orders  # type: ignore[method-assign]
        monkeypatch.setattr(orders, "WAIT_MS", 0)
        with pytest.raises(OrderPending, match=r"order posted, not yet taken.*'interlock runs show r'"):
            await box.resume("r", "paid", token=token)
        driver.runner.orders.orders_for = real  # type: ignore[method-assign]
        driver.runner.order_taker.wake()
        while token not in (await box.state("r")).answered:
            await asyncio.sleep(0.01)


async def test_an_order_that_a_dead_driver_left_is_carried_out_by_the_next_one(tmp_path: Path) -> None:
    """Neither the poster nor the driver is there any more: who takes the run up carries the order out, once."""

    async def take_up() -> None:
        async with Interlock(tmp_path / "data", models=Slow(), tools=[pay], recover=True) as box:
            while await box.runner.orders.outcome("left") is None:
                await asyncio.sleep(0.01)
            assert list((await box.state("r")).answered.values()) == ["paid"]

    async with asked_elsewhere(tmp_path) as (driver, box, _, token):
        driver.runner.orders.orders_for = no_orders  # type: ignore[method-assign]
        body = resume_body(token, "paid", continues_parked=False)
        order = RunOrder(key="left", run="r", kind=RESUME, body=body, by="host", at=box.clock.now_ms())
        await box.runner.orders.post(order)
    await take_up()
    await take_up()
    assert len(await events_of(tmp_path / "data", RunResumed)) == 1


async def test_secrets_are_taken_out_of_what_is_posted(tmp_path: Path) -> None:
    async with asked_elsewhere(tmp_path) as (driver, box, _, token):
        bodies: list[bytes] = []
        post = box.runner.orders.post

        async def noted(order: RunOrder) -> Any:
            bodies.append(order.body)
            return await post(order)

        box.runner.orders.post = noted  # type: ignore[method-assign]
        box.redactor().add("sk-very-secret-key")
        await box.resume("r", "it is sk-very-secret-key", token=token)
        assert len(bodies) == 1
        assert b"sk-very-secret-key" not in bodies[0]
        assert "sk-very" not in (await driver.state("r")).answered[token]


async def test_an_answer_to_a_child_reaches_the_process_that_drives_the_tree(tmp_path: Path) -> None:
    """The child that asks rests and has no owner; its root works on, elsewhere."""
    said = {"a": "Go. [BOTH] [WRITE]", "x": "Deeper. [DEEP]", "y": "Which one? [WAIT]"}

    async def reply(request: ModelRequest) -> str:
        if request.agent == "z":
            await asyncio.Event().wait()
        answered = any("this one" in message.text for message in request.messages)
        return "That one. [END]" if answered or "Found" in str(request.messages) else said[request.agent]

    crew = load_crew(nested_crew(tmp_path / "crews"))
    async with Interlock(tmp_path / "data", models=reply) as driver, Interlock(tmp_path / "data") as box:
        await driver.start(crew, "go", run_id="r")
        while not (asked := await box.questions()):
            await asyncio.sleep(0.01)
        assert asked[0].run.startswith("r~")
        assert await box.owners.is_owned("r")
        await box.answer(asked[0].id, "this one")
        assert (await box.journal.row("r")).status == "running"
        assert (await box.state(asked[0].run)).answered == {asked[0].token: "this one"}
        await (await box.cancel(asked[0].run)).result()
        assert (await (await box.cancel("r")).result()).status == "cancelled"


# What is said


def test_a_filter_that_nothing_fits_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with driving(tmp_path):
        pass
    assert command(data, "runs", "list", "--crew", "none", "--status", "paused").output == (
        "no runs match --status paused --crew none; 'interlock runs list' shows all\n"
    )
    assert command(tmp_path / "empty", "runs", "list", "--crew", "none").output.startswith("no runs match")
    assert command(tmp_path / "empty", "runs", "list").output.startswith("no runs yet")


HELD = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk}, {id: boss}]
routing:
  signals:
    clerk: [{signal: "[NEXT]", target: boss}]
    boss: [{signal: "[END]"}]
  agent_behaviors: {clerk: {auto_route: false}}
"""


def test_a_held_mark_says_what_approving_does(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(HELD, "utf-8")
    (tmp_path / "script.yaml").write_text("replies: {clerk: ['Shall I? [NEXT]'], boss: ['[END]']}\n", "utf-8")
    words = ["run", str(tmp_path), "go", "--script", str(tmp_path / "script.yaml"), "--plain"]
    run = command(tmp_path / "data", *words)
    expects = "yes, which lets [NEXT] hand over to boss, or words for clerk, which then continues instead"
    assert f"({expects})" in run.output
    assert f"answer with {expects}" in command(tmp_path / "data", "runs", "questions").output
