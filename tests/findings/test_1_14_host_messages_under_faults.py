"""Finding 1.14, the rest: messages of the host under faults, without a turn to read them, redacted and recovered."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, load_crew
from interlock.engine.events import MessageSent, MessageSettled
from interlock.messages import HOST, register, unregister
from interlock.messages.mailbox import OUTCOMES
from interlock.ports import ModelRequest
from interlock.testing import Faults, ManualClock, simulate
from tests.testing.workshop import TOOLS, WORKSHOP

ANYTHING = {"type": "object", "properties": {"note": {"type": "string"}}}
CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: b}]
routing: {signals: {a: [{signal: "[NEXT]", target: b}], b: [{signal: "[END]"}]}}
settings: {timeout_seconds: 100000}
"""


@pytest.fixture(autouse=True)
def types() -> Iterator[None]:
    register("NOTE", ANYTHING, from_=HOST, to="*")
    register("ASK", ANYTHING, from_=HOST, to="*", requires_response=True)
    yield
    unregister("NOTE")
    unregister("ASK")


def crew_in(folder: Path) -> Any:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return load_crew(folder)


def test_messages_of_the_host_keep_every_law_under_every_fault() -> None:
    faults = Faults(messaged=0.6, parked=0.1, hour_away=0.02)
    fates: Counter[str] = Counter()
    sent = 0
    for seed in range(24):
        simulation = simulate(WORKSHOP, seed=seed, tools=TOOLS, faults=faults)
        simulation.require_lawful()
        events = [event for record in simulation.records for event in record.events]
        ours = [event.message["message_id"] for event in events if isinstance(event, MessageSent) and not event.attempt]
        settled = [event.outcome for event in events if isinstance(event, MessageSettled)]
        sent += len(ours)
        if simulation.status != "paused":
            assert len(settled) == len(ours), f"seed {seed}"
        fates.update(settled)
    assert sent > 30
    assert set(fates) >= {"answered", "undelivered"}
    assert set(fates) <= set(OUTCOMES)


async def test_a_question_to_an_agent_that_never_has_a_turn_is_undelivered_and_the_run_ends(tmp_path: Path) -> None:
    clock, going = ManualClock(), asyncio.Event()

    async def model(request: ModelRequest) -> str:
        await going.wait()
        return "alone\n[NEXT]" if request.agent == "a" else "done\n[END]"

    async with Interlock(tmp_path / "data", models=model, clock=clock) as box:
        run = await box.start(crew_in(tmp_path), "go", run_id="r")
        asked = await box.send_message("r", "ASK", "b", {"note": "well?"})
        outcomes: list[str] = []
        while not outcomes:
            clock.advance(10_000)
            for _ in range(200):  # all that follows from it is stored before more time passes
                await box.journal.rows(limit=1)
            events = [event for record in await box.journal.records("r") for event in record.events]
            outcomes = [each.outcome for each in events if isinstance(each, MessageSettled)]
        going.set()
        assert (asked, outcomes, (await run.result()).status) == ("r:m1", ["undelivered"], "completed")


async def test_a_secret_in_a_body_is_in_no_journal_and_in_no_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, seen = "sk-very-secret-0123456789", list[str]()
    monkeypatch.setenv("HIDDEN_KEY", secret)
    (tmp_path / "interlock.toml").write_text(
        '[providers.hidden]\nurl = "http://127.0.0.1:1/v1"\nkey_env = "HIDDEN_KEY"\n', "utf-8"
    )
    gate = asyncio.Event()

    async def model(request: ModelRequest) -> str:
        seen.extend(message.text for message in request.messages)
        await gate.wait()
        return "next\n[NEXT]" if request.agent == "a" else "done\n[END]"

    box = Interlock(tmp_path / "data", host=tmp_path / "interlock.toml", models=model)
    async with box:
        run = await box.start(crew_in(tmp_path), "go", run_id="r")
        await box.send_message("r", "NOTE", "b", {"note": f"use {secret} please"})
        gate.set()
        assert (await run.result()).status == "completed"
    assert any("use" in text and "please" in text for text in seen), "the message was shown"
    assert not any(secret in text for text in seen)
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


async def test_a_message_that_nobody_has_read_is_read_after_a_crash(tmp_path: Path) -> None:
    seen: list[str] = []

    async def hangs(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    def answers(request: ModelRequest) -> str:
        seen.extend(message.text for message in request.messages)
        return "next\n[NEXT]" if request.agent == "a" else "done\n[END]"

    async with Interlock(tmp_path / "data", models=hangs) as box:
        await box.start(crew_in(tmp_path), "go", run_id="r")
        await box.send_message("r", "NOTE", "b", {"note": "for later"}, key="k")
    async with Interlock(tmp_path / "data", models=answers, recover=True) as box:
        assert await box.send_message("r", "NOTE", "b", {"note": "for later"}, key="k") == "r:m1"
        await box.runner.wait_until_settled("r")
        assert (await box.result("r")).status == "completed"
    assert sum("for later" in text for text in seen) == 1
