"""Shows a store on PostgreSQL with three workers, one of which is killed: every run finishes on the others.

Rule 1: nothing is staged. The server and the workers are real processes, the kill is `kill -9`, and calls are counted
in a ledger that the tool itself writes, outside of the store.
Rule 2: whatever ends it, Ctrl-C included, it ends what it started and leaves nothing behind.

Usage: python -m deploy.demo_cluster [RUNS] [SECONDS PER CALL]
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from interlock import Interlock, load_crew
from interlock.engine.events import ToolReturned
from interlock.ports import RunRow
from interlock.runtime.claiming.work import WorkSettings
from tests.postgres import Cluster

RUNS, CALL_S, WORKERS = 50, 0.5, 3
LOOK_S = 0.25
PATIENCE_S = 120

CREW = """\
version: "2.0"
name: parcels
entry_point: clerk
agents: [{id: clerk, tools: [book]}, {id: driver, tools: [book]}]
routing:
  signals:
    clerk: [{signal: "[READY]", type: route, target: driver}]
    driver: [{signal: "[DELIVERED]", type: terminate}]
"""
BOOK = "{tool_calls: [{name: book, arguments: {}}]}"
SCRIPT = f"""\
replies:
  clerk: [{BOOK}, {BOOK}, "Packed and labelled. [READY]"]
  driver: [{BOOK}, {BOOK}, "At the door. [DELIVERED]"]
"""
CALLS_PER_RUN = 4
TOOLS = '''\
import asyncio
import os

from interlock import ToolContext, tool


@tool(idempotent=True)
async def book(context: ToolContext) -> str:
    """Books a parcel."""
    ledger = os.open(os.environ["DEMO_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, f"{context.key} {os.getpid()}\\n".encode())
    os.close(ledger)
    await asyncio.sleep(float(os.environ["DEMO_CALL_S"]))
    return "booked"
'''
HOST = '[tools]\nmodules = ["parcel_tools"]\n'


class Worker(NamedTuple):
    name: str
    process: "subprocess.Popen[str]"


class Outcome(NamedTuple):
    """What the ledger and the store say at the end."""

    completed: int
    calls: int
    repeated_finished: list[str]
    repeated_in_progress: int


class Demo:
    """A folder with a crew, its tool and its ledger, and the address of a store."""

    def __init__(self, folder: Path, store: str, runs: int, call_s: float) -> None:
        self.folder, self.store, self.runs = folder, store, runs
        for name, text in (("crew.yaml", CREW), ("script.yaml", SCRIPT), ("parcel_tools.py", TOOLS)):
            (folder / name).write_text(text, "utf-8")
        (folder / "interlock.toml").write_text(HOST, "utf-8")
        self._ledger = folder / "ledger"
        self._environment = {**os.environ, "INTERLOCK_STORE": store, "PYTHONUNBUFFERED": "1"}
        self._environment.update(DEMO_LEDGER=str(self._ledger), DEMO_CALL_S=str(call_s))
        self._began = time.monotonic()
        self._names: dict[str, str] = {}  # of workers, by the id of the process in the store

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def command(self, *words: str) -> None:
        self.say(f"$ interlock {' '.join(words)}")
        subprocess.run([_program(), *words], cwd=self.folder, env=self._environment, check=True)

    @contextmanager
    def worker(self, number: int) -> Iterator[Worker]:
        """A worker that has opened the store; it is ended by its process id."""
        # Room for two fifths of the runs: so each has some, and the others have room for those of the killed one.
        words = ("worker", "--script", "script.yaml", "--runs-max", str(max(2, self.runs * 2 // 5)))
        with (
            (self.folder / f"worker-{number}.log").open("w", encoding="utf-8") as log,
            subprocess.Popen(
                [_program(), *words],
                cwd=self.folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demonstration, which then stops its workers
            ) as process,
        ):
            try:
                assert process.stdout is not None, "it is piped"
                if not process.stdout.readline():
                    raise SystemExit(Path(log.name).read_text("utf-8"))
                self.say(f"$ interlock {' '.join(words)} &   # worker {number}, process {process.pid}")
                yield Worker(f"worker {number}", process)
            finally:
                _end(process)

    def calls(self) -> list[tuple[str, int]]:
        """Key and process of every call of the tool."""
        text = self._ledger.read_text("utf-8") if self._ledger.exists() else ""
        return [(key, int(pid)) for key, pid in (line.split() for line in text.splitlines())]

    async def play(self, workers: Sequence[Worker]) -> Outcome:
        crew = load_crew(self.folder / "crew.yaml")
        async with Interlock(store=self.store, work=WorkSettings(drives=False)) as box:
            present = [each.owner for each in (await box.store.overview()).processes if each.is_worker]
            # They were started one after the other, so their ids are in the same order.
            self._names = dict(zip(sorted(present, key=int), (each.name for each in workers), strict=True))
            await asyncio.gather(*(box.start(crew, f"parcel {n + 1}") for n in range(self.runs)))
            self.say(f"{self.runs} runs are stored; each makes {CALLS_PER_RUN} calls of a tool")
            await self._wait(box, lambda _: len(self.calls()) >= self.runs * CALLS_PER_RUN // 3)
            finished = await self._kill_busiest(box, workers)
            rows = await self._wait(box, lambda rows: all(row.status != "running" for row in rows))
            return self._outcome(rows, finished)

    async def _kill_busiest(self, box: Interlock, workers: Sequence[Worker]) -> set[str]:
        """Kills a worker; returns the calls whose outcome was stored by then."""
        shares = await self._shares(box)
        victim = max(workers, key=lambda each: shares.get(each.name, 0))
        victim.process.kill()
        victim.process.wait()
        self.say(f"kill -9: {victim.name}, which drove {shares.get(victim.name, 0)} runs")
        finished = await _finished_calls(box)
        self.say(f"{len(finished)} calls are finished and stored at this moment")
        return finished

    async def _wait(self, box: Interlock, is_done: Callable[[Sequence[RunRow]], bool]) -> Sequence[RunRow]:
        """Shows how far the runs are until something is so."""
        until, shown = time.monotonic() + PATIENCE_S, ""
        while True:
            rows = await box.journal.rows(limit=self.runs)
            over = sum(row.status != "running" for row in rows)
            shares = await self._shares(box)
            line = f"{over:3} of {self.runs} finished; driven now: {_shares_shown(shares)}"
            if line != shown:
                self.say(line)
            shown = line
            if is_done(rows):
                return rows
            if time.monotonic() > until:
                raise SystemExit("the runs did not finish in time; see 'interlock store status'")
            await asyncio.sleep(LOOK_S)

    async def _shares(self, box: Interlock) -> dict[str, int]:
        """How many runs each living worker drives."""
        overview = await box.store.overview()
        return {self._names[each.owner]: each.runs for each in overview.processes if each.is_worker}

    def _outcome(self, rows: Sequence[RunRow], finished: set[str]) -> Outcome:
        made = Counter(key for key, _ in self.calls())
        again = [key for key, times in made.items() if times > 1]
        return Outcome(
            completed=sum(row.status == "completed" for row in rows),
            calls=len(made),
            repeated_finished=[key for key in again if key in finished],
            repeated_in_progress=sum(key not in finished for key in again),
        )


async def _finished_calls(box: Interlock) -> set[str]:
    """The keys of the calls whose outcome is stored."""
    found = set()
    for row in await box.journal.rows(limit=10_000):
        for record in await box.journal.records(row.run):
            found |= {f"{row.run}:{event.call}" for event in record.events if isinstance(event, ToolReturned)}
    return found


def _shares_shown(shares: dict[str, int]) -> str:
    return ", ".join(f"{name}: {runs}" for name, runs in sorted(shares.items()))


def _end(process: "subprocess.Popen[str]") -> None:
    """Asks a worker to stop, and kills it if it does not."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


def _program() -> str:
    return str(Path(sys.executable).parent / "interlock")


def run(runs: int = RUNS, call_s: float = CALL_S) -> bool:
    """Runs the demonstration; whether all went as it must."""
    with tempfile.TemporaryDirectory(prefix="interlock-demo-") as name, ExitStack() as stack:
        print("starting PostgreSQL in a folder of its own; nothing is installed, and no root is needed", flush=True)
        cluster = Cluster(where=Path(tempfile.gettempdir()), autovacuum="on")
        stack.callback(cluster.end)
        demo = Demo(Path(name), cluster.url("interlock"), runs, call_s)
        demo.command("store", "init")
        workers = [stack.enter_context(demo.worker(number + 1)) for number in range(WORKERS)]
        outcome = asyncio.run(demo.play(workers))
        demo.command("store", "status")
        print(
            f"\n{outcome.completed} of {runs} runs completed.\n"
            f"{outcome.calls} calls were made, {runs * CALLS_PER_RUN} are needed.\n"
            f"Calls that were finished and made again: {len(outcome.repeated_finished)}.\n"
            f"Calls that were in progress in the killed worker and made again: {outcome.repeated_in_progress}."
        )
    return outcome.completed == runs and not outcome.repeated_finished and outcome.calls == runs * CALLS_PER_RUN


def main(words: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what it started, as Ctrl-C does
    try:
        return 0 if run(*(kind(word) for kind, word in zip((int, float), words, strict=False))) else 1
    except KeyboardInterrupt:
        print("\nstopped: the workers and the server have ended", flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
