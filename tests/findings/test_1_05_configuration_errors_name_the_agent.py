"""`validate_configuration` reports routes of agents that do not exist, and every error names its agent."""

from interlock.signals import SignalDefinition, SignalValidator, load_default_signals

AGENTS = ["teacher", "student", "reporter"]


def validator() -> SignalValidator:
    registry = load_default_signals()
    registry.register(SignalDefinition(name="[SECRET]", behavior="terminate", allowed_agents=["teacher"]))
    registry.register(SignalDefinition(name="[NARROW]", behavior="route", valid_targets=["teacher"]))
    return SignalValidator(registry)


def test_routes_of_an_agent_that_does_not_exist_are_reported_once() -> None:
    routes = [{"signal": "[NEXT]", "target": "student"}, {"signal": "[SECRET]", "target": ""}]
    (error,) = validator().validate_configuration({"techer": routes}, AGENTS)
    assert (error.code, error.agent, error.signal) == ("unknown-agent", "techer", "[NEXT]")
    assert str(error) == "signal '[NEXT]' is routed by unknown agent 'techer'; did you mean 'teacher'?"


def test_what_is_wrong_with_its_routes_is_reported_too() -> None:
    errors = validator().validate_configuration({"ghost": [{"signal": "[END]", "target": "teacher"}]}, AGENTS)
    assert [(error.code, error.agent) for error in errors] == [("unknown-agent", "ghost"), ("wrong-target", "ghost")]


def test_an_agent_without_routes_routes_nothing() -> None:
    assert validator().validate_configuration({"ghost": []}, AGENTS) == []


def test_every_error_names_its_agent_and_begins_with_the_sentence_of_the_seed() -> None:
    signals = {
        "student": [
            {"signal": "[UNKNOWN]", "target": "teacher"},
            {"signal": "[SECRET]", "target": ""},
            {"signal": "[NEXT]", "target": "unknown_agent"},
            {"signal": "[END]", "target": "other_agent"},
            {"signal": "[NARROW]", "target": "reporter"},
            {"signal": "[NEXT]", "target": ""},
            {"signal": "broken", "target": ""},
        ]
    }
    errors = validator().validate_configuration(signals, AGENTS)
    beginnings = [
        "signal '[UNKNOWN]' is not registered (unknown signal); ",
        "agent 'student' is not allowed to emit signal '[SECRET]'; ",
        "signal '[NEXT]' targets unknown agent 'unknown_agent'; ",
        "termination signal '[END]' must have empty target, got 'other_agent'; ",
        "signal '[NARROW]' cannot target 'reporter' (valid: [teacher]); ",
        "routing signal '[NEXT]' must have a target agent; ",
        "signal 'broken' has invalid format - must match [NAME]; ",
    ]
    assert len(errors) == len(beginnings)
    for error, beginning in zip(errors, beginnings, strict=True):
        assert str(error).startswith(beginning + "routed by agent 'student'; ")
        assert error.agent == "student"
