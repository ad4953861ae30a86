from typing import Any

import pytest

from interlock.runtime.claiming.load import LATE_LOOP_MS, SLOW_STORE_MS, Load
from interlock.runtime.claiming.work import WorkSettings
from interlock.testing import ManualClock, MemoryStore
from tests.runtime.claiming.test_claim_loop import runner_on


def load_of(begun: int = 0, runs: int = 0, **work: Any) -> Load:
    live_runs = runner_on(MemoryStore(), ManualClock()).live_runs
    for number in range(runs):
        calls = {str(call) for call in range(begun)} if number == 0 else set[str]()
        live_runs.runs[f"r{number}"] = type("Live", (), {"begun": calls})()
        live_runs.runs[f"r{number}~1"] = type("Live", (), {"begun": set()})()
    return Load(WorkSettings(**work), live_runs)


def test_children_take_no_room() -> None:
    load = load_of(runs=3, runs_max=5)
    assert (load.runs, load.room()) == (3, 2)
    assert load_of(runs=3, runs_max=2).room() == 0


@pytest.mark.parametrize(("begun", "room"), [(0, 9), (7, 9), (8, 0), (10, 0)])
def test_no_run_is_claimed_beyond_the_share_of_calls(begun: int, room: int) -> None:
    assert load_of(begun, runs=1, runs_max=10, calls_max=10).room() == room


def test_a_late_loop_claims_nothing_until_it_is_on_time() -> None:
    load = load_of(runs_max=5)
    load.on_turn(LATE_LOOP_MS + 1)
    assert load.room() == load.room() == 0
    load.on_turn(1)
    assert load.room() == 5


def test_a_slow_store_is_asked_less_often() -> None:
    load = load_of(runs_max=5)
    load.on_claimed(SLOW_STORE_MS + 1, 1)
    assert (load.room(), load.room()) == (0, 5)
    load.on_claimed(SLOW_STORE_MS + 1, 10)  # a tenth of it for each
    assert load.room() == 5
