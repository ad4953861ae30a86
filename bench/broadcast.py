"""Measures the bus: matching beside paho's MQTTMatcher, emitting to disk beside pyee and blinker in memory, delayed
signals, and the newest of very many."""

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.broadcast_cases import SUBSCRIPTIONS, kinds, patterns
from bench.harness import machine, measure, measure_async, table, verdict
from bench.peers import PeerUnavailable, install, measured
from interlock.adapters.clock import SystemClock
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.adapters.store_rules.broadcast_rows import crc_as_int32
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.naming import stable_id
from interlock.broadcast.record import PROCESS, Broadcast, Emission, encode_broadcast
from interlock.broadcast.trie import PatternTrie
from interlock.runtime.broadcasts import BroadcastHub
from interlock.runtime.scheduler import BroadcastScheduler

PINNED_BUSES = ("paho-mqtt==2.1.0", "pyee==13.0.0", "blinker==1.9.0")
EMISSIONS = 2_000
DELAYED = 100_000
# Ten million rows take minutes to write; the cost of asking is that of an index, whatever the size.
MANY = int(os.environ.get("BENCH_BROADCASTS", "10000000"))


def matching() -> tuple[float, float, int]:
    trie: PatternTrie[int] = PatternTrie()
    for n, pattern in enumerate(patterns(SUBSCRIPTIONS)):
        trie.add(pattern, n)
    types = kinds()

    def cold() -> None:
        trie._answers.clear()
        for kind in types:
            trie.match(kind)

    def hot() -> None:
        for kind in types:
            trie.match(kind)

    found = sum(len(trie.match(kind)) for kind in types)
    return measure(cold, len(types)).cpu_us, measure(hot, len(types)).cpu_us, found


def emission(n: int) -> Emission:
    broadcast = Broadcast(id=stable_id(f"bench:{n}"), type=f"t:{n % 100}", source=PROCESS, data=n, created_at=n)
    return Emission(broadcast=broadcast)


async def announcing(folder: Path) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for durability in ("full", "normal"):
        store = SqliteStore(folder / durability, durability=durability)
        bus, count = SqliteBus(store), [0]

        async def alone(bus: SqliteBus = bus, count: list[int] = count) -> None:
            for _ in range(EMISSIONS):
                count[0] += 1
                await bus.emit(emission(count[0]))

        async def together(bus: SqliteBus = bus, count: list[int] = count) -> None:
            start = count[0]
            count[0] += EMISSIONS
            await asyncio.gather(*(bus.emit(emission(start + n + 1)) for n in range(EMISSIONS)))

        for name, work in (("one at a time", alone), (f"{EMISSIONS} at once, group commit", together)):
            got = await measure_async(work, EMISSIONS, repeats=3)
            rows.append([f"emit to disk, {durability}, {name}", got.cpu_us, got.wall_us])
        await store.close()
    return rows


async def scheduling(folder: Path) -> tuple[list[list[Any]], list[float], list[float]]:
    """The cost of scheduling as the queue grows, and the delay of due signals."""
    store = SqliteStore(folder / "delayed", durability="normal")
    bus, clock = SqliteBus(store), SystemClock()
    costs, step = [], DELAYED // 10
    due = clock.now_ms() + 3_600_000
    for part in range(10):
        entries = [_entry(part * step + n, due) for n in range(step)]
        before = time.process_time()
        for start in range(0, step, 1_000):
            await asyncio.gather(*(bus.schedule(entry) for entry in entries[start : start + 1_000]))
        costs.append((time.process_time() - before) / step * 1e6)
    late = await _lateness(bus, clock)
    await store.close()
    rows = [[f"schedule, {step * (n + 1):,} queued", cost] for n, cost in enumerate(costs) if n in (0, 4, 9)]
    return rows, costs, late


def _entry(n: int, at: int) -> DelayedBroadcast:
    return DelayedBroadcast(
        id=stable_id(f"delayed:{n}"), type=f"t:{n % 100}", source=PROCESS, deliver_at=at, created_at=1, updated_at=1
    )


async def _lateness(bus: SqliteBus, clock: SystemClock) -> list[float]:
    """Queues 100,000 for much later; 5,000 are due within ten seconds, and the real loop dispatches them."""
    hub = BroadcastHub(bus, clock)

    async def deliver_nothing(_: Any) -> bool:
        return False

    start = clock.now_ms() + 2_000
    wanted = {}
    for n in range(5_000):
        entry = _entry(DELAYED + n, start + n * 2)
        wanted[entry.id] = entry.deliver_at
        await bus.schedule(entry)
    head = await bus.head()
    task = asyncio.create_task(BroadcastScheduler(hub, clock, deliver_nothing, lambda: True).run())
    late: list[float] = []
    position = head
    while len(late) < len(wanted):
        page = await bus.since(position, 1_000)
        late += [broadcast.created_at - wanted[broadcast.id] for _, broadcast in page]
        position = page[-1][0] if page else position
        await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return sorted(late)


async def dispatching(folder: Path) -> tuple[float, float]:
    """Dispatches the whole queue: CPU per signal for the first and for the last tenth."""
    store = SqliteStore(folder / "due", durability="normal")
    bus = SqliteBus(store)
    for start in range(0, DELAYED, 1_000):
        await asyncio.gather(*(bus.schedule(_entry(start + n, 1_000 + start + n)) for n in range(1_000)))
    costs = []
    for _ in range(DELAYED // 500):
        before = time.process_time()
        await bus.dispatch(await bus.due_broadcasts(10**15, 500), 10**12)
        costs.append((time.process_time() - before) / 500 * 1e6)
    tenth = len(costs) // 10
    await store.close()
    return sum(costs[:tenth]) / tenth, sum(costs[-tenth:]) / tenth


async def newest(folder: Path) -> tuple[float, float]:
    store = SqliteStore(folder / "many", durability="normal")
    await store.close()
    connection = migrations.connect(folder / "many" / DATABASE)
    connection.execute("pragma synchronous = off")
    for start in range(0, MANY, 100_000):
        rows = []
        for n in range(start + 1, min(start + 100_000, MANY) + 1):
            body = encode_broadcast(Broadcast(id=f"b{n}", type="t:x", source=PROCESS, created_at=n))
            rows.append((n, f"b{n}", 0, crc_as_int32(body, n), body))
        connection.execute("begin")
        connection.executemany("insert into broadcasts values (?, ?, ?, ?, ?)", rows)
        connection.execute("commit")
    connection.close()
    store = SqliteStore(folder / "many", durability="normal")
    bus = SqliteBus(store)
    got = await measure_async(lambda: bus.newest(1_000), repeats=9)
    await store.close()
    return got.cpu_us / 1e3, got.wall_us / 1e3


def peers(folder: Path) -> tuple[list[dict[str, Any]], str]:
    try:
        install(PINNED_BUSES)
        return measured("broadcast_buses.py", folder), ""
    except PeerUnavailable as error:
        return [], f"The peers were not measured: {error}."


def run() -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold, hot, found = matching()
        others, why_not = peers(folder)
        emits = asyncio.run(announcing(folder))
        scheduled, costs, late = asyncio.run(scheduling(folder))
        first, last = asyncio.run(dispatching(folder))
        cpu_ms, wall_ms = asyncio.run(newest(folder))
    rows: list[list[Any]] = [["match, cold", cold, ""], ["match, hot", hot, ""]]
    rows += [[f"{each['peer']}: {each['what']}", each["cpu_us"], ""] for each in others]
    rows += emits + [[*each, ""] for each in scheduled]
    rows += [["dispatch, first tenth", first, ""], ["dispatch, last tenth", last, ""]]
    percentile = {p: late[min(len(late) - 1, int(len(late) * p / 100))] for p in (50, 99, 100)}
    lines = [
        "## broadcast: matching, announcing, later, looking back",
        "",
        machine(),
        "",
        f"{SUBSCRIPTIONS:,} subscriptions, {len(kinds()):,} types; {DELAYED:,} delayed signals; {MANY:,} broadcasts. "
        "pyee and blinker call a function in memory; ours keeps it on disk for processes that do not run yet.",
        "",
        table(["what", "CPU µs", "wall µs"], [[str(a), b, str(c) if c == "" else f"{c:.1f}"] for a, b, c in rows]),
        "",
        *([why_not, ""] if why_not else []),
    ]
    paho = next((each for each in others if each["what"] == "match"), None)
    if paho is not None:
        assert paho["found"] == found, "both find the same subscriptions"
        lines.append(
            verdict(
                "cold at least as fast as paho's matcher",
                f"{cold / paho['cpu_us']:.2f} times its CPU",
                cold <= paho["cpu_us"],
            )
        )
        lines.append(
            verdict("hot at least 10 times faster", f"{paho['cpu_us'] / hot:.0f} times", hot * 10 <= paho["cpu_us"])
        )
    growth, flat = costs[-1] / costs[0], last / first
    lines += [
        verdict(
            "scheduling costs the same with 100,000 queued as with 10,000: at most 1.5 times",
            f"{growth:.2f} times",
            growth <= 1.5,
        ),
        verdict(
            "dispatching costs the same at the end as at the beginning: at most 1.5 times",
            f"{flat:.2f} times",
            flat <= 1.5,
        ),
        verdict(
            "late by at most 100 ms for 99 of 100",
            f"p50 {percentile[50]} ms, p99 {percentile[99]} ms, worst {percentile[100]} ms",
            percentile[99] <= 100,
        ),
        verdict(
            f"the newest 1,000 of {MANY:,} in a few milliseconds: at most 10",
            f"{cpu_ms:.1f} ms of CPU, {wall_ms:.1f} of wall",
            cpu_ms <= 10,
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(run())
