"""`docs/faults.yaml`: every fault that we know of is shown by a test that exists, or says whose business it is."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
ROWS_OF = {"R": 12, "A": 14, "B": 5, "C": 8, "D": 13, "E": 8, "F": 15}


def rows() -> list[dict[str, Any]]:
    register = yaml.safe_load((ROOT / "docs" / "faults.yaml").read_text("utf-8"))
    return [row for section in register.values() for row in section]


def is_there(place: str) -> bool:
    """A test as file::name, or a scenario's file."""
    file, _, name = place.partition("::")
    if not name:
        return file.startswith("tests/engine/scenarios/") and (ROOT / file).is_file()
    text = (ROOT / file).read_text("utf-8") if (ROOT / file).is_file() else ""
    return re.search(rf"^(async )?def {name}\(", text, re.MULTILINE) is not None


def test_every_row_is_there_once_and_in_order() -> None:
    assert [row["id"] for row in rows()] == [f"{kind}{n}" for kind, most in ROWS_OF.items() for n in range(1, most + 1)]


def test_every_test_that_is_named_exists() -> None:
    named = [place for row in rows() for place in row.get("shown", ())]
    assert [place for place in named if not is_there(place)] == []
    assert not is_there("tests/test_golden.py::test_nothing")
    assert not is_there("tests/nowhere.py::test_nothing")


def test_every_row_is_shown_or_says_why_not() -> None:
    for row in rows():
        assert set(row) <= {"id", "fault", "shown", "later", "without"}, row
        assert row["fault"], row
        assert row.get("shown") or row.get("later"), row
        assert re.match(r"(issue \d|distributed mode): \w", row.get("later", "issue 0: none")), row


def test_nothing_is_left_to_an_issue_that_is_done() -> None:
    assert [row["id"] for row in rows() if re.match(r"issue [1-4]:", row.get("later", ""))] == []


def test_what_the_engine_and_the_store_are_for_is_shown_now_and_not_later() -> None:
    """Rows that belong to parts that are there already."""
    owed = ["D1", "D2", "D3", "D9", "D11", "B1", "B5", "F5"]
    owed += [*(f"A{n}" for n in range(1, 15)), *(f"C{n}" for n in range(1, 9))]
    assert [row["id"] for row in rows() if row["id"] in owed and not row.get("shown")] == []


def test_the_core_has_seven_direct_dependencies_at_most_and_all_are_locked_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[^a-z0-9-]", each.lower())[0] for each in project["dependencies"]}
    assert 0 < len(names) <= 7  # the seventh, jsonschema-rs, loads only where a crew has a typed result
    locked = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    assert names <= {package["name"] for package in locked}
    files = [file for each in locked for file in (*each.get("wheels", ()), *filter(None, [each.get("sdist")]))]
    assert len(files) > len(names)
    assert [file["url"] for file in files if not file["hash"].startswith("sha256:")] == []
