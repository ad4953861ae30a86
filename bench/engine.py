"""Reports the cost of a step, beside floors and peers that were measured in the same run."""

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench import peers
from bench.engine_steps import (
    EVENTS_PER_STEP,
    LARGE,
    LIVE,
    RUNS,
    SMALL,
    Pair,
    Parts,
    Place,
    durable_steps,
    growth,
    live_bytes,
    memory_steps,
    parts,
    paused,
    restart,
    runs_together,
    short_runs_alone,
    sizes,
    step_record,
    work,
)
from bench.harness import Measurement, machine, table, verdict
from bench.peers import SIZES
from interlock.adapters.store_rules.record_format import LINK_BYTES, encode_record

PEERS = ("pydantic_graph_steps.py", "burr_steps.py", "langgraph_steps.py", "agent_framework_steps.py")
# Where a peer does less work than a step of ours does, even in memory.
LESS_WORK = {
    "pydantic-graph": "functions call each other: no journal, no signal to recognise, no prompt, no limits",
    "Burr": "no signal to recognise, no prompt; without messages it keeps nothing of what was said",
    "LangGraph": "no signal to recognise, no prompt; its state in memory is kept without a record of decisions",
    "agent-framework": "no signal to recognise, no prompt; in memory there is no checkpoint",
}


class PeerRow(NamedTuple):
    peer: str
    name: str
    steps: int
    cost: Measurement


# What a step of ours costs in a run of this many steps: in memory, and stored with NORMAL.
OwnSteps = dict[int, tuple[Measurement, Measurement]]


def peer_rows(folder: Path) -> tuple[list[PeerRow], list[str]]:
    """The measured peers, and the reasons for those that were not measured."""
    rows: list[PeerRow] = []
    try:
        peers.install()
    except peers.PeerUnavailable as reason:
        return rows, [f"- peers were not measured: {reason}"]
    skipped = []
    for script in PEERS:
        try:
            found = peers.measured(script, folder)
        except peers.PeerUnavailable as reason:
            skipped.append(f"- {script} was not measured: {reason}")
        else:
            rows += [PeerRow(r["peer"], r["name"], r["steps"], Measurement(r["cpu_us"], r["wall_us"])) for r in found]
    return rows, skipped


def _peer_table(rows: list[PeerRow], own: OwnSteps) -> str:
    shown = []
    for row in rows:
        ours = _own_of(row, own)
        shown.append([row.peer, row.name, row.steps, row.cost.cpu_us, ours.cpu_us, ours.cpu_us / row.cost.cpu_us])
    return table(["peer", "a step", "steps of the run", "CPU µs", "ours, CPU µs", "ours / theirs"], shown)


def _own_of(row: PeerRow, own: OwnSteps) -> Measurement:
    memory, stored = own[row.steps]
    return memory if row.name.startswith("in memory") else stored


def _peer_verdicts(rows: list[PeerRow], own: OwnSteps) -> list[str]:
    """One verdict a peer: its worst case for us, over all lengths of a run."""
    verdicts = []
    for peer in dict.fromkeys(row.peer for row in rows):
        ratios = {row: _own_of(row, own).cpu_us / row.cost.cpu_us for row in rows if row.peer == peer}
        worst = max(ratios, key=lambda row: ratios[row])
        case = f"{worst.name}, {worst.steps} steps"
        verdicts.append(
            verdict(f"ahead of {peer} at every length", f"{ratios[worst]:.2f} times ({case})", ratios[worst] < 1)
        )
    return verdicts


def _at_most(claim: str, most: float, found: float, more: str = "") -> str:
    return verdict(f"{claim} at most {most:g} times", f"{found:.2f} times{more}", found <= most)


def _steps_table(pairs: dict[str, Pair]) -> str:
    rows = [
        [name, p.ours.cpu_us, p.floor.cpu_us, p.cpu, p.ours.wall_us, p.floor.wall_us, p.wall]
        for name, p in pairs.items()
    ]
    return table(["a step", "CPU µs", "floor CPU µs", "CPU ratio", "wall µs", "floor wall µs", "wall ratio"], rows)


def _parts_table(part: Parts) -> str:
    rows = {
        "the engine's transition, pure": part.transition,
        "its record as JSON, crc and link": part.sealing,
        "a task for the call, an inbox for the answer": part.passing_on,
        "an append, NORMAL, one after the other": part.append,
    }
    return table(["part of a step", "CPU µs", "wall µs"], [[name, m.cpu_us, m.wall_us] for name, m in rows.items()])


def _reasons(part: Parts, memory: Pair, normal: Pair, record_bytes: int) -> list[str]:
    """The reasons for missed goals, in numbers."""
    pure = part.transition.cpu_us
    rest = memory.ours.cpu_us - pure - part.passing_on.cpu_us
    return [
        f"- in memory: the pure transition alone is {pure / memory.floor.cpu_us:.1f} times the whole floor, which"
        f" decides by two `rfind`; the request, the record as JSON and all bookkeeping take {rest:.0f} µs more",
        f"- alone: an append takes {part.append.cpu_us:.0f} µs of CPU, where the floor's whole step takes"
        f" {normal.floor.cpu_us:.0f}: it compares owner and newest record, asks whether another process has committed"
        " or the log is gone, and marks the newest position; the rest is the step in memory, slower because every"
        " commit takes the caches",
        "- together: commits are shared, and what is left is the CPU time of a step in memory and of a SQL statement,"
        " and of rows and index that are filled behind, on one core",
        f"- journal: a step's record has {record_bytes} B around {SMALL} B of reply: {EVENTS_PER_STEP} events, one of"
        f" them the decision with its candidates; and a link of {LINK_BYTES} B",
        "- verdicts on wall time (FULL, runs together) move with the load on the disk: repeat them on a quiet machine",
    ]


async def _report(place: Place) -> str:
    pairs = {
        "in memory": await memory_steps(place),
        "alone, NORMAL": await durable_steps(place, "normal"),
        "alone, FULL": await durable_steps(place, "full"),
        f"{RUNS} runs together, FULL": await runs_together(place),
    }
    memory, normal, full, shared = pairs.values()
    alone, grown = await short_runs_alone(place), await growth(place)
    small, large = await sizes(place, SMALL), await sizes(place, LARGE)
    done, waiting, again = await work(place), await paused(place), await restart(place)
    part = await parts(place)
    own = {n: ((await memory_steps(place, n)).ours, (await durable_steps(place, "normal", n)).ours) for n in SIZES}
    rows, skipped = peer_rows(place.folder)
    gain = alone.wall_us / shared.ours.wall_us
    resume = waiting.many.cpu_us / waiting.few.cpu_us
    other = [
        ["first 100 steps of 10,000, in memory, CPU µs a step", grown.first],
        ["last 100 steps of 10,000, in memory, CPU µs a step", grown.last],
        ["one commit a step, FULL, short runs one after the other, wall µs a step", alone.wall_us],
        ["journal at 190 B, bytes a step by slope", small.ours],
        ["the floor's", small.floor],
        ["journal at 4 kB, bytes a step by slope", large.ours],
        ["the floor's", large.floor],
        ["alone, NORMAL: calls of Python functions a step", done.calls],
        ["alone, NORMAL: writes a step, system calls", done.writes],
        ["alone, NORMAL: bytes written a step", done.bytes],
        ["10,000 paused runs: bytes of memory a run", waiting.bytes_a_run],
        [f"{LIVE:,} runs that wait for their model: bytes of memory a run", await live_bytes(place)],
        ["resume one of 10: CPU µs", waiting.few.cpu_us],
        ["resume one of 10,000: CPU µs", waiting.many.cpu_us],
        ["read and verify a run of 10,000 events: CPU ms", again.read.cpu_us / 1e3],
        ["replay it: CPU ms", again.replay.cpu_us / 1e3],
        [
            f"open a folder with {again.stored_events:,} events of runs that are over: wall ms",
            again.opened.wall_us / 1e3,
        ],
    ]
    verdicts = [
        _at_most("in memory, against an async loop with one task a call:", 4.5, memory.cpu),
        *_peer_verdicts(rows, own),
        _at_most("one run alone, NORMAL, against an event log with one task a call:", 3.7, normal.cpu),
        _at_most("one run alone, FULL, against its floor:", 1.9, full.wall, f" of wall, {full.cpu:.2f} of CPU"),
        verdict("100 runs share commits: at least 6 times the throughput", f"{gain:.2f} times", gain >= 6),
        _at_most("100 runs together, against the floor's own group commit:", 4, shared.wall, " of wall"),
        _at_most("a step at 10,000, against one at 100:", 1.3, grown.last / grown.first),
        _at_most("journal at 190 B, by slope, against the floor's:", 2, small.ours / small.floor),
        _at_most("journal at 4 kB, by slope, against the payload:", 1.2, large.ours / LARGE),
        verdict(
            "10,000 paused runs cost no memory beyond a constant",
            f"{waiting.bytes_a_run:.0f} B a run",
            waiting.bytes_a_run < 100,
        ),
        _at_most("resuming one of 10,000, against one of 10:", 1.3, resume),
    ]
    shown = [_steps_table(pairs), "", _parts_table(part), "", table(["besides", "measured"], other), ""]
    if rows:
        shown += [_peer_table(rows, own), "", "What a peer does not do:", ""]
        shown += [*(f"- {peer}: {less}" for peer, less in LESS_WORK.items()), ""]
    record_bytes = len(encode_record(step_record(place.crew))) - SMALL
    why = ["", "Where a goal is missed, why:", "", *_reasons(part, memory, normal, record_bytes)]
    return "\n".join([*shown, *verdicts, *skipped, *why])


def run() -> str:
    heads = ["## engine: the cost of a step", "", machine(), ""]
    # Not in /tmp, which may be kept in memory, where a sync costs nothing.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".engine-") as folder:
        return "\n".join([*heads, asyncio.run(_report(Place(Path(folder))))])


if __name__ == "__main__":
    print(run())
