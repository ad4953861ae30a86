"""Golden journals: runs of earlier days replay as they were, for ever. `tests/golden/README.md` says what to do."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from click.testing import CliRunner

from interlock.adapters.files import run_files
from interlock.adapters.files.run_files import RunFile
from interlock.cli.main import interlock
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import (
    BranchFinished,
    Decided,
    DerivedEvent,
    Event,
    GroupStarted,
    IncomingEvent,
    ModelCalled,
    ModelFailed,
    Nudged,
    Reserved,
    RunFinished,
    RunPaused,
    RunStarted,
    ToolReturned,
    Warned,
    WentStale,
)
from interlock.engine.routing.candidates import Verb
from interlock.engine.run import RULES
from interlock.ports import Record
from interlock.runtime.runner import replay_run, row_of
from tests.golden import make

GOLDEN = Path(__file__).parent / "golden"
JOURNALS = sorted(GOLDEN.glob("*.journal"))
# Of one journal. There are as many as there are kinds of facts and reasons, so that the sum grows with the engine.
BYTES_MAX = 16_000


def opened(file: Path) -> tuple[RunFile, CrewDefinition, Sequence[Record]]:
    found = run_files.decode_run_file(file.read_bytes(), file.name)
    return found, msgspec.json.decode(found.crew, type=CrewDefinition), run_files.unseal_records(found)


@pytest.mark.parametrize("file", JOURNALS, ids=lambda file: file.stem)
def test_a_journal_leads_to_the_facts_and_the_state_it_led_to(file: Path) -> None:
    found, crew, records = opened(file)
    run = replay_run(crew, found.row.run, records)
    assert row_of(run, found.row, found.row.updated_at) == found.row
    assert f"{make.sum_of(run.state)}\n" == file.with_suffix(".sha256").read_text("utf-8")


@pytest.mark.parametrize("file", JOURNALS, ids=lambda file: file.stem)
def test_a_journal_is_taken_in_shown_explained_and_replayed_by_the_commands(file: Path, tmp_path: Path) -> None:
    found, _, records = opened(file)
    row, kinds = found.row, {type(event) for record in records for event in record.events}
    assert said(tmp_path, "import", str(file)) == f"imported {row.run}, {row.status}\n"
    assert said(tmp_path, "show", row.run).startswith(f"{row.run} {row.status}: ")
    assert bool(said(tmp_path, "explain", row.run)) == bool(kinds & {Decided, RunPaused, RunFinished})
    assert said(tmp_path, "replay", row.run).startswith(f"{row.seq} events replayed, the same decisions; {row.status}")
    assert said(tmp_path, "export", row.run).splitlines()[1:-1] == file.read_text("utf-8").splitlines()[1:-1]


def said(data: Path, *words: str) -> str:
    result = CliRunner().invoke(interlock, ["runs", *words, "--data", str(data)])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


# What the journals hold


def events() -> Iterator[tuple[CrewDefinition, Event]]:
    for file in JOURNALS:
        _, crew, records = opened(file)
        for record in records:
            yield from ((crew, event) for event in record.events)


def told_of(kind: type[Any], *fields: str) -> set[Any]:
    """The values that events of a kind have, each once."""
    found = [event for _, event in events() if isinstance(event, kind)]
    values = {tuple(getattr(event, field) for field in fields) for event in found}
    return {value[0] for value in values} if len(fields) == 1 else values


def test_every_type_of_event_is_there() -> None:
    assert {type(event) for _, event in events()} == {*get_args(IncomingEvent), *get_args(DerivedEvent)}


def test_every_verb_is_there() -> None:
    decided = {event.verb for _, event in events() if isinstance(event, Decided)}
    told = {each.verb for _, event in events() if isinstance(event, Decided) for each in event.candidates}
    assert decided | told == {*Verb, None}


def test_crews_of_both_versions_and_groups_of_both_kinds_are_there() -> None:
    assert {crew.version for crew, _ in events()} == {"1.0", "2.0"}
    groups = {crew.groups[event.group].wait_for_all for crew, event in events() if isinstance(event, GroupStarted)}
    assert groups == {True, False}
    assert told_of(BranchFinished, "status") == {"ok", "failed", "late", "cancelled"}


def test_every_reason_to_wait_to_ask_again_and_to_end_is_there() -> None:
    waits = {reason.partition(":")[0] for reason in told_of(RunPaused, "reason")}
    asked = {"signal", "held", "external", "wait_for_signal", "tool_unknown_outcome", "question", "approval", "hook"}
    assert waits == {*asked, "parked"}
    assert told_of(Nudged, "because") == {"no_signal", "conflict"}
    assert told_of(RunFinished, "status") == {"completed", "failed", "stopped", "cancelled"}
    assert len({reason.partition(":")[0] for reason in told_of(RunFinished, "reason")}) >= 15


def test_tools_budgets_and_late_answers_are_there_with_every_outcome() -> None:
    assert told_of(ToolReturned, "ok") == {True, False}
    granted = {(not refused, then) for refused, then in told_of(Reserved, "refused", "then")}
    assert granted == {(True, ""), (False, "stop"), (False, "wait")}
    assert any(told_of(Reserved, "alerts"))
    assert told_of(Warned, "code") >= {"budget-alert", "budget-wait", "slow-call", "timeout-near"}
    assert told_of(WentStale, "about") >= {"model.replied", "tool.returned", "tool.lost", "timer.fired", "run.resumed"}


def test_failures_that_are_tried_again_that_are_final_and_that_trim_the_conversation_are_there() -> None:
    assert told_of(ModelFailed, "retry", "too_long") == {(True, False), (False, False), (False, True)}
    found = [event for _, event in events()]
    trimmed = [n for n, event in enumerate(found) if isinstance(event, ModelFailed) and event.too_long]
    assert any(isinstance(found[n + 1], ModelCalled) for n in trimmed)


def test_a_run_that_continues_another_and_one_that_forks_another_are_there() -> None:
    runs = {row.run: row.continues for row in (opened(file)[0].row for file in JOURNALS)}
    going_on = {run: before for run, before in runs.items() if before}
    assert set(going_on.values()) <= set(runs)
    assert sorted(run.partition("_")[0] == "forked" for run in going_on) == [False, True]


def test_every_number_of_the_rules_has_journals() -> None:
    assert told_of(RunStarted, "rules") == set(range(1, RULES + 1))


# The corpus


def test_every_journal_has_its_sum_and_all_are_small() -> None:
    assert {file.stem for file in GOLDEN.glob("*.sha256")} == {file.stem for file in JOURNALS}
    assert max(file.stat().st_size for file in JOURNALS) < BYTES_MAX


def test_what_is_there_is_not_written_again_and_what_is_missing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "GOLDEN", tmp_path)
    monkeypatch.setattr(make, "STORIES", ("retries", "tool_bounds"))
    monkeypatch.setattr(make, "simulations", lambda: ())
    old = (GOLDEN / "an_unknown_outcome_may_fail_the_run.journal").read_bytes()
    (tmp_path / "retries.journal").write_bytes(old)
    (tmp_path / "retries.sha256").write_text("as it was", "utf-8")
    make.main()
    assert (tmp_path / "retries.journal").read_bytes() == old
    assert (tmp_path / "retries.sha256").read_text("utf-8") == "as it was"
    assert (tmp_path / "tool_bounds.journal").exists()
    assert len((tmp_path / "tool_bounds.sha256").read_text("utf-8")) == 65
