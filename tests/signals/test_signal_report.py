"""The registry as a page of text, and the lines of the signal log."""

import re

from interlock.signals import SignalDefinition, SignalRegistry, SignalValidator, load_default_signals
from interlock.signals.report import emission_line, routing_line, unknown_target_line

GROUPS = ["terminate", "route", "pause", "parallel", "broadcast", "external", "sub_crew"]


def report_of(*definitions: SignalDefinition) -> str:
    registry = SignalRegistry()
    registry.register_bulk(definitions)
    return SignalValidator(registry).generate_signal_report()


def test_the_report_begins_as_the_protocol_has_it_and_counts_eleven() -> None:
    lines = SignalValidator(load_default_signals()).generate_signal_report().splitlines()
    assert lines[:2] == ["=== SIGNAL REGISTRY REPORT ===", "Total Signals Registered: 11"]


def test_groups_come_in_their_order_with_their_numbers() -> None:
    report = SignalValidator(load_default_signals()).generate_signal_report()
    heads = re.findall(r"^--- (\w+) Signals \((\d+)\) ---$", report, re.MULTILINE)
    assert heads == list(zip(GROUPS, "4610000", strict=True))


def test_names_are_sorted_within_their_group() -> None:
    report = SignalValidator(load_default_signals()).generate_signal_report()
    assert re.findall(r"^(\[\w+\])", report, re.MULTILINE) == [
        *("[DONE]", "[END]", "[END_EXAM]", "[STOP]"),
        *("[ANSWER]", "[ERROR]", "[NEXT]", "[OK]", "[QUESTION]", "[RETRY]"),
        "[WAIT]",
    ]


def test_a_crews_own_signals_are_counted_in_their_group() -> None:
    registry = load_default_signals()
    registry.register(SignalDefinition(name="[PANEL]", behavior="parallel"))
    report = SignalValidator(registry).generate_signal_report()
    assert "Total Signals Registered: 12" in report
    assert "--- parallel Signals (1) ---\n[PANEL] priority 60\n" in report


def test_the_order_of_registration_does_not_show() -> None:
    one, other = SignalDefinition(name="[A]"), SignalDefinition(name="[B]")
    assert report_of(one, other) == report_of(other, one)


def test_everything_a_definition_says_is_in_the_report() -> None:
    report = report_of(
        SignalDefinition(
            name="[OLD]",
            description="Old way",
            behavior="route",
            priority=7,
            allowed_agents=["teacher", "coach"],
            default_target="a",
            valid_targets=["a", "b"],
            deprecated_msg="Use [NEW] instead",
            required=True,
            max_occurs=3,
            example="Go. [OLD]",
        )
    )
    for said in (
        "[OLD] priority 7 - Old way",
        "deprecated: Use [NEW] instead",
        "emitted by: teacher, coach",
        "default target: a",
        "valid targets: a, b",
        "required: some agent must route it",
        "at most 3 in one run",
        "example: Go. [OLD]",
    ):
        assert said in report


def test_a_list_of_emitters_that_binds_nobody_is_not_shown() -> None:
    assert "emitted by" not in report_of(SignalDefinition(name="[X]", allow_all_agents=True, allowed_agents=["a"]))


def test_an_empty_registry_has_a_report() -> None:
    assert "Total Signals Registered: 0" in report_of()


def test_log_lines_are_word_for_word_those_of_the_protocol() -> None:
    end_exam = load_default_signals().get("[END_EXAM]")
    assert end_exam is not None
    assert emission_line("teacher", end_exam, "exact") == (
        "[SIGNAL-EVENT] Agent 'teacher' emitted '[END_EXAM]' (exact) - Terminates exam workflow"
    )
    assert routing_line("teacher", "reporter", "[QUESTION]") == (
        "[SIGNAL-SUCCESS] Agent 'teacher' routed to 'reporter' via signal [QUESTION]"
    )
    assert unknown_target_line("teacher", "[UNKNOWN]", "agent_x") == (
        "[SIGNAL-ERROR] Agent 'teacher' emitted signal [UNKNOWN] targeting unknown agent 'agent_x'"
    )


def test_a_signal_without_a_description_leaves_no_loose_end_in_the_log() -> None:
    line = emission_line("a", SignalDefinition(name="[X]"), "normalized")
    assert line == "[SIGNAL-EVENT] Agent 'a' emitted '[X]' (normalized)"
