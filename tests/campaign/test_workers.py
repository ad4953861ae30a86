"""Real workers on PostgreSQL under faults: the short version of `python -m campaign.workers`."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from secrets import token_hex

import pytest

from campaign import worker_faults as faults
from campaign.worker_trials import Trial, faults_of, repeated_calls, trial_on
from campaign.workers import Case, cases_of_servers, cases_of_ways, cases_of_workers, page, play, play_fail_over
from tests.postgres import Cluster, shared_cluster

pytestmark = pytest.mark.timeout(300)

# Shorter or fewer than in the campaign.
LONG = {"1,000 answers to one question", "stopped for 10 s", "stopped for 1.4 s", "stopped for 2 s", "killed, 40 runs"}
WORKERS = [
    *(case for case in cases_of_workers(Random(0)) if case.name not in LONG),
    Case("killed, 10 runs", lambda trial: faults.kill_one_of_three(trial, 10)),
]


def name_of(case: Case) -> str:
    return case.name


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder whose name is that of a schema that no other test has."""
    return tmp_path / f"w_{token_hex(4)}"


@pytest.mark.parametrize("case", WORKERS, ids=name_of)
def test_a_fault_of_a_worker_loses_and_repeats_nothing_that_is_stored(place: Path, case: Case) -> None:
    assert play(shared_cluster(), place, case).faults == []


@pytest.mark.parametrize("case", [*cases_of_ways()], ids=name_of)
def test_a_fault_of_the_way_to_the_store_loses_and_repeats_nothing_that_is_stored(place: Path, case: Case) -> None:
    assert play(shared_cluster(), place, case).faults == []


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.end()


# Without the long one.
OF_SERVERS = [case for case in cases_of_servers() if not case.name.endswith("away 6 s")]


@pytest.mark.parametrize("case", OF_SERVERS, ids=name_of)
def test_a_server_of_the_store_that_ends_and_comes_back_costs_no_call(
    own_cluster: Cluster, place: Path, case: Case
) -> None:
    outcome = play(own_cluster, place, case)
    assert (outcome.faults, outcome.repeats) == ([], 0)


def test_a_failover_to_a_synchronous_standby_loses_nothing_and_costs_no_call(place: Path) -> None:
    outcome = play_fail_over(place)
    assert (outcome.faults, outcome.repeats) == ([], 0)


def test_an_answer_that_comes_often_by_several_servers_has_one_effect(place: Path) -> None:
    with trial_on(shared_cluster(), place, "answers") as trial:
        assert faults.answer_often(trial, answers=200) == {200: 200}
        assert faults_of(trial) == []
        bodies = trial.query("select body from records")
    events = [event["type"] for (body,) in bodies for event in json.loads(bytes(body))[2]]
    assert events.count("run.resumed") == 1


def test_the_judge_finds_what_is_lost_forked_or_made_again(place: Path) -> None:
    with trial_on(shared_cluster(), place, "judge") as trial:
        trial.start_worker()
        trial.start_runs(1)
        trial.wait_until_finished()
        assert faults_of(trial) == []
        call = next(iter(trial.snapshots[0].calls))
        with (trial.cluster.folder / "ledger").open("a", encoding="utf-8") as ledger:
            ledger.write(f"begun {call} 1 1\nbegun {call} 1 1\n")
        trial.runs.append("never")
        trial.query("update records set link = 'another' where seq = 4 returning seq")
        trial.query("delete from records where seq = 6 returning seq")
        found = " ".join(fault.text for fault in faults_of(trial))
        assert repeated_calls(trial) == 2
    run = trial.runs[0]
    assert f"call {call} had its outcome at look 0, and was made again" in found
    assert f"2 calls of run {run} were made again; 0 may be" in found
    assert "run never was acknowledged, and is gone" in found
    assert f"record ('{run}', 4) was stored at look 0, and is another" in found
    assert f"record ('{run}', 6) was stored at look 0, and is gone" in found
    assert "the doctor says" in found


def test_the_results_name_each_fault_and_what_broke(place: Path) -> None:
    def fails(trial: Trial) -> None:
        raise AssertionError(f"{trial.name} did not end")

    text = page(1, [play(shared_cluster(), place, Case("nothing", fails))])
    assert "| nothing" in text
    assert "- nothing: AssertionError: nothing did not end" in text
