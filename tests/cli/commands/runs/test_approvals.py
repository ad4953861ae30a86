"""`interlock runs approvals`: answers that hold are listed and revoked, and who revoked them is kept."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [pay]}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""
TOOLS = """\
def pay(amount: int) -> str:
    \"\"\"Pays.\"\"\"
    return f"paid {amount}"
"""
TOML = """\
[tools]
modules = ["approved_till"]
[approvals]
ask = ["pay:amount > 10"]
"""
CALL = {"tool_calls": [{"name": "pay", "arguments": {"amount": 24}}]}


class Desk:
    """A folder with a crew whose agent pays 24, and the commands in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files = {"crew.yaml": CREW, "approved_till.py": TOOLS, "interlock.toml": TOML}
        files["script.yaml"] = json.dumps({"replies": {"a": [CALL, "so [END]"]}})
        for name, text in files.items():
            (folder / name).write_text(text, "utf-8")
        monkeypatch.chdir(folder)
        monkeypatch.delitem(sys.modules, "approved_till", raising=False)  # of the folder of another test
        monkeypatch.setenv("LOGNAME", "ann")
        monkeypatch.delenv("INTERLOCK_DATA", raising=False)

    def said(self, *words: str) -> Result:
        return CliRunner().invoke(interlock, words)

    def approve(self, answer: str = "always") -> str:
        """The id of the approval that an answer to a new run gives."""
        started = self.said("run", "crew.yaml", "go", "--script", "script.yaml", "--json")
        assert started.exit_code == 3, started.output
        (question,) = self.said("runs", "questions", "--json").stdout.splitlines()
        given = self.said("runs", "answer", json.loads(question)["id"], answer, "--script", "script.yaml", "--json")
        assert given.exit_code == 0, given.output
        return str(self.listed()[0]["id"])

    def listed(self, *words: str) -> list[dict[str, object]]:
        return list(map(json.loads, self.said("runs", "approvals", "list", "--json", *words).stdout.splitlines()))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def test_an_approval_is_listed_with_who_gave_it_and_for_what(desk: Desk) -> None:
    assert desk.said("runs", "approvals", "list").stdout == "no approvals hold for later calls\n"
    assert desk.said("runs", "approvals", "list", "--revoked").stdout == "no approval was revoked\n"
    id_ = desk.approve()
    line = f"{id_}  pay:amount > 10  always, crew desk, given by user:ann at "
    assert desk.said("runs", "approvals", "list").stdout.startswith(line)
    (given,) = desk.listed()
    assert (given["tool"], given["pattern"], given["run"], given["by"]) == ("pay", "pay:amount > 10", "", "user:ann")
    assert "revoked_by" not in given


def test_an_approval_for_a_run_names_the_run(desk: Desk) -> None:
    desk.approve("for this run")
    (given,) = desk.listed()
    assert given["run"] == given["asked_in"] != ""
    assert f"for run {given['run']}, crew desk" in desk.said("runs", "approvals", "list").stdout


def test_who_revoked_an_approval_and_when_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = desk.approve()
    monkeypatch.setenv("LOGNAME", "bob")
    assert desk.said("runs", "approvals", "revoke", id_).stdout == f"{id_} is revoked\n"
    assert desk.said("runs", "approvals", "list").stdout == (
        "no approvals hold for later calls\n1 revoked; --revoked lists them\n"
    )
    assert desk.listed() == []
    (ended,) = desk.listed("--revoked")
    assert (ended["id"], ended["by"], ended["revoked_by"]) == (id_, "user:ann", "user:bob")
    assert int(str(ended["revoked_at"])) >= int(str(ended["at"]))
    assert ", revoked by user:bob at 2" in desk.said("runs", "approvals", "list", "--revoked").stdout


def test_revoking_prints_the_revoked_approval_as_json(desk: Desk) -> None:
    id_ = desk.approve()
    ended = desk.said("runs", "approvals", "revoke", id_, "--json")
    assert [json.loads(ended.stdout)] == desk.listed("--revoked")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("revoke", "ap-none"), "no approval 'ap-none' holds; 'interlock runs approvals list' shows those that do"),
        (("revoke", ""), "no approval '' holds"),
        (("revoke",), "Missing argument 'ID'"),
        (("revoke", "a", "b"), "unexpected extra argument"),
        (("list", "extra"), "unexpected extra argument"),
        (("end", "ap-1"), "No such command 'end'"),
    ],
)
def test_bad_input_ends_with_2_and_a_line_that_says_what_now(desk: Desk, words: tuple[str, ...], says: str) -> None:
    ended = desk.said("runs", "approvals", *words)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


def test_revoking_twice_is_refused_and_the_first_one_stays_in_the_record(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = desk.approve()
    desk.said("runs", "approvals", "revoke", id_)
    monkeypatch.setenv("LOGNAME", "eve")
    again = desk.said("runs", "approvals", "revoke", id_)
    assert (again.exit_code, f"no approval '{id_}' holds" in again.stderr) == (2, True)
    assert [each["revoked_by"] for each in desk.listed("--revoked")] == ["user:ann"]


def test_an_answer_that_names_other_calls_is_asked_again_with_the_reason(desk: Desk) -> None:
    desk.said("run", "crew.yaml", "go", "--script", "script.yaml", "--json")
    (question,) = desk.said("runs", "questions", "--json").stdout.splitlines()
    for answer, fault in (
        ("always: send", "the pattern must begin with 'pay', the tool of this call"),
        ("always: pay:amount > 100", "the pattern 'pay:amount > 100' does not fit this call"),
        ("maybe", "that was neither yes nor no nor a JSON object"),
    ):
        desk.said("runs", "answer", json.loads(question)["id"], answer, "--script", "script.yaml")
        (question,) = desk.said("runs", "questions", "--json").stdout.splitlines()
        assert json.loads(question)["fault"] == fault
    assert desk.listed() == []
