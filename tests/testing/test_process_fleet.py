"""Processes on one store keep their laws whatever ends, stalls or is lost; a planted bug breaks one, and is found."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from interlock.adapters.store_rules import record_format
from interlock.testing import MemoryStore, memory_owners, process_fleet
from interlock.testing.memory_owners import MemoryOutbox, MemoryOwners
from interlock.testing.process_fleet import FleetProcess, ProcessFleet, play_fleet

SEEDS = 40

Plant = Callable[[pytest.MonkeyPatch], None]


def compares_no_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record_format, "require_next", lambda tip, row, record: None)


def forgets_runs_whose_release_was_lost(patch: pytest.MonkeyPatch) -> None:
    can_claim = MemoryOwners._can_claim
    patch.setattr(
        MemoryOwners, "_can_claim", lambda self, kept, asked: kept.owner != self.owner and can_claim(self, kept, asked)
    )


def leads_without_an_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(process_fleet, "require_leader", lambda storage, leader: None)


def does_not_wait_for_the_lease(patch: pytest.MonkeyPatch) -> None:
    """A reaper that takes every owner but itself for dead."""
    can_claim = MemoryOwners._can_claim

    def hasty(self: Any, kept: Any, asked: Any) -> bool:
        alive, self._shared_storage.alive = self._shared_storage.alive, {self.owner}
        try:
            return can_claim(self, kept, asked)
        finally:
            self._shared_storage.alive = alive

    patch.setattr(MemoryOwners, "_can_claim", hasty)


def forgets_what_is_set_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryOwners, "_rests", lambda self, run, at: False)


def ignores_the_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "has_lease", lambda self: True)


def lets_two_send(patch: pytest.MonkeyPatch) -> None:
    async def greedy(self: MemoryOutbox, at: int, limit: int, run: str | None = None) -> Any:
        return [each.signal for each in self._shared_storage.outbox.values() if each.due_at <= at][:limit]

    patch.setattr(MemoryOutbox, "claim_signals", greedy)


def trusts_its_own_clock(patch: pytest.MonkeyPatch) -> None:
    def own_time(self: ProcessFleet, process: FleetProcess) -> int:
        return self.now + process.off_ms

    patch.setattr(ProcessFleet, "time_of", own_time)


def claims_what_it_does_not_know(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory_owners, "fits_request", lambda row, asked: True)


def serves_the_oldest_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory_owners, "in_fair_order", lambda waiting, _driven, _weights: sorted(waiting))


BUGS: dict[str, tuple[Plant, str]] = {
    bug.__name__: (bug, law)
    for bug, law in (
        (compares_no_epoch, "only the owner appends"),
        (forgets_runs_whose_release_was_lost, "every run comes to its end"),
        (leads_without_an_epoch, "only the leader writes"),
        (does_not_wait_for_the_lease, "what a living process drives is left to it"),
        (forgets_what_is_set_aside, "a run that is set aside rests"),
        (ignores_the_lease, "no effect starts without a lease"),
        (lets_two_send, "a signal has one sender"),
        (trusts_its_own_clock, "a run that is set aside rests"),
        (claims_what_it_does_not_know, "a process claims only what it knows"),
        (serves_the_oldest_first, "organizations take turns"),
    )
}


def test_every_law_holds_whatever_goes_wrong() -> None:
    for seed in range(SEEDS):
        assert play_fleet(seed) == [], f"seed {seed}"


def test_the_same_seed_gives_the_same_story() -> None:
    def story(seed: int) -> list[tuple[str, str, int]]:
        fleet = ProcessFleet(seed)
        asyncio.run(fleet.play())
        return [(kept.row.run, kept.row.status, kept.row.epoch) for kept in fleet.first.storage.runs.values()]

    assert story(7) == story(7) != story(8)
    assert any(epoch > 1 for _, _, epoch in story(7)), "a run was taken over"


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, law = BUGS[name]
    bug(monkeypatch)
    for seed in range(SEEDS):
        if any(found.law == law for found in play_fleet(seed)):
            return
    pytest.fail(f"{SEEDS} seeds did not find it")
