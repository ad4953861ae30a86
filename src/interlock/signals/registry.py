"""The signals of a crew, by name. Identity is exact: `[END]` and `[end]` are two signals."""

from collections.abc import Iterable

from interlock.errors import DuplicateSignal
from interlock.signals.definition import SignalDefinition, require_valid_definition


class SignalRegistry:
    """Definitions in the order they were registered."""

    def __init__(self) -> None:
        self._by_name: dict[str, SignalDefinition] = {}

    def register(self, definition: SignalDefinition, *, replace: bool = False) -> None:
        """Adds one definition; refuses a malformed one, and a second of the same name without `replace`."""
        if definition.name in self._by_name and not replace:
            raise DuplicateSignal(definition.name)
        self._by_name[definition.name] = require_valid_definition(definition)

    def register_bulk(self, definitions: Iterable[SignalDefinition], *, replace: bool = False) -> None:
        """Adds all of them, or none if one is refused."""
        before = dict(self._by_name)
        try:
            for definition in definitions:
                self.register(definition, replace=replace)
        except Exception:
            self._by_name = before
            raise

    def get(self, name: str) -> SignalDefinition | None:
        return self._by_name.get(name)

    def exists(self, name: str) -> bool:
        return name in self._by_name

    def all(self) -> list[SignalDefinition]:
        return list(self._by_name.values())

    def by_behavior(self, behavior: str) -> list[SignalDefinition]:
        return [d for d in self._by_name.values() if d.behavior == behavior]

    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)
