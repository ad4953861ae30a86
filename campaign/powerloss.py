"""Cuts the power: opens disk images made from recorded writes and syncs, and checks what must still hold.

Usage: python -m campaign.powerloss [IMAGES] [FIRST-SEED]    100,000 and seed 0 unless told; exit code 1 if a law broke

Rule 1: an image must open, be sound, and hold exactly what the store held after some number of the things it was asked
for. So what is lost is the newest of all runs together, and no record is damaged, moved, invented or left half.
Rule 2: with durability `full` that number is never below what was acknowledged before the power went. With `normal` it
is never below what was acknowledged before the last sync of SQLite's log.
Rule 3: an image is opened by a `SqliteStore` as a program opens one, and seen through what it answers alone.
"""

import asyncio
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zlib import crc32

from bench.harness import machine, table
from campaign import results
from interlock.adapters.sqlite.bus.active_agents import SqliteActiveAgents
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.store import DURABILITIES, SqliteStore
from interlock.errors import InterlockError, StoreFailed
from tests.campaign.powerloss_disk import SQLITE_VERSION
from tests.campaign.powerloss_images import MODELS, Image, Platter
from tests.campaign.powerloss_work import Held, Ledger, played, shown

IMAGES = 100_000
IMAGES_A_STORY = 500
LANES = 2
KINDS = tuple((durability, model) for durability in DURABILITIES for model in MODELS)
FAULTS_SHOWN = 100

# More than any story makes.
RUNS_MAX, RECORDS_MAX = 1_000, 10_000

# Memory, if the system offers it as files: an image is written, opened once and removed.
MEMORY = Path("/dev/shm")


class Broken(Exception):
    """An image holds something that the store never held."""


class Job(NamedTuple):
    durability: str
    model: str
    seed: int
    images: int


class Tally:
    """The counts of some images."""

    def __init__(self) -> None:
        self.images = self.distinct = self.short = self.stories = 0
        self.faults: list[str] = []

    def add(self, other: "Tally") -> None:
        self.images += other.images
        self.distinct += other.distinct
        self.short += other.short
        self.stories += other.stories
        self.faults += other.faults


class Loss(NamedTuple):
    """A moment at which the power goes, and what is then found on the disk."""

    moment: int
    image: Image


def losses(ledger: Ledger, model: str, images: int, random: Random, among: range | None = None) -> Iterator[Loss]:
    """So many images, of moments drawn at random, in the order of the moments."""
    log = ledger.disk.log
    among = among or range(len(log) + 1)
    moments = Counter(random.choice(among) for _ in range(images))
    platter = Platter(model)
    for moment in range(len(log) + 1):
        for _ in range(moments[moment]):
            yield Loss(moment, platter.image(random))
        if moment < len(log):
            platter.take(log[moment])


class Judge:
    """Opens the images of one story."""

    def __init__(self, ledger: Ledger, durability: str, folder: Path) -> None:
        self.ledger, self.durability, self.folder = ledger, durability, folder
        self.tally = Tally()
        self._seen: dict[tuple[tuple[str, int, int], ...], int | str] = {}

    def try_all(self, model: str, images: int, seed: int, among: range | None = None) -> Tally:
        for loss in losses(self.ledger, model, images, Random(seed), among):
            fault = self.fault(loss)
            if fault:
                self.tally.faults.append(f"{self.durability}, {model}, seed {seed}, moment {loss.moment}: {fault}")
        return self.tally

    def fault(self, loss: Loss) -> str:
        """The fault of an image; usually none."""
        self.tally.images += 1
        found = self._number(loss.image)
        if isinstance(found, str):
            return found
        acknowledged, asked = (by(loss.moment) for by in (self.ledger.acknowledged_by, self.ledger.asked_by))
        self.tally.short += found < acknowledged
        if found > asked:
            return f"{asked} things were asked for, and the image holds {found}"
        promised = acknowledged
        if self.durability == "normal":
            promised = self.ledger.acknowledged_by(self.ledger.log_synced_by(loss.moment))
        return f"lost: {promised} things were promised, and the image holds {found}" if found < promised else ""

    def _number(self, image: Image) -> int | str:
        """The number of requests that an image holds, or its fault. Equal images are opened once."""
        key = tuple((name, len(content), crc32(content)) for name, content in sorted(image.items()))
        if key not in self._seen:
            self.tally.distinct += 1
            self._seen[key] = self._opened(image)
        return self._seen[key]

    def _opened(self, image: Image) -> int | str:
        self.folder.mkdir()
        try:
            for name, content in image.items():
                (self.folder / name).write_bytes(content)
            return self.ledger.states[asyncio.run(held(self.folder, self.ledger, self.durability))]
        except KeyError:
            return "broken: what it holds was never there at any one moment"
        except (InterlockError, Broken) as error:
            return f"broken: {error}"
        finally:
            shutil.rmtree(self.folder)


async def held(folder: Path, ledger: Ledger, durability: str = "full") -> Held:
    """The contents of a store after it is opened again; with `full` it is refused if its mark shows a loss."""
    store = SqliteStore(folder, durability=durability)
    try:
        if found := await store.problems():
            raise Broken("; ".join(found))
        rows = sorted(await store.rows(limit=RUNS_MAX), key=lambda row: row.run)
        for row in rows:
            await require_written(store, row.run, ledger)
        return Held(
            runs=tuple(shown(row) for row in rows),
            tombstones=tuple(sorted((each.run, each.seq, each.link) for each in await store.tombstones())),
            crews=tuple([sha for sha in sorted(ledger.crews) if await has_crew(store, sha)]),
            order=tuple((each.run, each.record.seq) for each in await store.since(0, limit=RECORDS_MAX)),
            broadcasts=tuple(each.type for _, each in await SqliteBus(store).since(0, RECORDS_MAX)),
            at_work=await store.read("look who is at work", at_work),
        )
    finally:
        await store.close()


def at_work(connection: sqlite3.Connection) -> tuple[tuple[str, tuple[str, ...]], ...]:
    active = SqliteActiveAgents()
    active.refresh(connection)
    return tuple((agent, tuple(sorted(runs))) for (_, agent), runs in sorted(active.runs.items()))


async def require_written(store: SqliteStore, run: str, ledger: Ledger) -> None:
    """Reading verifies crc and chain; beyond that they are those that were written, to the byte."""
    found = list(await store.export_records(run))
    if found != ledger.written.get(run, [])[: len(found)]:
        raise Broken(f"the records of run {run} are not those that were written")


async def has_crew(store: SqliteStore, sha: str) -> bool:
    with suppress(StoreFailed):
        await store.crew(sha)
        return True
    return False


# The long version


def workshop() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="interlock-powerloss-", dir=MEMORY if MEMORY.is_dir() else None)


def story(durability: str, model: str, seed: int, images: int) -> Tally:
    """One story, recorded and judged."""
    with workshop() as folder:
        ledger, failure = played(Path(folder) / "data", seed, durability)
        assert failure is None, f"nothing fails but the power: {failure}"
        tally = Judge(ledger, durability, Path(folder) / "image").try_all(model, images, seed)
    tally.stories = 1
    return tally


def _story(job: Job) -> Tally:
    return story(*job)


def jobs(images: int, first_seed: int) -> list[Job]:
    """Jobs with as many images of each durability on each kind of file system; every story has its own seed."""
    each = images // len(KINDS)
    sizes = [min(IMAGES_A_STORY, each - done) for done in range(0, each, IMAGES_A_STORY)]
    kinds = [(*kind, size) for size in sizes for kind in KINDS]
    return [Job(durability, model, first_seed + n, size) for n, (durability, model, size) in enumerate(kinds)]


def run(images: int, first_seed: int = 0, lanes: int = LANES) -> dict[tuple[str, str], Tally]:
    tallies = {kind: Tally() for kind in KINDS}
    todo = jobs(images, first_seed)
    with ProcessPoolExecutor(lanes, mp_context=get_context("spawn")) as pool:
        for job, tally in zip(todo, pool.map(_story, todo), strict=True):
            tallies[job.durability, job.model].add(tally)
    return tallies


def page(tallies: dict[tuple[str, str], Tally], first_seed: int, seconds: float) -> str:
    """The results as Markdown."""
    faults = [fault for tally in tallies.values() for fault in tally.faults]
    rows = [
        (*kind, tally.stories, tally.images, tally.distinct, tally.short, *counted(tally.faults))
        for kind, tally in tallies.items()
    ]
    heads = (
        "durability",
        "files",
        "stories",
        "images",
        "distinct",
        "not all acknowledged",
        "promise broken",
        "unsound",
    )
    parts = [
        "# Power-loss campaign",
        f"Written by `make campaign`. {machine()}. {sum(tally.images for tally in tallies.values()):,} images in"
        f" {seconds:.0f} s, from seed {first_seed}. SQLite {SQLITE_VERSION} wrote,"
        f" {sqlite3.sqlite_version} read.",
        "Each story is a store at work: runs made, appended to alone and together, large records, claims, releases,"
        " deletions, a log that restarts and is cut, and openings. The power goes at a random moment of the recorded"
        " writes and syncs. What was synced is there; of the rest there is nothing, the first part, some, or torn"
        " sectors. Then: the image opens, is sound, and holds what the store held after some number of the things it"
        " was asked for. With `full` all that was acknowledged must be among them (`not all acknowledged` is 0);"
        " with `normal`, all that was acknowledged before the last sync of the log.",
        table(heads, rows),
        *(["## Faults", "\n".join(f"- {fault}" for fault in faults[:FAULTS_SHOWN])] if faults else []),
    ]
    return "\n\n".join(parts) + "\n"


def counted(faults: list[str]) -> tuple[int, int]:
    """The number of images that lost something, and of all others."""
    lost = sum(": lost: " in fault for fault in faults)
    return lost, len(faults) - lost


if __name__ == "__main__":
    images = int(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    tallies = run(images, first_seed)
    text = page(tallies, first_seed, time.monotonic() - began)
    results.put(text)
    print(text)
    sys.exit(1 if any(tally.faults for tally in tallies.values()) else 0)
