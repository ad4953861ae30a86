"""[approvals] of interlock.toml: what is read, and what is refused with its line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock import UsageError
from interlock.adapters.config.host_file import read_settings
from interlock.cli.main import interlock


def file_with(folder: Path, section: str) -> Path:
    (folder / "interlock.toml").write_text(f'durability = "full"\n[approvals]\n{section}\n', "utf-8")
    return folder / "interlock.toml"


def test_rules_and_the_deadline_are_read(tmp_path: Path) -> None:
    section = 'deny = ["a", "b:n > 5"]\nask = [\n  \'c:to = "x"\',\n]\nallow = ["d*"]\ndeadline_seconds = 1.5'
    found = read_settings(file_with(tmp_path, section)).approvals
    lists = (found.rules.deny, found.rules.ask, found.rules.allow)
    assert [[pattern.text for pattern in each] for each in lists] == [["a", "b:n > 5"], ['c:to = "x"'], ["d*"]]
    assert found.deadline_ms == 1_500
    assert found.lines == {"a": 3, "b:n > 5": 3, 'c:to = "x"': 5, "d*": 7}


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ('ask = [\n  "pay",\n  "pay:n == 5",\n]', "interlock.toml:5: approvals.ask: 'pay:n == 5'"),
        ('deny = [""]', "interlock.toml:3: approvals.deny"),
        ('deny = "pay"', "approvals.deny must be a list"),
        ("deny = [5]", "must be text in quotes"),
        ('denny = ["pay"]', "unknown key 'denny'"),
        ("deadline_seconds = 0", "must be a number above 0"),
        ("deadline_seconds = -1", "must be a number above 0"),
        ("deadline_seconds = nan", "must be a number above 0"),
        ("deadline_seconds = 1e9", "must be a number above 0"),
    ],
)
def test_a_bad_section_is_refused_with_its_place(tmp_path: Path, section: str, fault: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_settings(file_with(tmp_path, section))
    assert fault in str(refused.value)


def test_a_bad_rule_ends_a_command_with_2(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text('version: "2.0"\nname: x\nagents: [{id: a, is_terminal: true}]\n', "utf-8")
    config = file_with(tmp_path, 'deny = ["pay:"]')
    words = ["run", str(tmp_path / "crew.yaml"), "go", "--config", str(config), "--data", str(tmp_path / "data")]
    ended = CliRunner().invoke(interlock, words)
    assert ended.exit_code == 2
    assert "interlock.toml:3: approvals.deny" in ended.stderr
