"""The crew that a command is given."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.value_types.output_types import OutputType
from interlock.cli.crew_argument import output_types_of, tools_of
from interlock.cli.main import interlock
from interlock.errors import UsageError

BROKEN = """\
version: "2.0"
name: triage
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[NEXT]", target: gone}]}}
"""


def test_a_crew_with_errors_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crew.yaml").write_text(BROKEN, "utf-8")
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(interlock, ["run", ".", "go"])
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[-1] == "triage has errors; run 'interlock check .' for all of them"


def test_crews_that_are_served_together_may_share_a_method() -> None:
    class Shop:
        def find(self, order: str) -> str:
            return order

    shop, other = Shop(), Shop()
    assert len(tools_of([{"find": PythonTool(shop.find)}, {"find": PythonTool(shop.find)}])) == 1
    with pytest.raises(UsageError, match="two crews have different functions for the tool 'find'"):
        tools_of([{"find": PythonTool(shop.find)}, {"find": PythonTool(other.find)}])


def test_two_crews_may_share_a_type_but_not_differ_in_one() -> None:
    one, other = OutputType(list[int]), OutputType(list[str])
    assert list(output_types_of([{"desk": one}, {"desk": OutputType(list[int]), "shop": other}])) == ["desk", "shop"]
    with pytest.raises(UsageError, match="two crews give different types for the output of 'desk'"):
        output_types_of([{"desk": one}, {"desk": other}])
