"""Measures, and formats results.

Rule 1: CPU time stands beside wall time; verdicts rest on CPU time, because cores are shared.
Rule 2: the best of several repeats, with garbage collected before each; noise only ever adds.
Rule 3: what is compared is measured in the same run.
"""

import gc
import os
import platform
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple


class Measurement(NamedTuple):
    """Microseconds per unit."""

    cpu_us: float
    wall_us: float


def measure(fn: Callable[..., object], units: int = 1, repeats: int = 5) -> Measurement:
    """The least cost of `fn`, which does `units` units of work, over several repeats."""
    cpu, wall = [], []
    for _ in range(repeats):
        gc.collect()
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        fn()
        wall.append(time.perf_counter() - wall_before)
        cpu.append(time.process_time() - cpu_before)
    return Measurement(min(cpu) / units * 1e6, min(wall) / units * 1e6)


async def measure_async(fn: Callable[[], Awaitable[object]], units: int = 1, repeats: int = 5) -> Measurement:
    """Like `measure`, within a running loop."""
    cpu, wall = [], []
    for _ in range(repeats):
        gc.collect()
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        await fn()
        wall.append(time.perf_counter() - wall_before)
        cpu.append(time.process_time() - cpu_before)
    return Measurement(min(cpu) / units * 1e6, min(wall) / units * 1e6)


def measure_call(fn: Callable[[], object], seconds: float = 0.05, repeats: int = 5) -> Measurement:
    """The cost of one call, made often enough in a repeat to take about `seconds`."""
    once = max(measure(fn, repeats=2).cpu_us / 1e6, 1e-7)
    calls = max(1, int(seconds / once))

    def many() -> None:
        for _ in range(calls):
            fn()

    return measure(many, calls, repeats)


def machine() -> str:
    """The date and the machine, in one line."""
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {load}"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers stand to the right."""
    shown = [[_cell(value) for value in row] for row in rows]
    numeric = [bool(rows) and all(isinstance(row[n], int | float) for row in rows) for n in range(len(heads))]
    widths = [max(3, *(len(line[n]) for line in [list(heads), *shown])) for n in range(len(heads))]
    rule = [("-" * (width - 1) + ":") if right else "-" * width for width, right in zip(widths, numeric, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(heads), line(rule), *(line(cells) for cells in shown)])


def verdict(claim: str, measured: str, met: bool) -> str:
    """A line for a goal: met or missed."""
    return f"- {'met' if met else 'MISSED'}: {claim}; measured {measured}"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1_000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
