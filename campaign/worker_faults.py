"""Faults of workers, of the server of the store, of the way between them, and of clocks: each is a trial.

A function does the fault and returns when all runs have ended; the caller asks the judge.
"""

import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import httpx2

from campaign.worker_trials import Trial, now_ms
from tests.chaos_proxy import APPENDS_UNANSWERED, OPEN, WRITE, ChaosProxy, Conduct, chaos_proxy
from tests.postgres import Cluster, Standby
from tests.server.process import PLAIN
from tests.server.workers import Worker

# Where a worker dies: the number of the point, and the point.
CRASH_POINTS = (
    "1:before statement, claim runs",
    "1:after statement, claim runs",
    "1:before statement, lead",
    "1:after statement, lead",
    "5:before statement, append",
    "5:after statement, append",
    "3:before effect",
    "9:after effect",
    "1:before statement, release run",
    "1:after statement, release run",
)
# The same for a worker that finds an order for a run that rests: it claims the run, and appends what the order says.
ORDER_POINTS = (
    "1:before statement, claim run '",
    "1:after statement, claim run '",
    "1:before statement, append",
    "1:after statement, append",
)
ASKING = """\
replies:
  a: ["which?\\n[ASK]", {tool_calls: [{name: work, arguments: {}}]}, "on\\n[NEXT]"]
  b: ["fine\\n[END]"]
"""


def kill_at_every_point(trial: Trial, points: tuple[str, ...] = CRASH_POINTS) -> None:
    """One life after the other ends at a point; what it leaves, others take over."""
    for point in points:
        trial.start_runs(3)
        words = trial.run_until_death(point)
        assert point.partition(":")[2] in words, words
        trial.look()
    trial.start_worker()
    trial.wait_until_finished()


def kill_one_of_three(trial: Trial, runs: int = 40) -> None:
    """The one that drives all runs dies in the middle of a call of each. Measures how long its runs wait.

    A worker claims nothing beyond 80 % of its calls, and here no call ends before all were begun again: so each worker
    has room for all of them.
    """
    room = ("--runs-max", str(2 * runs), "--calls-max", str(2 * runs))
    victim = trial.start_worker(*room)
    trial.cluster.hold_calls()
    trial.start_runs(runs)
    trial.wait_until_held(runs)
    trial.start_workers(2, *room)
    trial.wait_for(trial.is_session_old, "the time after which a process may be found dead")
    owned = trial.owned_by(victim)
    trial.look()
    died_ms = now_ms()
    trial.kill(victim)
    trial.wait_for_takeover(owned, died_ms, victim)
    trial.cluster.release_calls()
    trial.wait_until_finished()


def kill_with_two_reapers(trial: Trial) -> None:
    victim = trial.start_worker()
    trial.start_runs(20)
    trial.wait_for_calls(10)
    trial.wait_until_held(10)
    trial.start_workers(2)
    trial.kill(victim)
    trial.look()
    trial.cluster.release_calls()
    trial.wait_until_finished()


def stop_for(trial: Trial, seconds: float, random: Random) -> None:
    """SIGSTOP at a random moment, for less than the lease, about as long, or longer."""
    victim = trial.start_worker()
    trial.start_runs(12)
    trial.wait_for_calls(random.randrange(1, 24))
    trial.wait_until_held(6)
    other = trial.start_worker()
    trial.cluster.release_calls()
    victim.process.send_signal(signal.SIGSTOP)
    trial.repeats_max += 1
    trial.look()
    time.sleep(seconds)
    victim.process.send_signal(signal.SIGCONT)
    trial.start_runs(2)
    trial.wait_until_finished()
    assert other.process.poll() is None, trial.log()


def stop_between_append_and_effect(trial: Trial) -> None:
    """It wakes when others have finished its runs: the effect that it was about to begin is not begun."""
    trial.start_runs(6)
    environment = {"INTERLOCK_CRASH_AT": "8:before effect", "INTERLOCK_CRASH_BY": "stop"}
    with trial.cluster._started("worker", "--script", "script.yaml", **environment) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WSTOPPED | os.WNOWAIT)
        trial.repeats_max += 1
        trial.look()
        trial.start_worker()
        trial.wait_until_finished()
        trial.look()
        zombie.send_signal(signal.SIGCONT)
        assert zombie.wait(60) == 3, trial.log()


def wake_zombie_and_kill_successor(trial: Trial) -> None:
    """A worker is stopped, another takes its runs; the first one wakes and the second one dies."""
    zombie = trial.start_worker()
    trial.start_runs(12)
    trial.wait_for_calls(4)
    trial.wait_until_held(10)
    zombie.process.send_signal(signal.SIGSTOP)
    trial.repeats_max += 1
    trial.look()
    successor = trial.start_worker()
    trial.wait_for(lambda: not trial.owned_by(zombie), "the claim of all runs")
    zombie.process.send_signal(signal.SIGCONT)
    trial.kill(successor)
    trial.look()
    trial.cluster.release_calls()
    assert zombie.process.wait(60) == 3, trial.log()
    trial.start_worker()
    trial.wait_until_finished()


# The server of the store


def end_server(trial: Trial, how: signal.Signals, away_s: float) -> None:
    """No call is made again: the workers lived."""
    trial.start_workers(2)
    trial.start_runs(20)
    trial.wait_for_calls(10)
    trial.wait_until_held(10)
    trial.look()
    trial.postgres.stop(how)
    trial.cluster.release_calls()
    time.sleep(away_s)
    trial.postgres.start()
    plan_and_finish(trial)


def end_server_of_leader(trial: Trial, how: signal.Signals, away_s: float) -> None:
    """The only worker leads, and leads again: a schedule that was due meanwhile fires, and so does a later one."""
    trial.wait_for_leader(trial.start_worker())
    trial.plan_run(away_s / 2)
    trial.postgres.stop(how)
    time.sleep(away_s)
    trial.postgres.start()
    trial.wait_for_planned(1)
    plan_and_finish(trial)


def plan_and_finish(trial: Trial) -> None:
    """After an outage a process leads, so schedules fire; and all runs end."""
    trial.plan_run(0.5)
    trial.wait_for_planned(1)
    trial.wait_until_finished()


def fail_over(trial: Trial, standby: Standby) -> None:
    """The primary is killed for good; its synchronous standby takes its place."""
    trial.start_workers(2)
    trial.start_runs(20)
    trial.wait_for_calls(10)
    trial.wait_until_held(10)
    trial.look()
    trial.postgres.stop(signal.SIGKILL)
    trial.cluster.release_calls()
    standby.promote()
    plan_and_finish(trial)


# The way to the server


def target_of(postgres: Cluster) -> str:
    return str(postgres.folder / ".s.PGSQL.5432")


def _worker_behind(trial: Trial, proxy: ChaosProxy) -> Worker:
    return trial.start_worker(INTERLOCK_STORE=proxy.url(trial.schema))


def cut_lanes(trial: Trial, lanes: tuple[str, ...], *, reset: bool, times: int = 5) -> None:
    """Connections that end and can be made again at once cost no call."""
    with chaos_proxy(target_of(trial.postgres)) as proxy:
        _worker_behind(trial, proxy)
        trial.start_runs(12)
        for number in range(times):
            trial.wait_for_calls(6 * (number + 1))
            trial.look()
            trial.wait_for(lambda: proxy.count(*lanes) > 0, "a connection to cut")
            proxy.cut(*lanes, reset=reset)
        trial.wait_until_finished()


def stall_lanes(trial: Trial, lanes: tuple[str, ...], conduct: Conduct, *, ends: bool) -> None:
    """A worker whose lanes stand still; with `ends` it loses its lease, and another process takes its runs."""
    with chaos_proxy(target_of(trial.postgres)) as proxy:
        victim = _worker_behind(trial, proxy)
        trial.start_runs(12)
        trial.wait_for_calls(4)
        trial.wait_until_held(6)
        if ends:
            trial.start_worker()
            trial.repeats_max += 1
        trial.look()
        proxy.behave(conduct, *lanes)
        if ends:
            trial.wait_for(lambda: not trial.owned_by(victim), "the claim of all runs")
            trial.cluster.release_calls()
            trial.wait_until_finished()
            proxy.behave(OPEN)
            assert victim.process.wait(60) == 3, trial.log()
            return
        trial.cluster.release_calls()
        time.sleep(1.0)
        proxy.behave(OPEN)
        trial.wait_until_finished()
        assert victim.process.poll() is None, trial.log()


def kill_with_unknown_commit(trial: Trial) -> None:
    """What a worker sent is stored, but it dies before it hears so."""
    with chaos_proxy(target_of(trial.postgres)) as proxy:
        victim = _worker_behind(trial, proxy)
        trial.start_runs(12)
        trial.wait_for_calls(6)
        trial.wait_until_held(6)
        proxy.behave(APPENDS_UNANSWERED, WRITE)
        trial.cluster.release_calls()
        trial.wait_for(lambda: proxy.stalled > 0, "an append whose answer is held back")
        trial.look()
        trial.kill(victim)
        trial.start_worker()
        trial.wait_until_finished()


def slow_way(trial: Trial, delay_s: float) -> None:
    """Each piece takes its time in either direction, and nothing else is wrong."""
    with chaos_proxy(target_of(trial.postgres)) as proxy:
        proxy.behave(Conduct(delay_s=delay_s))
        victim = _worker_behind(trial, proxy)
        trial.start_worker()
        trial.start_runs(8)
        trial.wait_until_finished()
        assert victim.process.poll() is None, trial.log()


# Clocks


def shift_clock(trial: Trial, seconds: int) -> None:
    """The wall clock of one worker is set an hour off while it works; times in journals stay those of the server."""
    shift = trial.cluster.folder / "shift"
    trial.start_worker(CLOCK_SHIFT_FILE=str(shift))
    trial.start_runs(10)
    trial.wait_for_calls(8)
    trial.look()
    began = trial.query("select (extract(epoch from clock_timestamp()) * 1000)::bigint")[0][0]
    _write_whole(shift, str(seconds))
    trial.start_runs(10)
    trial.wait_until_finished()
    latest, earliest, now = trial.query(
        "select max(updated_at), min(created_at), (extract(epoch from clock_timestamp()) * 1000)::bigint from runs"
    )[0]
    assert began - 60_000 < earliest and latest <= now + 1_000, (began, earliest, latest, now)


def _write_whole(file: Path, text: str) -> None:
    beside = file.with_suffix(".new")
    beside.write_text(text, "utf-8")
    beside.rename(file)


# Orders


def start_asking(trial: Trial, runs: int) -> dict[str, str]:
    """Runs that rest at a question; returns their tokens. One call of the tool follows the answer."""
    trial.cluster.folder.joinpath("script.yaml").write_text(ASKING, "utf-8")
    trial.calls_per_run = 1
    asker = trial.start_worker()
    made = trial.start_runs(runs)
    paused = "select count(*) from runs where status = 'paused'"
    trial.wait_for(lambda: trial.query(paused)[0][0] == runs, "the questions")
    assert asker.stopped() == 0, trial.log()
    return {run: trial.client.get(f"/v1/runs/{run}").json()["token"] for run in made}


def answer(address: str, run: str, token: str) -> int:
    with httpx2.Client(base_url=address, **PLAIN) as client:
        return int(client.post(f"/v1/runs/{run}/resume", json={"token": token, "input": "this"}).status_code)


def kill_with_orders(trial: Trial) -> None:
    """A worker that carries out an answer dies at each point; the server has accepted it, so it is carried out."""
    tokens = start_asking(trial, len(ORDER_POINTS))
    with ThreadPoolExecutor(len(ORDER_POINTS)) as pool:
        codes = []
        for point, (run, token) in zip(ORDER_POINTS, tokens.items(), strict=True):
            codes.append(pool.submit(answer, trial.server.address, run, token))
            trial.wait_for(partial(_has_order, trial, run), "the order")
            words = trial.run_until_death(point)
            assert point.partition(":")[2] in words, words
            trial.look()
        trial.start_worker()
        trial.wait_for(lambda: _open_runs(trial) == 0, "the end of all runs")
        found = Counter(code.result() for code in codes)
    assert set(found) <= {200, 202}, found


def _has_order(trial: Trial, run: str) -> bool:
    return trial.query("select 1 from orders where run = %s", run) != []


def _open_runs(trial: Trial) -> int:
    return int(trial.query("select count(*) from runs where status in ('running', 'paused')")[0][0])


def answer_often(trial: Trial, answers: int = 1_000, servers: int = 2) -> Counter[int]:
    """The same answer comes many times, by several servers at once: it has one effect. Returns the codes."""
    ((run, token),) = start_asking(trial, 1).items()
    trial.start_workers(2)
    others = [trial._ends.enter_context(trial.cluster.serving()) for _ in range(servers - 1)]
    addresses = [trial.server.address, *(each.address for each in others)]
    with ThreadPoolExecutor(16) as pool:
        codes = Counter(pool.map(lambda number: answer(addresses[number % servers], run, token), range(answers)))
    trial.wait_until_finished()
    return codes
