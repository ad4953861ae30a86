"""Fails workers, the server of their store and the way between them, for a while, and writes its part of RESULTS.md.

Usage: python -m campaign.workers [ROUNDS] [RUNS]     3 rounds, and 1,000 runs in the large take-over; 1 if a law broke
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.harness import machine, table, verdict
from campaign import results
from campaign import worker_faults as faults
from campaign.worker_trials import Fault, Trial, faults_of, repeated_calls, trial_on
from tests.chaos_proxy import HALF_OPEN, LANES, SESSION, WRITE
from tests.postgres import Cluster, Standby, url_of_both

ROUNDS, MANY_RUNS = 3, 1_000
# Faults that are listed; all are counted.
SHOWN_MAX = 20


class Case(NamedTuple):
    """A fault with its name, and how long a call takes."""

    name: str
    play: Callable[[Trial], object]
    work_s: float = 0.05


class Outcome(NamedTuple):
    """What a trial came to."""

    case: str
    runs: int
    repeats: int
    takeovers_ms: list[int]
    faults: list[Fault]


def cases_of_workers(random: Random) -> Iterator[Case]:
    yield Case("killed at each crash point", faults.kill_at_every_point)
    yield Case("killed while it carries out an answer", faults.kill_with_orders)
    yield Case("killed, 40 runs", lambda trial: faults.kill_one_of_three(trial, 40))
    yield Case("killed, two take over", faults.kill_with_two_reapers)
    for seconds in (1.0, 1.4, 2.0, 3.0, 10.0):
        yield Case(f"stopped for {seconds:g} s", partial(faults.stop_for, seconds=seconds, random=random))
    yield Case("stopped between append and effect", faults.stop_between_append_and_effect)
    yield Case("a zombie wakes, its successor dies", faults.wake_zombie_and_kill_successor)
    for hours in (-1, 1):
        yield Case(f"its clock is set by {hours} h", partial(faults.shift_clock, seconds=hours * 3600))
    yield Case("1,000 answers to one question", faults.answer_often)


def cases_of_ways() -> Iterator[Case]:
    yield Case("all connections reset", lambda trial: faults.cut_lanes(trial, LANES, reset=True))
    yield Case("only the session cut", lambda trial: faults.cut_lanes(trial, (SESSION,), reset=False))
    yield Case("only the append lane cut", lambda trial: faults.cut_lanes(trial, (WRITE,), reset=False))
    yield Case("half open, lease lost", lambda trial: faults.stall_lanes(trial, LANES, HALF_OPEN, ends=True))
    yield Case("only the session half open", lambda trial: faults.stall_lanes(trial, (SESSION,), HALF_OPEN, ends=True))
    yield Case("append lane half open, 1 s", lambda trial: faults.stall_lanes(trial, (WRITE,), HALF_OPEN, ends=False))
    yield Case("killed with an unknown commit", faults.kill_with_unknown_commit)
    yield Case("100 ms each way", lambda trial: faults.slow_way(trial, 0.1))


def cases_of_servers() -> Iterator[Case]:
    for how, away_s in ((signal.SIGKILL, 0.5), (signal.SIGQUIT, 1.0), (signal.SIGINT, 1.0), (signal.SIGKILL, 6.0)):
        name = f"PostgreSQL ended by {how.name}, away {away_s:g} s"
        yield Case(name, partial(faults.end_server, how=how, away_s=away_s))
    for how, away_s in ((signal.SIGQUIT, 4.0), (signal.SIGKILL, 0.5)):
        name = f"PostgreSQL ended by {how.name} under the only leader, away {away_s:g} s"
        yield Case(name, partial(faults.end_server_of_leader, how=how, away_s=away_s))


def play(postgres: Cluster, folder: Path, case: Case, store: str = "") -> Outcome:
    print(case.name, flush=True)
    with trial_on(postgres, folder, case.name, work_s=case.work_s, store=store) as trial:
        try:
            case.play(trial)
        except Exception as error:
            found = [Fault(case.name, f"{type(error).__name__}: {error}"[:1500])]
        else:
            found = faults_of(trial)
        return Outcome(case.name, len(trial.runs), repeated_calls(trial), trial.takeovers_ms, found)


def play_fail_over(folder: Path) -> Outcome:
    """On two servers of its own."""
    with ExitStack() as ends:
        primary = Cluster()
        ends.callback(primary.end)
        standby = Standby(primary)
        ends.callback(standby.end)
        case = Case("failed over to the synchronous standby", lambda trial: faults.fail_over(trial, standby))
        return play(primary, folder, case, url_of_both(primary, standby, folder.name))


def play_all(rounds: int, many_runs: int, folder: Path) -> list[Outcome]:
    postgres = Cluster()
    try:
        found = []
        for number in range(rounds):
            cases = [*cases_of_workers(Random(number)), *cases_of_ways(), *cases_of_servers()]
            found += [play(postgres, folder / f"t{number}_{n}", case) for n, case in enumerate(cases)]
            found.append(play_fail_over(folder / f"f{number}"))
        if many_runs:
            large = Case(f"killed, {many_runs:,} runs", lambda trial: faults.kill_one_of_three(trial, many_runs))
            found.append(play(postgres, folder / "large", large))
        return found
    finally:
        postgres.end()


def percentile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


def rows_of(outcomes: list[Outcome]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for name in dict.fromkeys(outcome.case for outcome in outcomes):
        of_case = [outcome for outcome in outcomes if outcome.case == name]
        slow = percentile([ms for outcome in of_case for ms in outcome.takeovers_ms], 0.99)
        repeats, wrong = sum(each.repeats for each in of_case), sum(len(each.faults) for each in of_case)
        rows.append(
            (name, len(of_case), sum(each.runs for each in of_case), repeats, f"{slow} ms" if slow else "", wrong)
        )
    return rows


def page(rounds: int, outcomes: list[Outcome]) -> str:
    """The results as Markdown."""
    wrong = [fault for outcome in outcomes for fault in outcome.faults]
    verdicts = []
    for outcome in (each for each in outcomes if each.takeovers_ms):
        most = 3_000 if outcome.runs <= 40 else 4_000
        slow = percentile(outcome.takeovers_ms, 0.99)
        verdicts.append(verdict(f"{outcome.runs} runs taken over, p99 under {most} ms", f"{slow} ms", slow < most))
    parts = [
        "# Campaign of workers",
        f"Written by `make campaign`. {machine()}. {rounds} rounds.",
        "A server that drives nothing and workers, real processes on PostgreSQL. Each call of the tool is synced to a"
        " ledger. After each fault: nothing that was stored is gone or another, no call with a stored outcome is made"
        " again, at most one call of a run is repeated per worker that died or stood still, none if only PostgreSQL or"
        " connections failed and the workers kept their lease, and the doctor replays every journal. After PostgreSQL"
        " was away a process leads again: schedules start their runs.",
        table(("fault", "trials", "runs", "calls made again", "take-over, p99", "laws broken"), rows_of(outcomes)),
        "\n".join(verdicts),
        *(["## Faults", "\n".join(f"- {fault.trial}: {fault.text}" for fault in wrong[:SHOWN_MAX])] if wrong else []),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    many = int(sys.argv[2]) if len(sys.argv) > 2 else MANY_RUNS
    with TemporaryDirectory() as folder:
        outcomes = play_all(rounds, many, Path(folder))
    text = page(rounds, outcomes)
    results.put(text)
    print(text)
    sys.exit(1 if any(outcome.faults for outcome in outcomes) else 0)
