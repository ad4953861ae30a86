"""A store on PostgreSQL with a server and workers, each a real process, and the judge of what they did.

Rule 1: the judge trusts two things only: the ledger, which the tool writes and syncs, and what was stored when it was
looked at, before a fault. Neither is compared with itself.
Rule 2: what was stored once stays as it was: the same records with the same links, whatever fails afterwards.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx2
import psycopg

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.migrate import migrate
from tests.postgres import Cluster as Postgres
from tests.server.process import PLAIN
from tests.server.workers import CALLS_PER_RUN, Cluster, Worker, start

# The longest that a trial waits for anything; more is a fault.
PATIENCE_S = 120.0

_RECORDS = (
    "select runs.run, records.seq, records.link, records.body from records join runs on runs.number = records.run"
)


class Snapshot(NamedTuple):
    """What was stored at a moment: the link of each record, the calls with an outcome; and the length of the ledger."""

    links: dict[tuple[str, int], bytes]
    calls: Counter[str]
    ledger_lines: int


class Fault(NamedTuple):
    """What a trial found."""

    trial: str
    text: str


class Trial:
    """One store with its processes. `repeats_max` is how many calls of a run may be made again: one per fault that
    ends or suspends its worker."""

    def __init__(self, name: str, folder: Path, postgres: Postgres, work_s: float, store: str = "") -> None:
        self.name, self.postgres, self.repeats_max = name, postgres, 0
        self.calls_per_run = CALLS_PER_RUN
        self.schema = folder.name.replace("-", "_").lower()
        url = store or postgres.url(self.schema)
        migrate(PostgresAddress(url))
        self._reading = PostgresAddress(url)
        self.cluster = Cluster(folder, url, work_s)
        self.runs: list[str] = []
        self.snapshots: list[Snapshot] = []
        self.takeovers_ms: list[int] = []
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._ends.__enter__()
        try:
            self.server = self._ends.enter_context(self.cluster.serving())
            self.client = self._ends.enter_context(httpx2.Client(base_url=self.server.address, **PLAIN))
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    # Processes

    def start_runs(self, count: int) -> list[str]:
        made = start(self.client, count)
        self.runs += made
        return made

    def wait_for_leader(self, worker: Worker) -> None:
        """Waits until this worker does what one process does for all."""
        query = "select 1 from leaders join owners on owners.id = owner where name = 'upkeep' and pid = %s"
        self.wait_for(lambda: bool(self.query(query, worker.pid)), "the leadership of the worker")

    def plan_run(self, in_s: float) -> None:
        """A run that the leader of upkeep starts, in so many seconds."""
        due = {"crew": "one", "input": "planned", "at": int((time.time() + in_s) * 1000)}
        self.wait_for(lambda: self.client.post("/v1/schedules", json=due).status_code == 201, "a schedule")

    def wait_for_planned(self, count: int) -> None:
        """Waits until so many planned runs have begun; the judge asks for them as for all others."""
        query = "select run from runs where run <> all (%s)"
        self.wait_for(
            lambda: len(self.query(query, self.runs)) >= count, f"{count} runs of schedules, begun by a leader"
        )
        self.runs += [run for (run,) in self.query(query, self.runs)]

    def start_worker(self, *options: str, **environment: str) -> Worker:
        return self._ends.enter_context(self.cluster.working(*options, **environment))

    def start_workers(self, count: int, *options: str) -> list[Worker]:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda _: self.start_worker(*options), range(count)))

    def run_until_death(self, crash_at: str, *options: str) -> str:
        """Lives the life of a worker that dies at a crash point; returns the last words of all workers."""
        with self.cluster._started("worker", "--script", "script.yaml", *options, INTERLOCK_CRASH_AT=crash_at) as one:
            code = one.wait(PATIENCE_S)
        assert code == 137, f"{self.name}: the worker did not reach {crash_at} and ended with {code}: {self.log()}"
        self.repeats_max += 1
        return self.log()

    def kill(self, worker: Worker) -> None:
        worker.process.kill()
        worker.process.wait()
        self.repeats_max += 1

    def log(self) -> str:
        return (self.cluster.folder / "log").read_text("utf-8")[-3000:]

    # What is stored, and what was done

    def query(self, text: str, *values: object) -> list[Any]:
        given = f"{self._reading.conninfo(target_session_attrs='read-write', connect_timeout=5)}"
        with psycopg.connect(given, autocommit=True, options=f"-csearch_path={self.schema}") as connection:
            return connection.execute(text.encode(), values).fetchall()

    def look(self) -> Snapshot:
        """Remembers what is stored now; the judge compares it with what is stored in the end."""
        links, calls = {}, Counter[str]()
        for run, seq, link, body in self.query(_RECORDS):
            links[run, seq] = bytes(link)
            events = json.loads(bytes(body))[2]
            calls.update(f"{run}:{event['call']}" for event in events if event["type"] == "tool.returned")
        # The ledger last: a call with an outcome stands in it, and each line that follows is another try.
        self.snapshots.append(Snapshot(links, calls, len(self.cluster.ledger.entries())))
        return self.snapshots[-1]

    def owned_by(self, worker: Worker) -> set[str]:
        query = "select run from runs join owners on owners.id = runs.owner where pid = %s and status = 'running'"
        return {run for (run,) in self.query(query, worker.pid)}

    def is_session_old(self) -> bool:
        """Whether the youngest process has been connected for long enough to find another one dead."""
        query = "select max(connected) < clock_timestamp() - interval '2.1 s' from owners where not gone"
        return bool(self.query(query)[0][0])

    def wait_for(self, is_so: Callable[[], bool], what: str, look_s: float = 0.02) -> None:
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < until, f"{self.name}: {what} did not happen in {PATIENCE_S:.0f} s: {self.log()}"
            time.sleep(look_s)

    def wait_for_calls(self, count: int) -> None:
        """Waits until so many calls were done."""
        self.wait_for(lambda: len(self.cluster.ledger.lines("done")) >= count, f"{count} calls")

    def wait_until_held(self, runs: int) -> None:
        """Holds all calls, and waits until so many runs are in the middle of one."""
        self.cluster.hold_calls()

        def under_way() -> int:
            lines = self.cluster.ledger.entries()
            begun = Counter(line.key for line in lines if line.kind == "begun")
            return len(begun - Counter(line.key for line in lines if line.kind == "done"))

        self.wait_for(lambda: under_way() >= runs, f"{runs} calls in progress")

    def wait_until_finished(self) -> None:
        def open_runs() -> int:
            return int(self.query("select count(*) from runs where status = 'running'")[0][0])

        self.wait_for(lambda: open_runs() == 0, "the end of all runs")

    def wait_for_takeover(self, runs: set[str], died_ms: int, dead: Worker) -> None:
        """Waits until each run of a dead worker has begun a call elsewhere, and notes how long after its death."""
        first: dict[str, int] = {}

        def all_begun() -> bool:
            for line in self.cluster.ledger.entries():
                run = line.key.partition(":")[0]
                if line.kind == "begun" and line.pid != dead.pid and line.at_ms >= died_ms and run in runs:
                    first.setdefault(run, line.at_ms - died_ms)
            return len(first) == len(runs)

        self.wait_for(all_begun, f"a call of each of {len(runs)} runs elsewhere", look_s=0.25)
        self.takeovers_ms += first.values()


def now_ms() -> int:
    """The clock of the ledger."""
    return time.monotonic_ns() // 1_000_000


# The judge: each function yields what is wrong


def faults_of(trial: Trial) -> list[Fault]:
    """All that is wrong after the last run has ended."""
    last = trial.look()
    found = [*_lost(trial, last), *_repeated(trial), *_unfinished(trial, last), *_unsound(trial)]
    return [Fault(trial.name, text) for text in found]


def _lost(trial: Trial, last: Snapshot) -> Iterator[str]:
    rows = {run for (run,) in trial.query("select run from runs")}
    for run in trial.runs:
        if run not in rows:
            yield f"run {run} was acknowledged, and is gone"
    for number, snapshot in enumerate(trial.snapshots):
        for place, link in snapshot.links.items():
            if last.links.get(place) != link:
                now = "another" if place in last.links else "gone"
                yield f"record {place} was stored at look {number}, and is {now}"


def _repeated(trial: Trial) -> Iterator[str]:
    """Whether a call with a stored outcome was made again, and how many of a run were."""
    lines = trial.cluster.ledger.entries()
    for number, snapshot in enumerate(trial.snapshots):
        for line in lines[snapshot.ledger_lines :]:
            if line.kind == "begun" and line.key in snapshot.calls:
                yield f"call {line.key} had its outcome at look {number}, and was made again by {line.pid}"
    more = Counter[str]()
    for key, times in Counter(line.key for line in lines if line.kind == "begun").items():
        more[key.partition(":")[0]] += times - 1
    for run, times in more.items():
        if times > trial.repeats_max:
            yield f"{times} calls of run {run} were made again; {trial.repeats_max} may be"


def _unfinished(trial: Trial, last: Snapshot) -> Iterator[str]:
    for run, status, reason in trial.query("select run, status, reason from runs where status <> 'completed'"):
        yield f"run {run} is {status} ({reason})"
    done = trial.cluster.ledger.done()
    for key, times in last.calls.items():
        if times != 1 or key not in done:
            yield f"call {key} has {times} outcomes, and was done {done[key]} times"
    if len(last.calls) != trial.calls_per_run * len(trial.runs):
        yield f"{len(trial.runs)} runs have {len(last.calls)} calls with an outcome"


def _unsound(trial: Trial) -> Iterator[str]:
    """The doctor replays every journal and checks its chain."""
    doctor = trial.cluster.command("doctor")
    if doctor.returncode != 0:
        yield f"the doctor says {doctor.returncode}: {doctor.stdout[-500:]} {doctor.stderr[-1500:]}"


def repeated_calls(trial: Trial) -> int:
    return sum(times - 1 for times in trial.cluster.ledger.begun().values())


@contextmanager
def trial_on(postgres: Postgres, folder: Path, name: str, *, work_s: float = 0.05, store: str = "") -> Iterator[Trial]:
    """A trial in a folder of its own, whose name is that of its schema."""
    folder.mkdir(parents=True)
    with Trial(name, folder, postgres, work_s, store) as trial:
        yield trial
