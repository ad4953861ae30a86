"""The crew that a command is given."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock

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
