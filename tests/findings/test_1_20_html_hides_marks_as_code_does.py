"""Finding 1.20: each kind of doubtful spelling is decided, written down and tested; old journals keep their reading."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock
from interlock.compose.crews import load_definition
from interlock.engine.events import ModelReplied, RunStarted
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.engine.routing.stream import ReplyScanner
from interlock.engine.run import RULES, Run
from tests.findings.doubtful_spellings import HIDE, STEER

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: b}]
routing:
  signals: {a: [{signal: "[END]"}, {signal: "[NEXT]", target: b}], b: [{signal: "[END]"}]}
settings: {on_no_signal: fail, signal_position: anywhere}
"""
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "signals.md"


def cases(kinds: dict[str, list[str]]) -> list[str]:
    found = [spelling.replace("@", "[END]") for spellings in kinds.values() for spelling in spellings]
    assert found
    return found


@cache
def table() -> RoutingTable:
    with TemporaryDirectory() as folder:
        (Path(folder) / "crew.yaml").write_text(CREW, "utf-8")
        return RoutingTable(load_definition(folder))


def steers(text: str) -> bool:
    return table().decide(OwnReply("a", text)).signal == "[END]"


def test_there_are_enough_of_them() -> None:
    spellings = [*cases(STEER), *cases(HIDE)]
    assert len(set(spellings)) == len(spellings) >= 144


def test_what_is_decided_to_steer_steers() -> None:
    assert [text for text in cases(STEER) if not steers(text)] == []


def test_what_is_decided_to_be_hidden_does_not_steer() -> None:
    assert [text for text in cases(HIDE) if steers(text)] == []


def test_what_hides_one_mark_hides_none_that_is_said_before_or_after_it() -> None:
    left_open = ("```\n", "~~~\n")
    for text in cases(HIDE):
        assert table().decide(OwnReply("a", f"[NEXT]\n\n{text}")).signal == "[NEXT]", text
        if not text.startswith(left_open) or text.endswith(("```", "~~~")):
            assert table().decide(OwnReply("a", f"{text}\n\n[NEXT]")).signal == "[NEXT]", text


def test_any_chunking_gives_the_decision_and_the_cut_of_the_whole() -> None:
    for text in [*cases(STEER), *cases(HIDE)]:
        said = f"{text}\n[NEXT]\nmore"
        whole = heard([said])
        for size in (1, 2, 3, 7):
            pieces = [said[at : at + size] for at in range(0, len(said), size)]
            listener = heard(pieces)
            assert (listener.cut, listener.text, listener.decision) == (whole.cut, whole.text, whole.decision), text
        assert whole.decision == table().decide(OwnReply("a", whole.text)), text


def heard(pieces: list[str]) -> ReplyScanner:
    listener = ReplyScanner(table(), "a")
    for piece in pieces:
        if listener.feed(piece):
            break
    return listener


@pytest.mark.parametrize(("rules", "status"), [(2, "completed"), (RULES, "failed")])
def test_a_journal_is_read_by_the_rules_it_was_written_under(rules: int, status: str) -> None:
    run = Run(table().crew, "r", table=table())
    run.apply(RunStarted(crew="story", input="go", rules=rules))
    assert run.state.turn is not None
    run.apply(ModelReplied(call=run.state.turn.call, agent="a", text="<!-- [END] -->"))
    assert run.state.status == status
    assert Run.restore(run.crew, run.snapshot()).table.reading == min(rules, 3)


def test_the_guide_names_every_kind() -> None:
    guide = GUIDE.read_text("utf-8")
    assert [kind for kind in (*STEER, *HIDE) if kind not in guide] == []


@pytest.mark.parametrize(("text", "decision"), [("<!-- [END] -->", "it carries no signal"), ("<b>[END]</b>", "[END]")])
def test_the_command_explains_it_so(text: str, decision: str, tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    told = CliRunner().invoke(interlock, ["explain", str(tmp_path), "--agent", "a", "--reply", text])
    assert decision in told.output, told.output
