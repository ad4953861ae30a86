"""Ratchets on names, sizes and words: each limit only ever falls. `python -m docs.metrics` prints the numbers."""

import ast
import csv
from pathlib import Path

import pytest

from docs import metrics
from docs.metrics import Module

FOLDER_MODULES_MAX = 20
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
DIALECT_MAX = 22
# Distinct functions and files between a model's reply and the next model call, for a plain handoff in memory.
REPLY_FUNCTIONS_MAX = 77
REPLY_FILES_MAX = 24
# Calls of Python functions on it, each counted as often as it is made: what a step costs (issue 20).
REPLY_CALLS_MAX = 86
# Of these, in the engine: the main road from a reply to the next request for a model call.
ROAD_FUNCTIONS_MAX = 36
ROAD_FILES_MAX = 9


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return metrics.modules_in(metrics.SOURCE)


def module_of(text: str, path: str = "somewhere/thing.py") -> Module:
    return Module(path, text, ast.parse(text))


def test_no_function_is_named_by_a_participle(modules: list[Module]) -> None:
    assert metrics.participle_names(modules) == []


def test_no_public_class_name_stands_in_two_modules(modules: list[Module]) -> None:
    assert metrics.duplicate_classes(modules) == {}


def test_folders_and_files_stay_small(modules: list[Module]) -> None:
    folders = metrics.modules_by_folder(modules)
    assert {folder: count for folder, count in folders.items() if count > FOLDER_MODULES_MAX} == {}
    assert {each.path: metrics.lines_of(each) for each in modules if metrics.lines_of(each) > FILE_LINES_MAX} == {}
    assert metrics.longest_function(modules) <= FUNCTION_LINES_MAX


def test_the_dialect_only_becomes_less(modules: list[Module]) -> None:
    found = metrics.dialect_in(modules)
    assert found.total() <= DIALECT_MAX, found.most_common(20)


async def test_one_reply_passes_no_more_functions_and_files_than_before() -> None:
    path = await metrics.reply_path()
    assert len(path.functions) > 20, "the recording saw the reply"
    assert len(path.functions) <= REPLY_FUNCTIONS_MAX
    assert len(path.files) <= REPLY_FILES_MAX
    assert len(path.functions) <= path.calls <= REPLY_CALLS_MAX
    road = path.within("engine")
    assert len(road.functions) <= ROAD_FUNCTIONS_MAX
    assert len(road.files) <= ROAD_FILES_MAX


def test_the_guards_find_what_they_look_for() -> None:
    bad = module_of(
        "class Told: ...\ndef taken(): 'nobody goes on'\ndef _marked_up(): ...\ndef feed(): ...\ndef _watching(): ...\n"
    )
    assert [name.partition(" ")[2] for name in metrics.participle_names([bad])] == ["taken", "_marked_up", "_watching"]
    assert metrics.duplicate_classes([bad, module_of("class Told: ...", "b.py")]) == {"Told": [bad.path, "b.py"]}
    assert metrics.dialect_in([bad]) == {bad.path: 2}
    assert metrics.longest_function([module_of("def long():\n" + "    x = 1\n" * 61)]) == 62


def test_the_table_of_renames_names_what_exists() -> None:
    """docs/renames.tsv is how older documents are read: its new names must be found."""
    root = Path(__file__).parent.parent
    with (root / "docs" / "renames.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert {row["kind"] for row in rows} == {"file", "symbol"}
    assert [row["new"] for row in rows if row["kind"] == "file" and not (root / row["new"]).exists()] == []
    symbols = [row for row in rows if row["kind"] == "symbol"]
    assert sum(row["new"] != "(gone)" for row in symbols) > 2_000
    defined = set(metrics.symbols_in(root / "src")) | set(metrics.symbols_in(root / "tests"))
    assert [
        row["new"] for row in symbols if row["new"] != "(gone)" and row["new"].rpartition(".")[2] not in defined
    ] == []


def test_no_status_in_the_runtime_is_a_bare_string(modules: list[Module]) -> None:
    """HOUSE.md, cut 4: a status is a member of its enum, compared or given as one."""
    assert metrics.bare_statuses([each for each in modules if each.path.startswith("runtime/")]) == []
    bad = module_of('x.status == "running"\nRow(status="new")\nx.status is RunStatus.NEW\nRow(status=str(NEW))\n')
    assert metrics.bare_statuses([bad]) == ["somewhere/thing.py:1", "somewhere/thing.py:2"]
