"""The eleven signals every crew knows."""

import pytest

from interlock.signals import SignalDefinition, SignalMatcher, is_signal_name, load_default_signals
from interlock.signals.builtin import BUILT_IN, STATUS_SIGNALS

TABLE = """
END terminate 100
END_EXAM terminate 100
DONE terminate 100
STOP terminate 110
NEXT route 50
QUESTION route 50
ANSWER route 50
OK route 30
ERROR route 90
RETRY route 70
WAIT pause 80
"""
ROWS = [row.split() for row in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("name", "behavior", "priority"), ROWS)
def test_a_built_in_signal_has_its_behavior_and_priority(name: str, behavior: str, priority: str) -> None:
    definition = load_default_signals().get(f"[{name}]")
    assert definition is not None
    assert (definition.behavior, definition.priority, definition.rank) == (behavior, int(priority), int(priority))


def test_there_are_eleven_in_the_order_of_the_table() -> None:
    assert [definition.name for definition in load_default_signals().all()] == [f"[{row[0]}]" for row in ROWS]
    assert len(BUILT_IN) == 11


@pytest.mark.parametrize("definition", BUILT_IN, ids=lambda definition: str(definition.name))
def test_a_built_in_signal_is_sound_and_shown_by_its_own_example(definition: SignalDefinition) -> None:
    assert is_signal_name(definition.name)
    assert definition.description
    assert definition.may_be_emitted_by("anyone")
    found = SignalMatcher(d.name for d in BUILT_IN).find(definition.example)
    assert [(match.signal, match.method) for match in found] == [(definition.name, "exact")]


def test_recognition_tells_the_built_in_signals_apart() -> None:
    matcher = SignalMatcher(definition.name for definition in BUILT_IN)
    for definition in BUILT_IN:
        assert [m.signal for m in matcher.find(f"[ {definition.name[1:-1].title()} ]")] == [definition.name]


def test_each_registry_is_fresh() -> None:
    changed = load_default_signals()
    changed.register(SignalDefinition(name="[MINE]"))
    changed.register(SignalDefinition(name="[END]", behavior="route"), replace=True)
    fresh = load_default_signals()
    assert not fresh.exists("[MINE]")
    assert fresh.get("[END]") == BUILT_IN[0]


def test_a_custom_signal_joins_the_built_in_ones() -> None:
    registry = load_default_signals()
    mine = SignalDefinition(
        name="[MY_SIGNAL]",
        description="Description of what this signal does",
        allow_all_agents=True,
        behavior="route",
        default_target="target_agent",
        valid_targets=["agent1", "agent2"],
        example="Task ready. [MY_SIGNAL]",
        priority=50,
    )
    registry.register(mine)
    assert registry.get("[MY_SIGNAL]") == mine
    assert len(registry.all()) == 12


def test_the_acknowledging_signals_are_built_in_routes() -> None:
    registry = load_default_signals()
    definitions = [registry.get(name) for name in STATUS_SIGNALS]
    assert [d and d.behavior for d in definitions] == ["route"] * 3
