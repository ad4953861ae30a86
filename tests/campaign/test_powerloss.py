"""Law 3 without power: what was acknowledged is in every disk image that a loss of power may leave behind.

`campaign.powerloss` is the judge; images are made from the writes and syncs of a store at work.
"""

import asyncio
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

from campaign import results
from campaign.powerloss import KINDS, Judge, Loss, Tally, counted, story, workshop
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.ports import NO_WRITES, AppendResult, AtomicWrites, Record, RunRow
from tests.campaign import powerloss_disk, powerloss_work
from tests.campaign.powerloss_disk import Cut, Entry, FolderSynced, Made, Removed, Renamed, Synced, SyncFailed, Wrote
from tests.campaign.powerloss_images import MODELS, Image, Platter
from tests.campaign.powerloss_work import Ledger, played

SEED = 1


@pytest.fixture
def folder() -> Iterator[Path]:
    with workshop() as name:
        yield Path(name)


def judged(folder: Path, ledger: Ledger, kind: tuple[str, str], images: int, among: range | None = None) -> Tally:
    durability, model = kind
    return Judge(ledger, durability, folder / "image").try_all(model, images, SEED, among)


# A thousand images


@pytest.mark.parametrize(("durability", "model"), KINDS)
def test_what_was_promised_is_in_every_image(durability: str, model: str) -> None:
    tally = Tally()
    for seed in range(3):
        tally.add(story(durability, model, seed, images=120))
    assert tally.faults == []
    assert tally.distinct >= 250, "a quarter of the thousand"
    assert (tally.short == 0) is (durability == "full"), "normal promises less, and the model shows it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_that_is_being_made_is_whole_or_not_there(folder: Path, kind: tuple[str, str]) -> None:
    ledger, _ = played(folder / "data", SEED, kind[0], steps=0)
    until = ledger.acknowledged[0][0]
    assert renaming(ledger) < until
    assert judged(folder, ledger, kind, images=400, among=range(until)).faults == []


def renaming(ledger: Ledger) -> int:
    return next(n for n, entry in enumerate(ledger.disk.log) if isinstance(entry, Renamed))


# Bugs that the model must find


class Hasty(SqliteStore):
    """Acknowledges before the commit."""

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        self.under_way = asyncio.ensure_future(super().append(row, record, also))
        await asyncio.sleep(0)
        return AppendResult(0)

    async def close(self) -> None:
        await self.under_way
        await super().close()


PLANTED: dict[str, tuple[str, dict[str, Any]]] = {
    "off for full": ("full", {"misheard": {"pragma synchronous = full": "pragma synchronous = off"}}),
    "normal for full": ("full", {"misheard": {"pragma synchronous = full": "pragma synchronous = normal"}}),
    "acknowledged before the commit": ("full", {"kind": Hasty}),
    "the log is not synced": ("full", {"unsynced": ("-wal",)}),
    "the database is not synced": ("full", {"unsynced": (".db",)}),
    "normal, and the log is not synced": ("normal", {"unsynced": ("-wal",)}),
    "normal, and the database is not synced": ("normal", {"unsynced": (".db",)}),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(folder: Path, bug: str, model: str) -> None:
    durability, dials = PLANTED[bug]
    ledger, failure = played(folder / "data", SEED, durability, **dials)
    assert failure is None, "the store notices nothing"
    lost, broken = counted(judged(folder, ledger, (durability, model), images=100).faults)
    assert lost + broken >= 3


def test_a_new_name_that_is_not_synced_is_found(folder: Path) -> None:
    with mock.patch.object(migrations, "sync_folder"):
        ledger, _ = played(folder / "data", SEED, "full", steps=0)
    began = renaming(ledger)
    tally = judged(folder, ledger, ("full", "posix"), images=100, among=range(began, began + 5))
    assert any("is gone but its" in fault for fault in tally.faults)


def test_a_record_that_nobody_wrote_is_found(folder: Path) -> None:
    ledger, _ = played(folder / "data", SEED, "full", steps=5)
    image = {DATABASE: (folder / "data" / DATABASE).read_bytes()}
    judge, end = Judge(ledger, "full", folder / "image"), len(ledger.disk.log)
    assert judge.fault(Loss(end, image)) == ""
    assert judge.fault(Loss(0, image)) == f"0 things were asked for, and the image holds {len(ledger.asked_at)}"
    shutil.copytree(folder / "data", folder / "more")
    asyncio.run(_add_a_record(folder / "more"))
    more = {DATABASE: (folder / "more" / DATABASE).read_bytes()}
    assert "never there at any one moment" in judge.fault(Loss(end, more)) or "not those" in judge.fault(
        Loss(end, more)
    )


async def _add_a_record(folder: Path) -> None:
    store = SqliteStore(folder)
    row = (await store.rows())[0]
    first = (await store.records(row.run))[0]
    await store.append(row, Record(seq=row.seq + 1, at=1, events=first.events))
    await store.close()


# A sync that fails


@pytest.mark.parametrize(("durability", "seed"), [("full", 0), ("normal", 0), ("normal", 2)])
def test_after_a_failed_sync_nothing_is_acknowledged_and_nothing_lost(folder: Path, durability: str, seed: int) -> None:
    """Every sync in turn. SQLite tells nobody of those that fail while it closes, so by then nothing hangs on them."""
    heard = 0
    for n in itertools.count(1):
        ledger, failure = played(folder / f"data{n}", seed, durability, steps=16, sync_fails=n)
        failed = [(at, entry) for at, entry in enumerate(ledger.disk.log) if isinstance(entry, SyncFailed)]
        if not failed:
            break
        at, entry = failed[0]
        if not entry.unheard:
            heard += 1
            assert max((ledger.asked_at[number - 1] for _, number in ledger.acknowledged), default=0) <= at, n
            assert failure is not None, n
        else:
            assert is_log_sure(ledger, at), n
        faults = [fault for model in MODELS for fault in judged(folder, ledger, (durability, model), 5).faults]
        assert faults == [], n
    assert heard >= 10


def is_log_sure(ledger: Ledger, moment: int) -> bool:
    """Whether all that was written to SQLite's log before a moment was synced by then."""
    log = ledger.disk.log[:moment]
    inodes = {entry.inode for entry in log if isinstance(entry, Made) and entry.name.endswith(".db-wal")}
    written = [n for n, entry in enumerate(log) if isinstance(entry, Wrote) and entry.inode in inodes]
    return not written or ledger.log_synced_by(moment) > written[-1]


def test_a_failure_that_goes_unheard_is_found(folder: Path) -> None:
    """Why the store makes its checkpoints itself: SQLite would go on after one that failed."""
    own = {"pragma wal_autocheckpoint = 0": "pragma user_version"}
    with (
        mock.patch.object(powerloss_disk, "CHECKPOINT_PAGES", 40),
        mock.patch.object(powerloss_work, "LOG_BYTES", 2**40),
    ):
        ledgers = [played(folder / f"{n}", 2, "normal", steps=24, sync_fails=n, misheard=own)[0] for n in range(10, 18)]
    unheard = [ledger for ledger in ledgers if any(getattr(entry, "unheard", False) for entry in ledger.disk.log)]
    assert any(judged(folder, ledger, ("normal", "posix"), images=100).faults for ledger in unheard)


# The disk and its images


def test_the_log_of_a_disk_leads_to_the_files_on_it(folder: Path) -> None:
    ledger, _ = played(folder / "data", SEED, "full")
    platter = Platter("posix")
    for entry in ledger.disk.log:
        platter.take(entry)
    for file in platter.files.values():
        file.sync()
    found = {file.name for file in (folder / "data").glob("interlock.db*")}
    assert found == {DATABASE}
    assert platter.files[0].sure == (folder / "data" / DATABASE).read_bytes()
    kinds = {type(entry) for entry in ledger.disk.log}
    assert kinds == {Wrote, Cut, Synced, Made, Removed, Renamed, FolderSynced}


def images_of(model: str, *log: Entry) -> list[Image]:
    platter = Platter(model)
    for entry in log:
        platter.take(entry)
    return [platter.image(Random(seed)) for seed in range(400)]


BEGUN = (Made(0, "a"), FolderSynced(), Wrote(0, 0, b"x" * 1024), Synced(0))


@pytest.mark.parametrize("model", MODELS)
def test_what_was_synced_stays_and_what_was_not_may_be_there_or_not_or_torn(model: str) -> None:
    contents = {image["a"] for image in images_of(model, *BEGUN, Wrote(0, 0, b"y" * 1024))}
    old, new = b"x" * 512, b"y" * 512
    assert contents - {new + old, old + new} == {old + old, new + new}
    assert new + old in contents
    assert images_of(model, *BEGUN) == [{"a": b"x" * 1024}] * 400


def test_only_posix_lets_a_later_write_overtake_or_a_file_grow_without_its_content() -> None:
    log = (*BEGUN, Wrote(0, 0, b"1" * 1024), Wrote(0, 0, b"2"), Wrote(0, 4096, b"3" * 512))
    hole = {model: any(len(i["a"]) > 1024 and i["a"][-1:] != b"3" for i in images_of(model, *log)) for model in MODELS}
    early = {model: any(i["a"][:2] == b"2x" for i in images_of(model, *log)) for model in MODELS}
    assert hole == early == {"ext4": False, "posix": True}


def test_a_name_is_sure_after_a_sync_of_the_folder_or_on_ext4_of_any_file() -> None:
    log = (*BEGUN, Made(1, "b"), Renamed("a", "c"), Wrote(1, 0, b"z"), Synced(1))
    names = {model: {tuple(sorted(image)) for image in images_of(model, *log)} for model in MODELS}
    assert names == {"ext4": {("b", "c")}, "posix": {("a",), ("a", "b"), ("c",), ("b", "c")}}
    assert {tuple(sorted(image)) for image in images_of("posix", *log, FolderSynced())} == {("b", "c")}


@pytest.mark.parametrize("model", MODELS)
def test_what_a_failed_sync_did_not_write_no_later_sync_makes_sure(model: str) -> None:
    images = images_of(model, *BEGUN, Wrote(0, 0, b"y"), SyncFailed(0, unheard=False), Synced(0))
    assert {image["a"] for image in images} == {b"x" * 1024}


def test_a_part_of_the_results_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "RESULTS.md"
    for part in ("# One\n\nfirst\n", "# Two\n\n## Within\n\nsecond\n", "# One\n\nthird\n"):
        results.put(part, file)
    assert file.read_text("utf-8") == "# One\n\nthird\n\n# Two\n\n## Within\n\nsecond\n"
