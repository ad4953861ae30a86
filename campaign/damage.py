"""Damages data folders: flips bits in every table and in SQLite's log, cuts the log, deletes it.

Usage: python -m campaign.damage [FLIPS] [FIRST-SEED]       1,000 and seed 0 unless told; exit code 1 if damage hid

Rule 1: damage must be noticed, by opening the folder (refused, or mended with a warning), by the doctor (a problem, or
a note of what it mended) or by reading; or it must change nothing that is given back.
Rule 2: the folder has rows in every table, so that every table is damaged. What is given back is all that the ports
answer, and what the doctor replays.
Rule 3: a process that damages a copy has no database open: closing a descriptor would release SQLite's locks.
"""

import asyncio
import logging
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench.harness import machine, table
from campaign import results
from campaign.full_folder import compact_copy, filled, given, tables_of
from interlock.adapters.files.data_folder import DATABASE
from interlock.compose.upkeep.doctor import Checkup, check_store
from interlock.errors import InterlockError

FLIPS = 1_000
# Logs that are cut at a random place; one more is deleted.
CUTS = 100
FAULTS_SHOWN = 100

LOG = f"{DATABASE}-wal"


class Damage(NamedTuple):
    """A damage to a copy, and its place: a table, an index or the log."""

    where: str
    how: str
    do: Callable[[Path], None]


def flip(file: str, offset: int, bit: int) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        with (folder / file).open("r+b") as opened:
            opened.seek(offset)
            byte = opened.read(1)[0]
            opened.seek(offset)
            opened.write(bytes((byte ^ 1 << bit,)))

    return do


def cut(size: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / LOG, size)


def flips_in_tables(database: bytes, pages: dict[str, list[int]], count: int, random: Random) -> Iterator[Damage]:
    """Each table and index in turn; where there is something, as most of a small table's page is empty."""
    names, page_size = sorted(pages), int.from_bytes(database[16:18], "big")
    for n in range(count):
        name = names[n % len(names)]
        start = (random.choice(pages[name]) - 1) * page_size
        used = [at for at in range(start, start + page_size) if database[at]]
        offset, bit = random.choice(used), random.randrange(8)
        yield Damage(name, f"bit {bit} of byte {offset}", flip(DATABASE, offset, bit))


def damage_of_log(size: int, flips: int, cuts: int, random: Random) -> Iterator[Damage]:
    yield Damage("log deleted", "", lambda folder: (folder / LOG).unlink())
    for _ in range(cuts):
        at = random.randrange(size)
        yield Damage("log cut", f"at {at}", cut(at))
    for _ in range(flips):
        offset, bit = random.randrange(size), random.randrange(8)
        yield Damage("log", f"bit {bit} of byte {offset}", flip(LOG, offset, bit))


# What came of it


class Tally:
    def __init__(self) -> None:
        self.by_table: dict[str, Counter[str]] = {}
        self.faults: list[str] = []

    def note(self, damage: Damage, outcome: str) -> None:
        self.by_table.setdefault(damage.where, Counter())[outcome] += 1
        if outcome == HIDDEN:
            self.faults.append(f"{damage.where}: {damage.how}")

    def total(self, outcome: str) -> int:
        return sum(counts[outcome] for counts in self.by_table.values())


OPENING, DOCTOR, READING, HARMLESS, HIDDEN = "by opening", "by the doctor", "by reading", "changed nothing", "HIDDEN"
OUTCOMES = (OPENING, DOCTOR, READING, HARMLESS, HIDDEN)


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def warnings() -> Iterator[list[str]]:
    logger, handler = logging.getLogger("interlock"), Warnings()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class Judge:
    """Damages copies of one folder, and finds what is noticed."""

    def __init__(self, image: Path, place: Path) -> None:
        self.image, self.place = image, place
        with warnings() as told:
            self.notes = self._looked_at(lambda folder: asyncio.run(check_store(folder))).notes
            self.right = self._looked_at(lambda folder: asyncio.run(given(folder)))
        assert told == [], told

    def _looked_at(self, look: Callable[[Path], Any], damage: Damage | None = None) -> Any:
        shutil.copytree(self.image, self.place)
        try:
            if damage is not None:
                damage.do(self.place)
            return look(self.place)
        finally:
            shutil.rmtree(self.place)

    def outcome(self, damage: Damage) -> str:
        outcome: str = self._looked_at(self._outcome, damage)
        return outcome

    def _outcome(self, folder: Path) -> str:
        with warnings() as told:
            try:
                found = asyncio.run(check_store(folder))
            except InterlockError:
                return OPENING
            if told:
                return OPENING
            if self._is_told(found):
                return DOCTOR
            try:
                return HARMLESS if asyncio.run(given(folder)) == self.right else HIDDEN
            except InterlockError:
                return READING

    def _is_told(self, found: Checkup) -> bool:
        return bool(found.problems) or found.notes != self.notes


def run(flips: int, seed: int, cuts: int = CUTS) -> Tally:
    """Half of the flips in tables, a quarter in those of a compacted copy, the rest in the log of a dead process."""
    tally, random = Tally(), Random(seed)
    with TemporaryDirectory(prefix="interlock-damage-") as name:
        folder = Path(name)
        whole, killed = filled(folder / "whole", dies=False), filled(folder / "killed", dies=True)
        small = compact_copy(whole, folder / "compacted")
        in_tables, in_log = flips // 2, flips // 4
        for image, damages in (
            (whole, flips_in_image(whole, folder / "looked", in_tables, random)),
            (small, flips_in_image(small, folder / "looked", flips - in_tables - in_log, random)),
            (killed, damage_of_log((killed / LOG).stat().st_size, in_log, cuts, random)),
        ):
            judge = Judge(image, folder / "copy")
            for damage in damages:
                tally.note(damage, judge.outcome(damage))
    return tally


def flips_in_image(image: Path, place: Path, count: int, random: Random) -> Iterator[Damage]:
    """Bit flips in a folder without a log; the owner of each page is looked up in a copy under `place`."""
    shutil.copytree(image, place)
    pages = tables_of(place / DATABASE)
    shutil.rmtree(place)
    return flips_in_tables((image / DATABASE).read_bytes(), pages, count, random)


def page(tally: Tally, seed: int, seconds: float) -> str:
    """The results as Markdown."""
    rows = [(where, *(counts[outcome] for outcome in OUTCOMES)) for where, counts in sorted(tally.by_table.items())]
    totals = ("all", *(tally.total(outcome) for outcome in OUTCOMES))
    count = sum(tally.total(outcome) for outcome in OUTCOMES)
    parts = [
        "# Damage campaign",
        f"Written by `make campaign`. {machine()}. {count:,} damaged folders in {seconds:.0f} s, from seed {seed}.",
        "Copies of a data folder with rows in every table: one bit is flipped in a table, in an index, or in SQLite's"
        " log as a killed process left it; or the log is cut, or deleted. A quarter of the flips is in a folder that"
        " was compacted. Each must be noticed by opening the folder, by `interlock doctor` or by reading, or"
        " change nothing that is given back. `HIDDEN` is neither.",
        table(("where", *OUTCOMES), [*rows, totals]),
        table(("what", "count"), [("folders damaged", count), ("damage that was hidden", tally.total(HIDDEN))]),
        *(["## Faults", "\n".join(f"- {fault}" for fault in tally.faults[:FAULTS_SHOWN])] if tally.faults else []),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    flips = int(sys.argv[1]) if len(sys.argv) > 1 else FLIPS
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    found = run(flips, first_seed)
    text = page(found, first_seed, time.monotonic() - began)
    results.put(text)
    print(text)
    sys.exit(1 if found.faults else 0)
