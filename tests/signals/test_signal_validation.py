"""The validator: who may emit what, and where to. Sentences are those of the signal protocol."""

from dataclasses import dataclass

import pytest

from interlock.signals import SignalDefinition, SignalError, SignalRegistry, SignalValidator, load_default_signals

AGENTS = ["teacher", "reporter"]


@pytest.fixture
def registry() -> SignalRegistry:
    registry = load_default_signals()
    registry.register_bulk(
        [
            SignalDefinition(name="[MINE]", behavior="route", allowed_agents=["teacher"], valid_targets=["reporter"]),
            SignalDefinition(name="[HOME]", behavior="route", default_target="teacher"),
            SignalDefinition(name="[AWAY]", behavior="route", default_target="nobody"),
            SignalDefinition(name="[ALL]", behavior="parallel"),
            SignalDefinition(name="[TELL]", behavior="broadcast"),
            SignalDefinition(name="[OUT]", behavior="external"),
            SignalDefinition(name="[CREW]", behavior="sub_crew"),
        ]
    )
    return registry


@pytest.fixture
def validator(registry: SignalRegistry) -> SignalValidator:
    return SignalValidator(registry)


def refusal_of_emission(validator: SignalValidator, signal: str, agent: str) -> str:
    with pytest.raises(SignalError) as refused:
        validator.validate_signal_emission(signal, agent)
    return str(refused.value)


def refusal_of_target(validator: SignalValidator, signal: str, target: str | None) -> str:
    with pytest.raises(SignalError) as refused:
        validator.validate_signal_target(signal, target, AGENTS)
    return str(refused.value)


# The four sentences of seed 000 section 8


def test_an_unknown_signal_is_refused_in_the_words_of_the_protocol(validator: SignalValidator) -> None:
    sentence = "signal '[UNKNOWN]' is not registered (unknown signal)"
    assert refusal_of_emission(validator, "[UNKNOWN]", "teacher").split(";")[0] == sentence
    assert refusal_of_target(validator, "[UNKNOWN]", "teacher").split(";")[0] == sentence


def test_an_unauthorized_agent_is_refused_in_the_words_of_the_protocol() -> None:
    registry = SignalRegistry()
    registry.register(SignalDefinition(name="[QUESTION]", allowed_agents=["teacher"]))
    refusal = refusal_of_emission(SignalValidator(registry), "[QUESTION]", "reporter")
    assert refusal.split(";")[0] == "agent 'reporter' is not allowed to emit signal '[QUESTION]'"


def test_an_unknown_target_is_refused_in_the_words_of_the_protocol(validator: SignalValidator) -> None:
    refusal = refusal_of_target(validator, "[NEXT]", "unknown_agent")
    assert refusal.split(";")[0] == "signal '[NEXT]' targets unknown agent 'unknown_agent'"


def test_a_termination_with_a_target_is_refused_in_the_words_of_the_protocol(validator: SignalValidator) -> None:
    refusal = refusal_of_target(validator, "[END]", "other_agent")
    assert refusal.split(";")[0] == "termination signal '[END]' must have empty target, got 'other_agent'"


# Emission


@pytest.mark.parametrize("agent", ["teacher", "reporter", "anyone at all"])
def test_any_agent_may_emit_a_signal_that_allows_all(validator: SignalValidator, agent: str) -> None:
    validator.validate_signal_emission("[END]", agent)


def test_a_listed_agent_may_emit(validator: SignalValidator) -> None:
    validator.validate_signal_emission("[MINE]", "teacher")


@pytest.mark.parametrize("signal", ["END", "[END", "END]", "[]", "", "[[END]]", "[ END ]", "[a\nb]"])
def test_a_malformed_signal_is_refused_before_anything_else(validator: SignalValidator, signal: str) -> None:
    sentence = f"signal '{signal}' has invalid format - must match [NAME]"
    assert refusal_of_emission(validator, signal, "teacher").startswith(sentence)
    assert refusal_of_target(validator, signal, "nobody").startswith(sentence)


@pytest.mark.parametrize("signal", ["[end]", "[End]", "[END-EXAM]"])
def test_identity_is_exact_where_recognition_is_not(validator: SignalValidator, signal: str) -> None:
    assert "(unknown signal)" in refusal_of_emission(validator, signal, "teacher")


def test_advice_names_the_nearest_known_signal(validator: SignalValidator) -> None:
    assert "did you mean '[QUESTION]'?" in refusal_of_emission(validator, "[QUESTON]", "teacher")


def test_a_refusal_keeps_its_parts_and_a_code(validator: SignalValidator) -> None:
    with pytest.raises(SignalError) as refused:
        validator.validate_signal_emission("[MINE]", "reporter")
    assert refused.value.signal == "[MINE]"
    assert refused.value.code == "emitter-not-allowed"


# Targets


@pytest.mark.parametrize("signal", ["[END]", "[END_EXAM]", "[DONE]", "[STOP]"])
@pytest.mark.parametrize("target", ["", None])
def test_a_termination_has_no_target(validator: SignalValidator, signal: str, target: str | None) -> None:
    validator.validate_signal_target(signal, target, AGENTS)


@pytest.mark.parametrize("target", ["", None])
def test_a_route_needs_a_target(validator: SignalValidator, target: str | None) -> None:
    refusal = refusal_of_target(validator, "[NEXT]", target)
    assert refusal.startswith("routing signal '[NEXT]' must have a target agent")


def test_a_default_target_stands_in_for_none(validator: SignalValidator) -> None:
    validator.validate_signal_target("[HOME]", "", AGENTS)
    assert "targets unknown agent 'nobody'" in refusal_of_target(validator, "[AWAY]", "")


def test_a_group_needs_a_name(validator: SignalValidator) -> None:
    validator.validate_signal_target("[ALL]", "panel", [*AGENTS, "panel"])
    assert refusal_of_target(validator, "[ALL]", "").startswith("parallel signal '[ALL]' must have a target group")


@pytest.mark.parametrize("signal", ["[WAIT]", "[TELL]", "[OUT]", "[CREW]"])
def test_what_keeps_or_lends_control_needs_no_target(validator: SignalValidator, signal: str) -> None:
    validator.validate_signal_target(signal, "", AGENTS)
    validator.validate_signal_target(signal, "teacher", AGENTS)
    assert "targets unknown agent 'nobody'" in refusal_of_target(validator, signal, "nobody")


def test_a_target_outside_the_valid_ones_is_refused(validator: SignalValidator) -> None:
    validator.validate_signal_target("[MINE]", "reporter", AGENTS)
    refusal = refusal_of_target(validator, "[MINE]", "teacher")
    assert refusal.startswith("signal '[MINE]' cannot target 'teacher' (valid: [reporter])")


def test_an_unknown_target_is_reported_before_a_forbidden_one(validator: SignalValidator) -> None:
    assert "targets unknown agent 'ghost'" in refusal_of_target(validator, "[MINE]", "ghost")


@pytest.mark.parametrize("agents", [AGENTS, tuple(AGENTS), set(AGENTS), dict.fromkeys(AGENTS), frozenset(AGENTS)])
def test_agents_may_come_in_any_collection(
    validator: SignalValidator, agents: list[str] | tuple[str, ...] | set[str] | dict[str, None] | frozenset[str]
) -> None:
    validator.validate_signal_target("[NEXT]", "reporter", agents)
    with pytest.raises(SignalError, match="targets unknown agent 'x'"):
        validator.validate_signal_target("[NEXT]", "x", agents)


def test_agents_are_compared_exactly(validator: SignalValidator) -> None:
    assert "did you mean 'reporter'?" in refusal_of_target(validator, "[NEXT]", "Reporter")


# Configuration


@dataclass
class Route:
    signal: str
    target: str | None = None


def test_a_sound_configuration_has_no_errors(validator: SignalValidator) -> None:
    signals: dict[str, list[dict[str, str | None]]] = {
        "teacher": [{"signal": "[QUESTION]", "target": "reporter"}, {"signal": "[END]", "target": ""}],
        "reporter": [{"signal": "[WAIT]"}, {"signal": "[STOP]", "target": None}],
    }
    assert validator.validate_configuration(signals, AGENTS) == []
    assert validator.validate_configuration({}, AGENTS) == []


def test_every_error_of_a_configuration_is_returned_in_its_order(validator: SignalValidator) -> None:
    signals: dict[str, list[dict[str, str]]] = {
        "teacher": [
            {"signal": "[END]", "target": "reporter"},
            {"signal": "[NEXT]", "target": "ghost"},
            {"signal": "NEXT", "target": "reporter"},
            {"signal": "[NEXT]", "target": "reporter"},
        ],
        "reporter": [{"signal": "[NOPE]", "target": "teacher"}, {"signal": "[MINE]", "target": "teacher"}, {}],
    }
    errors = validator.validate_configuration(signals, AGENTS)
    assert [(error.code, error.signal) for error in errors] == [
        ("wrong-target", "[END]"),
        ("unknown-target", "[NEXT]"),
        ("bad-format", "NEXT"),
        ("unregistered-signal", "[NOPE]"),
        ("emitter-not-allowed", "[MINE]"),
        ("invalid-target", "[MINE]"),
        ("bad-format", ""),
    ]
    assert all(isinstance(error, SignalError) for error in errors)


def test_routes_may_be_objects(validator: SignalValidator) -> None:
    signals = {"teacher": [Route("[END]"), Route("[NEXT]", "reporter"), Route("[NEXT]")]}
    (error,) = validator.validate_configuration(signals, AGENTS)
    assert str(error).startswith("routing signal '[NEXT]' must have a target agent")


# Content


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Task done. [END]", (True, "exact")),
        ("Task done. [end]", (True, "case_insensitive")),
        ("Task done. [ end ]", (True, "normalized")),
        ("Task done.", (False, "")),
        ("", (False, "")),
        ("`[END]`", (False, "")),
        ("[ end ] [end] [END]", (True, "exact")),
        ("[ end ] [End]", (True, "case_insensitive")),
        ("`[END]` [ end ]", (True, "normalized")),
    ],
)
def test_the_most_exact_visible_mark_tells_the_method(
    validator: SignalValidator, content: str, found: tuple[bool, str]
) -> None:
    result = validator.validate_signal_in_content("[END]", content)
    assert result == found
    assert type(result[1]) is str


def test_content_is_searched_for_signals_that_are_not_registered_too(validator: SignalValidator) -> None:
    assert validator.validate_signal_in_content("[NEW]", "a [NEW] thing") == (True, "exact")


@pytest.mark.parametrize("signal", ["END", "", "[]", "[ END ]"])
def test_a_malformed_signal_is_in_no_content(validator: SignalValidator, signal: str) -> None:
    assert validator.validate_signal_in_content(signal, f"say {signal} or [END]") == (False, "")
