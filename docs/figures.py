"""The figures of docs/figures.md, taken from the results of the benchmarks and the campaigns: met or missed."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def figures() -> Iterator[str]:
    speed = (ROOT / "bench" / "RESULTS.md").read_text("utf-8")
    yield f"Speed, from [bench/RESULTS.md](../bench/RESULTS.md){_date(speed)}; `make bench` measures on your machine:"
    yield ""
    yield from re.findall(r"^- (?:met|MISSED): .*$", speed, re.MULTILINE)
    yield ""
    yield "Survival, from [campaign/RESULTS.md](../campaign/RESULTS.md); `make campaign` repeats it:"
    yield ""
    for section in (ROOT / "campaign" / "RESULTS.md").read_text("utf-8").removeprefix("# ").split("\n# "):
        yield from _campaign(section)


def _campaign(section: str) -> Iterator[str]:
    on = _date(section)
    if "Crash campaign" in section:
        yield f"- kill -9: {_count(section, 'of these killed')} kills, {_count(section, 'faults found')} faults{on}"
    elif "Power-loss campaign" in section:
        yield from _power_loss(section, on)
    elif "Damage campaign" in section:
        folders, hidden = _count(section, "folders damaged"), _count(section, "damage that was hidden")
        yield f"- flipped bits, cut and deleted logs: {folders} damaged data folders, damage hidden in {hidden}{on}"
    elif "Simulation campaign" in section:
        runs, broken = _count(section, "runs simulated"), _count(section, "laws broken")
        yield f"- simulation: {runs} runs with faults from seeds, laws broken in {broken}{on}"
    elif "Local model campaign" in section:
        yield from _local_model(section, on)


def _local_model(section: str, on: str) -> Iterator[str]:
    ended = re.findall(r"^\| runs that ended by a signal.*$", section, re.MULTILINE)
    marked = re.findall(r"^\| replies that end in a mark.*$", section, re.MULTILINE)
    for n, mode in enumerate(("held to its marks", "left to itself")):
        replies, runs = _of_all(marked, n), _of_all(ended, n)
        found = f"{replies} replies end in a legal mark, {runs} runs by a signal"
        yield f"- a real model of 135 million parameters, {mode}: {found}{on}"


def _of_all(rows: list[str], column: int) -> str:
    counts = [re.findall(r"(\d+) of (\d+)", row)[column] for row in rows]
    done, whole = (sum(map(int, each)) for each in zip(*counts, strict=True))
    return f"{done} of {whole}"


def _power_loss(section: str, on: str) -> Iterator[str]:
    rows = re.findall(r"^\| (full|normal) +\|.*?\|(.*)\|$", section, re.MULTILINE)
    for durability in ("full", "normal"):
        counts = [re.findall(r"\d+", row.replace(",", "")) for kind, row in rows if kind == durability]
        _, images, _, lost, broken, unsound = (sum(map(int, column)) for column in zip(*counts, strict=True))
        found = (
            f"{lost} that lost something acknowledged" if durability == "full" else f"{broken} that broke its promise"
        )
        yield f"- power loss, `{durability}`: {images:,} disk images, {found}, {unsound} unsound{on}"


def _date(results: str) -> str:
    date = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", results)
    assert date is not None, "results begin with when they were measured"
    return f" ({date[0]})"


def _count(section: str, what: str) -> str:
    found = re.search(rf"^\| {what} +\| +([\d,]+) \|$", section, re.MULTILINE)
    assert found is not None, f"the campaign counts {what}"
    return found[1]
