"""The cases of bench/scale.py that are no rates: idle workers, round trips, disk, notifications, claims, take-over."""

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

from bench.postgres_proxy import DelayProxy
from bench.scale_cluster import Bed
from interlock import Interlock, load_crew
from interlock.adapters.clock import SystemClock
from interlock.adapters.postgres.store import PostgresStore
from interlock.engine.run import RULES
from interlock.ports import RECORD_FORMAT, ClaimRequest
from interlock.runtime.claiming.work import WorkSettings

ROUND_TRIP_S = 0.001
IDLE_S = 10
# Signs of life, sweeps and deadlines.
IDLE_PER_S = 4.5
STEPS = 200
# A process may find others dead only after it has been connected for 2 s.
CONNECTED_S = 2.5
PATIENCE_S = 60

_SIZE = """
select coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint
from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where nspname = %s and relkind in ('r', 'p')
"""
_SILENT = "create or replace function {}.notify_others(p_owner bigint, p_what text default '') returns void"


class Trips(NamedTuple):
    """Round trips per step, and the added wall time per step in round trips."""

    counted: float
    waited: float


def round_trips(bed: Bed) -> Trips:
    """One run through a proxy, with and without a delay of a millisecond."""
    with DelayProxy(bed.cluster.folder / ".s.PGSQL.5432") as proxy:

        def rate(round_trip_s: float) -> float:
            proxy.round_trip_s = round_trip_s
            return bed.rate_of(proxy.url(bed.new_schema()), workers=1, runs=1, steps=STEPS).steps

        near_s, far_s = _round_trip_s(proxy, 0), _round_trip_s(proxy, ROUND_TRIP_S)
        near, far = zip(*((rate(0), rate(ROUND_TRIP_S)) for _ in range(3)), strict=True)
        # By the slope: a run begins and ends with some of its own, and a worker gives signs of life.
        short, long = _trips_of(bed, proxy, STEPS), _trips_of(bed, proxy, 3 * STEPS)
    return Trips((long - short) / (2 * STEPS), (1 / max(far) - 1 / max(near)) / (far_s - near_s))


def _round_trip_s(proxy: DelayProxy, round_trip_s: float) -> float:
    """What a round trip really takes: timers are late, the more so on a busy machine."""
    proxy.round_trip_s = round_trip_s
    waits = []
    with psycopg.connect(proxy.url("public").partition("?")[0], sslmode="disable", autocommit=True) as connection:
        for _ in range(100):
            began = time.perf_counter()
            connection.execute("select 1")
            waits.append(time.perf_counter() - began)
    return statistics.median(waits)


def _trips_of(bed: Bed, proxy: DelayProxy, steps: int) -> float:
    """The round trips of a run, without those of a worker that does nothing."""
    with bed.worker(bed.task(proxy.url(bed.new_schema()), runs=1, steps=steps)) as process:
        before, began = proxy.round_trips, time.monotonic()
        process.communicate("go\n")
        return proxy.round_trips - before - IDLE_PER_S * (time.monotonic() - began)


def idle_rate(bed: Bed, seconds: float = IDLE_S) -> float:
    """Round trips per second of a worker without work."""
    with DelayProxy(bed.cluster.folder / ".s.PGSQL.5432") as proxy, bed.worker(bed.task(proxy.url(bed.new_schema()))):
        time.sleep(CONNECTED_S)
        before = proxy.round_trips
        time.sleep(seconds)
        return (proxy.round_trips - before) / seconds


def disk_per_step(bed: Bed, size: int, *, is_noise: bool = False) -> float:
    """Bytes per step of the given reply, by the slope between a short and a long run: an empty store has bytes too."""

    def after(steps: int) -> int:
        schema = bed.new_schema()
        bed.rate_of(bed.cluster.url(schema), workers=1, runs=10, steps=steps, size=size, is_noise=is_noise)
        with psycopg.connect(bed.cluster.conninfo("postgres"), autocommit=True) as connection:
            found = connection.execute(_SIZE, (schema,)).fetchone()
            assert found is not None, "a sum is one row"
            return int(found[0])

    return (after(220) - after(20)) / 2_000


def silence(bed: Bed, schema: str) -> None:
    """Takes notifications out of a store, to see what they cost."""
    with psycopg.connect(bed.cluster.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL(_SILENT + " language sql as ''").format(sql.Identifier(schema)))


def create_waiting(bed: Bed, store: str, runs: int) -> None:
    """Creates runs that wait for a worker."""

    async def create() -> None:
        crew = load_crew(bed.folder / "crew.yaml")
        async with Interlock(store, work=WorkSettings(drives=False)) as box:
            await asyncio.gather(*(box.start(crew, "go") for _ in range(runs)))

    asyncio.run(create())


def claim_seconds(bed: Bed, runs: int) -> float:
    """How long one statement takes that claims so many runs."""
    store = bed.new_postgres()
    create_waiting(bed, store, runs)

    async def claim() -> float:
        opened = PostgresStore(store)
        try:
            at = SystemClock().now_ms()
            request = ClaimRequest(limit=runs, rules=RULES, format=RECORD_FORMAT, at=at)
            began = time.perf_counter()
            claimed = await opened.claim_some(request)
            took = time.perf_counter() - began
            assert len(claimed) == runs, len(claimed)
            return took
        finally:
            await opened.close()

    return asyncio.run(claim())


class TakeOver(NamedTuple):
    """Seconds from the kill of a worker to the first call elsewhere, over its runs."""

    half: float
    p99: float


_numbers = count()


def take_over(bed: Bed, runs: int) -> TakeOver:
    """Kills a worker that has a call in progress for each of its runs, while another one has room."""
    store, calls = bed.new_postgres(), bed.folder / f"calls-{next(_numbers)}"
    create_waiting(bed, store, runs)
    task = bed.task(store, steps=2, think_s=PATIENCE_S, calls=str(calls), calls_max=2 * runs)
    with ExitStack() as stack:
        first = stack.enter_context(bed.worker(task))
        _wait_until(lambda: len(_calls_of(calls, first.pid)) == runs)
        second = stack.enter_context(bed.worker(task))
        time.sleep(CONNECTED_S)
        held = len(_calls_of(calls, first.pid)) - len(_calls_of(calls, second.pid))
        assert held == runs, "the second worker has no room to take over what it drives already"
        killed = time.time()
        os.kill(first.pid, signal.SIGKILL)
        _wait_until(lambda: len(_calls_of(calls, second.pid)) == runs)
    waits = sorted(at - killed for at in _calls_of(calls, second.pid).values())
    return TakeOver(statistics.median(waits), waits[len(waits) * 99 // 100])


def _calls_of(file: Path, pid: int) -> dict[str, float]:
    """The runs that a process has called a model for, and when first."""
    if not file.exists():
        return {}
    found: dict[str, float] = {}
    for who, at, run in (line.split() for line in file.read_text().splitlines()):
        if who == str(pid):
            found.setdefault(run, float(at))
    return found


def _wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < until, "nothing came within a minute"
        time.sleep(0.05)
