"""The short version of `campaign/damage.py`: whatever is damaged is noticed, or changes nothing that is given back."""

import shutil
from pathlib import Path
from random import Random

import pytest

from campaign import damage
from campaign.damage import (
    HIDDEN,
    Damage,
    Judge,
    Tally,
    damage_of_log,
    flips_in_image,
    flips_in_tables,
)
from campaign.full_folder import compact_copy, filled, tables_of
from interlock.adapters.files import data_folder
from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.files.newest_mark import StoreProgress
from interlock.adapters.sqlite import sealed_tables
from interlock.compose.upkeep.doctor import check_store

FLIPS, LOGS = 50, 12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("whole") / "data", dies=False)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("killed") / "data", dies=True)


def pages_of(image: Path, place: Path) -> dict[str, list[int]]:
    shutil.copytree(image, place)
    return tables_of(place / DATABASE)


def test_a_flipped_bit_in_any_table_or_index_is_noticed_or_changes_nothing(whole: Path, tmp_path: Path) -> None:
    pages = pages_of(whole, tmp_path / "looked")
    assert set(sealed_tables.SEALED_TABLES) <= pages.keys()
    judge, tally = Judge(whole, tmp_path / "copy"), Tally()
    for each in flips_in_tables((whole / DATABASE).read_bytes(), pages, max(FLIPS, len(pages)), Random(7)):
        tally.note(each, judge.outcome(each))
    assert tally.faults == []


def test_a_flipped_bit_in_a_compacted_folder_is_noticed_or_changes_nothing(whole: Path, tmp_path: Path) -> None:
    small = compact_copy(whole, tmp_path / "compacted")
    assert (small / DATABASE).stat().st_size <= (whole / DATABASE).stat().st_size
    judge, tally = Judge(small, tmp_path / "copy"), Tally()
    assert judge.right == Judge(whole, tmp_path / "copy").right
    for each in flips_in_image(small, tmp_path / "looked", FLIPS, Random(8)):
        tally.note(each, judge.outcome(each))
    assert tally.faults == []


async def test_compacting_makes_no_damaged_row_whole(whole: Path, tmp_path: Path) -> None:
    """SQLite writes every row again; what was damaged must not get a seal that fits."""
    place = (whole / DATABASE).read_bytes().index(b'{"n": 1}')
    shutil.copytree(whole, tmp_path / "damaged")
    damage.flip(DATABASE, place + 2, 0)(tmp_path / "damaged")
    small = compact_copy(tmp_path / "damaged", tmp_path / "compacted")
    problems = (await check_store(small)).problems
    assert any("damaged in the table 'webhook_letters'" in each for each in problems), problems


def test_a_log_that_is_deleted_cut_or_damaged_is_noticed_or_loses_nothing(killed: Path, tmp_path: Path) -> None:
    judge, tally = Judge(killed, tmp_path / "copy"), Tally()
    size = (killed / damage.LOG).stat().st_size
    for each in damage_of_log(size, LOGS // 2, LOGS // 2, Random(7)):
        tally.note(each, judge.outcome(each))
    assert tally.faults == []
    assert tally.total(damage.OPENING) > LOGS // 2


def test_a_store_without_a_mark_is_found(killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: whoever opens the folder asks no mark."""
    judge = Judge(killed, tmp_path / "copy")
    monkeypatch.setattr(data_folder, "shortfall_in_database", lambda *_: StoreProgress())
    gone = next(damage_of_log(1, 0, 0, Random(1)))
    assert judge.outcome(gone) == HIDDEN


def test_a_doctor_who_looks_at_no_seal_is_found(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a damaged letter of a webhook is not given back, and nobody says so."""
    judge = Judge(whole, tmp_path / "copy")
    place = (whole / DATABASE).read_bytes().index(b'{"n": 1}')
    flipped = Damage("webhook_letters", "", damage.flip(DATABASE, place + 2, 0))
    assert judge.outcome(flipped) == damage.DOCTOR
    monkeypatch.setattr(sealed_tables, "damage_in_sealed_tables", lambda _: [])
    assert judge.outcome(flipped) == HIDDEN
