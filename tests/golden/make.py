"""Writes the golden journals that are not there yet: `python -m tests.golden.make`.

Rule 1: what is there is never written again. A journal that no longer replays is a broken promise, not an old file.
Rule 2: a journal is an exported run, with its crew; beside it is the sum of the state it must lead to.
Rule 3: stories are told to the engine alone; simulations go through the whole runtime, with faults.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.files import run_files
from interlock.adapters.files.run_files import RunFile
from interlock.adapters.store_rules.record_format import seal_chain
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.events import Event, IncomingEvent, RunStarted
from interlock.engine.run import Run, Step
from interlock.engine.state import RunState
from interlock.messages.mailbox import as_plain_messages
from interlock.ports import Record, RunRow
from interlock.runtime.runner import replay_run, row_of
from interlock.testing import Simulation, simulate
from tests.engine.test_scenarios import SCENARIOS, Story, steps

GOLDEN = Path(__file__).parent

# When these runs began, as far as anybody will know.
BEGAN_MS = 1_790_000_000_000

# Chosen so that every kind of fact, and every reason for one, is among them.
STORIES = (
    "the_host_decides_about_tool_calls",
    "a_bound_of_the_caller_reached_in_a_child_stops_the_tree",
    "a_child_sees_as_much_as_its_caller_says",
    "a_broadcast_gives_a_side_turn_after_the_current_turn",
    "a_contradiction_fails_the_run_where_the_crew_says_so",
    "a_conversation_within_the_window_that_is_refused_as_too_long_gets_shorter",
    "a_group_may_go_on_without_its_sub_crew",
    "a_group_without_a_success_fails_the_run",
    "a_field_that_nothing_has_filled_is_a_warning",
    "a_question_has_a_deadline_and_a_default",
    "a_question_inside_a_sub_crew_stops_the_clock_of_its_task",
    "a_question_may_ask_for_a_date",
    "a_report_is_judged_by_the_parents_model",
    "a_sub_crew_that_is_too_late_is_stopped",
    "a_sub_crew_whose_report_is_not_accepted_runs_again",
    "a_second_task_for_an_agent_at_work_is_received",
    "a_tool_that_needs_approval_asks_a_person",
    "an_approval_has_a_deadline_that_denies",
    "an_approval_may_hold_for_later_calls",
    "hooks_replace_refuse_and_ask",
    "what_a_withheld_result_wrote_waits_for_the_person",
    "a_task_waits_as_long_as_its_child_waits_for_a_person",
    "delegating_a_task_and_getting_its_report",
    "who_is_given_a_task_aside_announces_with_its_hops",
    "a_held_group_starts_without_words_too",
    "a_limit_of_a_window_may_be_waited_for",
    "a_message_of_the_host_is_received_and_answered",
    "a_limit_of_a_window_stops_the_run",
    "a_deprecated_signal_is_warned_about",
    "a_parked_run_redoes_only_what_was_in_progress",
    "a_limit_that_only_warns_stops_nothing",
    "a_pause_takes_no_working_time",
    "a_question_of_a_parked_run_stays_answerable",
    "a_run_that_cannot_be_driven_ends_with_a_reason",
    "a_run_is_paused_when_all_its_children_wait",
    "a_run_that_was_stopped_can_be_continued_too",
    "a_tool_that_is_asked_about_may_still_answer",
    "a_yes_may_be_written_in_capitals",
    "agents_share_a_memory",
    "an_acknowledgement_is_noted_and_steers_nothing",
    "an_agent_sees_its_own_words_as_its_own",
    "an_external_answer_is_written_by_external",
    "an_unknown_outcome_may_fail_the_run",
    "another_agents_signals_do_not_steer",
    "budgets_of_calls_stop_the_run",
    "budgets_of_tokens_and_cost_stop_the_run",
    "a_call_that_was_lost_with_its_process_counts_as_its_estimate",
    "calls_that_are_given_up_have_an_ending",
    "cancelling_a_paused_run",
    "first_success_wins",
    "group_partial_results",
    "mail_is_shown_with_the_next_turn_and_struck_off",
    "in_a_2_0_crew_only_the_last_visible_line_steers",
    "in_tool_mode_marks_in_text_are_ignored",
    "loop_detection",
    "marks_on_lines_of_their_own",
    "marks_that_do_not_steer_are_named_with_their_reason",
    "max_rounds_and_max_occurs",
    "memory_of_children_comes_back_in_file_order",
    "nudges_for_conflict_and_for_no_signal_share_one_allowance",
    "outputs_of_tools_come_in_the_order_of_the_calls",
    "reasoning_stays_in_the_tool_loop_of_its_turn",
    "recognition_is_tolerant",
    "retries",
    "tells_all_fire_whatever_wins",
    "the_last_reply_is_the_output_when_max_rounds_stops_a_nudge",
    "tool_bounds",
    "what_is_closed_answers_in_vain",
    "what_is_no_departure_counts_no_handoff",
    "with_next_agent_members_marks_are_only_noted",
    "without_a_signal_and_a_way_on_a_run_may_complete",
    "without_a_signal_the_default_comes_before_handoff_targets",
    "without_a_signal_waiting_comes_first",
    "members_start_from_the_same_history_and_do_not_see_each_other",
    "several_sub_crews_are_called_at_once",
)

# A crew with a budget that warns, a tool and a group, as no story has them together.
SHED = """\
version: "2.0"
name: shed
entry_point: lead
agents:
  - {id: lead, tools: [saw], cost_limits: {max_tokens_per_day: 400, alert_threshold: 0.2, block_on_cost_exceed: false}}
  - {id: left}
  - {id: right}
routing:
  signals:
    lead: [{signal: "[FAN]", type: parallel, target: both}, {signal: "[ASK]", type: pause}, {signal: "[END]"}]
  parallel_groups:
    both: {agents: [left, right], next_agent: lead}
"""

# Crews by their folder, or as text, each with the seed of its run.
SIMULATIONS: tuple[tuple[str, int], ...] = (
    ("examples/giao-vien", 2),
    ("examples/quiz-exam", 2),
    ("src/interlock/templates/support", 1),
    (SHED, 2),
)

# A simulation that is gone on from in another run, in the middle.
FORKED = ("examples/giao-vien", 2)


class Told(NamedTuple):
    """A run as it was told."""

    crew: CrewDefinition
    run: str
    records: tuple[Record, ...]
    continues: str


class RecordedStory(Story):
    """A story whose runs can be kept: each under an id of its own, with its crew."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.runs = name, list[tuple[CrewDefinition, str, str, list[tuple[Event, ...]]]]()
        super().__init__(folder)

    def begin(self, run: str) -> None:
        """A run that continues another one is called after it."""
        name = f"{self.name}-{len(self.runs) + 1}" if self.runs else self.name
        continues = run.removesuffix("+") if run.endswith("+") else ""
        self.runs.append((self.crew, name, continues, []))
        super().begin(name)

    def hear(self, event: IncomingEvent) -> Step:
        crew, _, _, transitions = self.runs[-1]
        if isinstance(event, RunStarted):
            event = msgspec.structs.replace(event, crew_sha=sha256(body_of(crew)).hexdigest())
        step = super().hear(event)
        transitions.append((self.events[-1], *step.facts))
        return step

    def told(self) -> Iterator[Told]:
        for crew, run, continues, transitions in self.runs:
            if transitions:
                yield Told(crew, run, records_of(transitions), continues)


def records_of(transitions: Sequence[tuple[Event, ...]]) -> tuple[Record, ...]:
    records: list[Record] = []
    for events in transitions:
        seq = records[-1].last_seq + 1 if records else 1
        records.append(Record(seq=seq, at=BEGAN_MS + 1_000 * seq, events=events))
    return tuple(records)


def stories() -> Iterator[Told]:
    for name in STORIES:
        with tempfile.TemporaryDirectory() as scratch:
            story = RecordedStory(name, Path(scratch) / "crew")
            for command, _ in steps((SCENARIOS / f"{name}.txt").read_text("utf-8")):
                story.tell(command)
            yield from story.told()


def simulations() -> Iterator[Told]:
    for given, seed in SIMULATIONS:
        crew = crew_of(given)
        yield renamed(simulate(crew, seed=seed), f"simulated_{crew.name}_{seed}")
    first = simulate(crew_of(FORKED[0]), seed=FORKED[1])
    place = first.fork_places[len(first.fork_places) // 2]
    fork = simulate(first.crew, seed=FORKED[1] + 1, fork=(first, place))
    yield renamed(fork, f"forked_{first.crew.name}_{FORKED[1]}", f"simulated_{first.crew.name}_{FORKED[1]}")


def crew_of(given: str) -> CrewDefinition:
    with tempfile.TemporaryDirectory() as scratch:
        if "\n" in given:
            (Path(scratch) / "crew.yaml").write_text(given, "utf-8")
        loaded = read_crew(Path(scratch) if "\n" in given else Path(given), host=Host(tools=("saw",)))
    assert loaded.crew is not None
    assert loaded.is_sound, loaded.problems
    return loaded.crew


def renamed(done: Simulation, name: str, continues: str = "") -> Told:
    """Under the name of its file, and as a run of a stored crew."""
    crew, run, transitions = done.crew, Run(done.crew, name), []
    for record in done.records:
        incoming = msgspec.structs.replace(record.events[0], **_keys(record.events[0], done.run, name, crew))
        transitions.append((incoming, *run.apply(incoming).facts))  # type: ignore[arg-type]
    return Told(crew, name, records_of(transitions), continues)


def _keys(event: Event, old: str, new: str, crew: CrewDefinition) -> dict[str, str]:
    if isinstance(event, RunStarted):
        return {"crew_sha": sha256(body_of(crew)).hexdigest()}
    token = getattr(event, "token", "")
    return {"token": new + token.removeprefix(old)} if token else {}


def body_of(crew: CrewDefinition) -> bytes:
    return msgspec.json.encode(crew, order="deterministic")


def written(told: Told) -> bytes:
    body, at = body_of(told.crew), told.records[-1].at
    row = RunRow(
        run=told.run,
        crew=told.crew.name,
        crew_sha=sha256(body).hexdigest(),
        status="new",
        created_at=told.records[0].at,
        continues=told.continues,
        organization=told.crew.settings.organization,
    )
    run = replay_run(told.crew, told.run, told.records)
    return run_files.encode_run_file(
        RunFile(row=row_of(run, row, at), crew=body, records=seal_chain(told.run, told.records))
    )


def sum_of(state: RunState) -> str:
    """Of the state as canonical JSON, without what is empty: a new field that is not used changes no sum."""
    plain = msgspec.to_builtins(state, enc_hook=as_plain_messages)
    return sha256(msgspec.json.encode(_filled(plain), order="deterministic")).hexdigest()


def _filled(value: object) -> object:
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items() if each not in (None, "", 0, [], {})}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def main() -> None:
    for told in (*stories(), *simulations()):
        _write_unless_there(GOLDEN / f"{told.run}.journal", written(told))
    for file in sorted(GOLDEN.glob("*.journal")):
        _write_unless_there(file.with_suffix(".sha256"), f"{sum_of(state_of(file))}\n".encode())


def state_of(file: Path) -> RunState:
    found = run_files.decode_run_file(file.read_bytes(), file.name)
    return replay_run(
        msgspec.json.decode(found.crew, type=CrewDefinition), found.row.run, run_files.unseal_records(found)
    ).state


def _write_unless_there(file: Path, data: bytes) -> None:
    try:
        with file.open("xb") as target:
            target.write(data)
    except FileExistsError:
        return
    sys.stdout.write(f"wrote {file.name}\n")


if __name__ == "__main__":
    main()
