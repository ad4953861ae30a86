"""Conversations under simulation: they end, and no message is unaccounted for."""

from collections import Counter
from typing import Any

import pytest

from interlock.engine.flow.waits import agents_at_work
from interlock.engine.state import Task
from interlock.engine.transition import Transition
from interlock.engine.turns import cancellation
from interlock.ids import CHILD_MARK
from interlock.messages.mailbox import OUTCOMES
from interlock.ports import AtomicWrites
from interlock.runtime.broadcasts import BroadcastHub
from interlock.runtime.live_runs import LiveRun
from tests.testing.trees import events_of, mail_of, simulated

TREES = 200
DEEP = 217  # a tree in which a crew of a crew completes
LANES = 10


@pytest.mark.parametrize("lane", range(LANES))
def test_random_trees_end_and_every_message_has_one_fate(lane: int) -> None:
    """sent = answered + refused + undelivered + timed out, for every run that is over."""
    for seed in range(lane, TREES, LANES):
        simulation = simulated(seed)
        simulation.require_lawful()
        fates = Counter(mail_of(simulation).values())
        if simulation.status != "paused":
            assert fates.total() == sum(fates[outcome] for outcome in OUTCOMES), f"seed {seed}: {fates}"


def test_the_trees_show_what_they_are_for() -> None:
    """Every type of message, every fate, every refusal and every end of a crew is among them, so the law can fail."""
    wanted = {"DELEGATE", "REPORT", "QUERY", "ANSWER", "REQUEST_USER_INPUT", "USER_RESPONSE", *OUTCOMES}
    wanted |= {"late", "deadlock", "unknown-agent", "wrong-conversation"}
    wanted |= {f"a crew is {status} at level {level}" for status in ("completed", "cancelled") for level in (1, 2)}
    for seed in (*range(TREES), DEEP):
        for event in events_of(simulated(seed)):
            wanted.discard(event["message"]["type"] if event["type"] == "message.sent" else "")
            if event["type"] == "child.finished":
                wanted.discard(f"a crew is {event['status']} at level {event['child'].count(CHILD_MARK)}")
            if event["type"] == "message.settled":
                wanted -= {event["outcome"], event["code"]}
        if not wanted:
            return
    raise AssertionError(f"never seen: {wanted}")


@pytest.mark.parametrize("seed", [255, 347, 349, 642, 5497, 6660, 6878])
def test_trees_that_once_broke_a_law(seed: int) -> None:
    """A run was answered or stopped in another process before it was recovered, or paused while a crew was stopping;
    or was over, and still stopping a crew that had come to its end by itself."""
    simulated(seed).require_lawful()


def test_the_same_seed_talks_the_same_way() -> None:
    assert simulated(11).journal == simulated(11).journal


@pytest.mark.parametrize("lane", range(2))
def test_who_is_at_work_is_known_without_looking_at_everybody(lane: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bus is told of those whom an event concerns; they are all for whom something has changed."""
    looked, alongside = list[int](), BroadcastHub.with_bus_writes

    def compared(board: BroadcastHub, live: LiveRun, *what: Any) -> AtomicWrites:
        also = alongside(board, live, *what)
        looked.append(len(live.at_work))
        assert live.at_work == agents_at_work(live.run.state)
        return also

    monkeypatch.setattr(BroadcastHub, "with_bus_writes", compared)
    for seed in range(lane, TREES, 20):
        simulated(seed).require_lawful()
    assert max(looked) > 1


def test_an_agent_that_nobody_looks_at_when_it_is_free_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def dropped(t: Transition, task: Task) -> None:
        del t.state.tasks[task.worker]

    monkeypatch.setattr(Transition, "drop_task", dropped)
    monkeypatch.setattr(cancellation, "stop_turn", lambda t, turn: None)
    found = {law for seed in range(TREES // 4) for law in (v.law for v in simulated(seed).violations)}
    assert "no idle agent could continue" in found
