"""What bench/scale.py measures with: a PostgreSQL server on a real disk, SQLite folders, and processes that drive runs.

Rule 1: every case has a store of its own, which is new.
Rule 2: CPU is that of all processes that worked, the server's included.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.scale_worker import WorkerOutcome, WorkerTask, write_crew
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.migrate import migrate
from tests.postgres import Cluster

# Kept on a disk, by the rules of Unix; /tmp may be kept in memory, where a sync costs nothing.
DISK = Path("/var/tmp")
TICKS = os.sysconf("SC_CLK_TCK")


class Rate(NamedTuple):
    """Steps per second, and microseconds of CPU per step: of the workers, and of the server."""

    steps: float
    cpu_us: float
    server_us: float

    @property
    def all_us(self) -> float:
        return self.cpu_us + self.server_us


class WorkerFailed(Exception):
    """A worker ended with an error, such as a lease that was lost because the machine was too busy."""


class Bed:
    """A server, and a folder for what is not on it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.cluster = Cluster(where=DISK, autovacuum="on", shared_buffers="128MB", **settings)
        self._names, self.failures = count(), list[str]()
        write_crew(folder)

    def new_schema(self) -> str:
        schema = f"bench_{next(self._names)}"
        migrate(PostgresAddress(self.cluster.url(schema)))
        return schema

    def new_postgres(self) -> str:
        return self.cluster.url(self.new_schema())

    def new_sqlite(self) -> str:
        return f"sqlite:{self.folder / str(next(self._names))}"

    def task(self, store: str, **more: object) -> WorkerTask:
        return msgspec.convert({"store": store, "folder": str(self.folder), **more}, WorkerTask)

    @contextmanager
    def worker(self, task: WorkerTask) -> Iterator[subprocess.Popen[str]]:
        """A process that has opened its store and waits for a line."""
        command = [sys.executable, "-m", "bench.scale_worker", msgspec.json.encode(task).decode()]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None, "it is piped"
                assert process.stdout.readline() == "ready\n", "the process could not open the store"
                yield process
            finally:
                process.kill()

    def rate_of(self, store: str, *, workers: int, runs: int, steps: int, **more: object) -> Rate:
        """Drives so many runs, shared evenly by so many processes."""
        share = runs // workers
        with ExitStack() as stack:
            task = self.task(store, runs=share, steps=steps, **more)
            processes = [stack.enter_context(self.worker(task)) for _ in range(workers)]
            before = self.server_cpu_s()
            for process in processes:
                assert process.stdin is not None, "it is piped"
                process.stdin.write("go\n")
                process.stdin.flush()
            said = [each.communicate()[0] for each in processes]
            if any(each.returncode for each in processes):
                raise WorkerFailed
            outcomes = [msgspec.json.decode(each, type=WorkerOutcome) for each in said]
            server = self.server_cpu_s() - before
        done = share * workers * (steps + 1)
        wall = max(each.ended for each in outcomes) - min(each.began for each in outcomes)
        return Rate(done / wall, sum(each.cpu for each in outcomes) / done * 1e6, server / done * 1e6)

    def server_cpu_s(self) -> float:
        """The CPU of the server and its processes, those that have ended included."""
        parent = self.cluster.process.pid
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(stat.parent.name) == parent:
                ticks += sum(map(int, fields[11:15]))
            elif int(fields[1]) == parent:
                ticks += sum(map(int, fields[11:13]))
        return ticks / TICKS
