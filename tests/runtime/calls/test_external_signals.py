"""External signals reach the host at least once, with the same key, also after a crash."""

import asyncio
import textwrap
from pathlib import Path

import msgspec

from interlock import ExternalSignal, Interlock, load_crew
from interlock.engine.effects import SendExternalSignal
from interlock.ports import AtomicWrites, ModelRequest, OutgoingSignal
from interlock.runtime.calls.external_signals import LATER_MS, PAUSES_MS, ExternalSender
from interlock.testing import ManualClock, MemoryStore
from tests.contracts.test_journal import a_row
from tests.contracts.test_journal import started as journal_started
from tests.framing import said

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, name: Ann}]
routing:
  signals:
    a: [{signal: "[REPORT]", type: external}, {signal: "[ASK]", type: external, pause: true}, {signal: "[END]"}]
"""


def done(_request: ModelRequest) -> str:
    return "all is well [REPORT] [END]"


async def started(box: Interlock, folder: Path) -> str:
    (folder / "crew.yaml").write_text(textwrap.dedent(CREW), "utf-8")
    run = await box.start(load_crew(folder), "go")
    await run.result()
    return run.id


async def delivered(box: Interlock) -> None:
    """Until nothing is left to hand over."""
    while await box.store.signals_to_deliver():
        await asyncio.sleep(0)


async def test_what_was_handed_over_is_struck_off(tmp_path: Path) -> None:
    told: list[ExternalSignal] = []

    async def hear(tell: ExternalSignal) -> None:
        told.append(tell)

    async with Interlock(tmp_path / "data", models=done, on_external=hear, recover=True) as box:
        run = await started(box, tmp_path)
        await delivered(box)
        assert [(t.signal, t.agent, t.content, t.requires_response) for t in told] == [
            ("[REPORT]", "a", "all is well [REPORT] [END]", False)
        ]
        assert told[0].key.startswith(f"{run}:")
    async with Interlock(tmp_path / "data", models=done, on_external=hear, recover=True):
        assert len(told) == 1


async def test_a_signal_that_was_not_sent_without_a_lease_is_sent_when_it_is_back() -> None:
    told: list[str] = []
    store = MemoryStore()
    sender = ExternalSender(store, store, ManualClock(), lambda tell: told.append(tell.key))
    send = SendExternalSignal(key="r1:1", agent="a", signal="[REPORT]", content="", requires_response=False)
    outgoing = OutgoingSignal(key="r1:1", run="r1", body=msgspec.json.encode(send))
    await store.create(a_row(), journal_started(), AtomicWrites(outgoing=(outgoing,)))
    store.is_leased = False  # a server that is away for a moment
    sender.start_sending([outgoing])
    while sender._tasks:
        await asyncio.sleep(0)
    store.is_leased = True
    await sender.resend_pending()
    while await store.signals_to_deliver():
        await asyncio.sleep(0)
    assert told == ["r1:1"]


async def test_a_host_that_died_while_it_was_told_is_told_again_though_the_run_is_over(tmp_path: Path) -> None:
    told: list[str] = []

    hearing = asyncio.Event()

    async def dies(tell: ExternalSignal) -> None:
        told.append(tell.key)
        hearing.set()
        await asyncio.Event().wait()

    async with Interlock(tmp_path / "data", models=done, on_external=dies) as box:
        await started(box, tmp_path)
        await hearing.wait()

    async def hear(tell: ExternalSignal) -> None:
        told.append(tell.key)

    async with Interlock(tmp_path / "data", models=done, on_external=hear, recover=True) as box:
        await delivered(box)
    assert len(told) == 2 and told[0] == told[1]


async def test_a_host_that_fails_is_told_again_a_few_times_and_then_at_the_next_start(tmp_path: Path) -> None:
    told: list[str] = []
    clock = ManualClock()

    async def fails(tell: ExternalSignal) -> None:
        told.append(tell.key)
        raise OSError("the host's own trouble")

    async with Interlock(tmp_path / "data", models=done, on_external=fails, clock=clock) as box:
        await started(box, tmp_path)
        for tries in range(1, len(PAUSES_MS) + 2):
            while len(told) < tries:  # it may still have to fall asleep before its next try
                clock.advance(max(PAUSES_MS))
                await asyncio.sleep(0)
        for _ in range(20):  # it has given up
            clock.advance(max(PAUSES_MS))
            assert len(await box.store.signals_to_deliver()) == 1
    assert len(told) == 1 + len(PAUSES_MS)

    async def hear(tell: ExternalSignal) -> None:
        told.append(tell.key)

    async with Interlock(tmp_path / "data", models=done, on_external=hear, recover=True) as box:
        await delivered(box)
    assert len(told) == 2 + len(PAUSES_MS) and len(set(told)) == 1


async def test_a_handler_may_answer_the_very_wait_it_is_told_of(tmp_path: Path) -> None:
    def ask(request: ModelRequest) -> str:
        return "may I? [ASK]" if request.number == 1 else f"{request.messages[-1].text} [END]"

    async with Interlock(tmp_path / "data", models=ask, on_external=lambda tell: answer(tell)) as box:

        async def answer(tell: ExternalSignal) -> None:
            while (await box.journal.row(tell.run)).status != "paused":
                await asyncio.sleep(0)
            await box.resume(tell.run, "you may", token=tell.token)

        run = await started(box, tmp_path)
        await delivered(box)
        await box.runner.wait_until_settled(run)
        result = await box.result(run)
    assert (result.status, result.text) == ("completed", said("external", "answer", "you may"))


async def test_attempts_survive_a_restart_and_another_process_does_not_send_meanwhile(tmp_path: Path) -> None:
    told: list[str] = []
    clock = ManualClock()

    async def fails(tell: ExternalSignal) -> None:
        told.append("first")
        raise OSError("the host's own trouble")

    async def hear(tell: ExternalSignal) -> None:
        told.append("second")

    async with Interlock(tmp_path / "data", models=done, on_external=fails, clock=clock) as box:
        await started(box, tmp_path)
        while (await box.store.signals_to_deliver())[0].attempts < 1:
            await asyncio.sleep(0)
        async with Interlock(tmp_path / "data", models=done, on_external=hear, clock=clock, recover=True):
            assert told == ["first"], "it is not due yet"
    clock.advance(PAUSES_MS[0])
    async with Interlock(tmp_path / "data", models=done, on_external=fails, clock=clock, recover=True) as box:
        while (await box.store.signals_to_deliver())[0].attempts < 2:
            await asyncio.sleep(0)
        assert told == ["first"] * 2
    clock.advance(PAUSES_MS[1])
    async with Interlock(tmp_path / "data", models=done, on_external=hear, clock=clock, recover=True) as box:
        await delivered(box)
    assert told == ["first", "first", "second"]


async def test_a_process_that_stays_sends_what_failed_four_times_again_after_an_hour(tmp_path: Path) -> None:
    told: list[str] = []
    clock = ManualClock()

    async def fails_at_first(tell: ExternalSignal) -> None:
        told.append(tell.key)
        if len(told) <= 1 + len(PAUSES_MS):
            raise OSError("the host's own trouble")

    async with Interlock(tmp_path / "data", models=done, on_external=fails_at_first, clock=clock, recover=True) as box:
        await started(box, tmp_path)
        begun = clock.now_ms()
        while await box.store.signals_to_deliver():
            clock.advance(1_000)
            await asyncio.sleep(0)
    assert len(told) == 2 + len(PAUSES_MS)
    assert clock.now_ms() - begun >= LATER_MS
