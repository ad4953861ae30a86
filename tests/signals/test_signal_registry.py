"""The registry: exact names, in the order they were registered."""

from collections.abc import Iterator

import pytest

from interlock.signals import SignalDefinition, SignalError, SignalRegistry


def signal(name: str, **fields: str) -> SignalDefinition:
    return SignalDefinition(name=name, **fields)  # type: ignore[arg-type]


@pytest.fixture
def registry() -> SignalRegistry:
    registry = SignalRegistry()
    registry.register(signal("[TEST]", behavior="route"))
    return registry


def test_a_registered_signal_exists(registry: SignalRegistry) -> None:
    assert registry.exists("[TEST]")
    assert registry.get("[TEST]") == signal("[TEST]")


@pytest.mark.parametrize("name", ["[test]", "[ TEST ]", "TEST", "[TEST", "", "[OTHER]"])
def test_no_other_spelling_exists(registry: SignalRegistry, name: str) -> None:
    assert not registry.exists(name)
    assert registry.get(name) is None


def test_a_new_registry_is_empty() -> None:
    assert SignalRegistry().all() == []
    assert SignalRegistry().names() == ()


def test_upper_and_lower_case_are_two_signals(registry: SignalRegistry) -> None:
    registry.register(signal("[test]", behavior="terminate"))
    assert [definition.name for definition in registry.all()] == ["[TEST]", "[test]"]


def test_a_second_definition_of_a_name_is_refused(registry: SignalRegistry) -> None:
    with pytest.raises(SignalError, match="is already registered"):
        registry.register(signal("[TEST]", behavior="pause"))
    assert [definition.behavior for definition in registry.all()] == ["route"]


def test_a_definition_can_be_replaced_on_request(registry: SignalRegistry) -> None:
    registry.register(signal("[LAST]"))
    registry.register(signal("[TEST]", behavior="pause"), replace=True)
    assert [(d.name, d.behavior) for d in registry.all()] == [("[TEST]", "pause"), ("[LAST]", "route")]


@pytest.mark.parametrize("name", ["INVALID", "[]", "", "[A", "[[A]]"])
def test_a_malformed_name_is_refused(registry: SignalRegistry, name: str) -> None:
    with pytest.raises(SignalError) as refused:
        registry.register(signal(name))
    assert str(refused.value).startswith(f"signal '{name}' has invalid format - must match [NAME]")
    assert registry.names() == ("[TEST]",)


def test_many_are_registered_in_their_order(registry: SignalRegistry) -> None:
    registry.register_bulk(signal(name) for name in ("[Z]", "[A]", "[M]"))
    assert registry.names() == ("[TEST]", "[Z]", "[A]", "[M]")


@pytest.mark.parametrize("bad", ["broken", "[TEST]", "[A]"])
def test_many_are_registered_together_or_not_at_all(registry: SignalRegistry, bad: str) -> None:
    with pytest.raises(SignalError):
        registry.register_bulk([signal("[A]"), signal(bad), signal("[B]")])
    assert registry.names() == ("[TEST]",)


def test_a_source_of_definitions_that_fails_leaves_no_trace(registry: SignalRegistry) -> None:
    def failing() -> Iterator[SignalDefinition]:
        yield signal("[A]")
        raise OSError("the file went away")

    with pytest.raises(OSError, match="went away"):
        registry.register_bulk(failing())
    assert registry.names() == ("[TEST]",)


def test_signals_are_found_by_what_they_do(registry: SignalRegistry) -> None:
    registry.register_bulk([signal("[Z]", behavior="terminate"), signal("[A]", behavior="terminate")])
    assert [definition.name for definition in registry.by_behavior("terminate")] == ["[Z]", "[A]"]
    assert registry.by_behavior("pause") == []


def test_nothing_does_what_does_not_exist(registry: SignalRegistry) -> None:
    assert registry.by_behavior("jump") == []


def test_a_list_that_was_handed_out_is_not_the_registry(registry: SignalRegistry) -> None:
    registry.all().clear()
    assert registry.exists("[TEST]")
