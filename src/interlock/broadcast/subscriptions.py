"""Who hears what.

Rule 1: a subscription is (crew, agent, pattern); the same one again changes how it is heard, and nothing else.
Rule 2: an agent hears a broadcast once however many of its patterns match: aloud, if one of them is.
Rule 3: an agent never hears its own.
"""

from typing import Literal

import msgspec

from interlock.broadcast.pattern import pattern_fault
from interlock.broadcast.trie import PatternTrie
from interlock.errors import BadPattern

Origin = Literal["file", "tool", "api"]


class Subscribed(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription as it is kept. `origin` says who made it: those of a crew file go when the file drops them."""

    crew: str
    agent: str
    pattern: str
    silent: bool = True
    origin: Origin = "api"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.crew, self.agent, self.pattern


class Hearer(msgspec.Struct, frozen=True):
    """An agent that a broadcast is for."""

    crew: str
    agent: str
    silent: bool


class Directory:
    """All subscriptions, ready to be asked."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str, str], Subscribed] = {}
        self._trie: PatternTrie[Hearer] = PatternTrie()
        self._answers: dict[str, tuple[Hearer, ...]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, subscribed: Subscribed) -> None:
        self.remove(subscribed.key)
        self._all[subscribed.key] = subscribed
        self._trie.add(subscribed.pattern, Hearer(subscribed.crew, subscribed.agent, subscribed.silent))

    def remove(self, key: tuple[str, str, str]) -> bool:
        """Whether there was such a subscription."""
        before = self._all.pop(key, None)
        self._answers.clear()
        if before is not None:
            self._trie.remove(before.pattern, Hearer(before.crew, before.agent, before.silent))
        return before is not None

    def all(self) -> list[Subscribed]:
        return [self._all[key] for key in sorted(self._all)]

    def hearers(self, kind: str, *, crew: str = "", agent: str = "") -> tuple[Hearer, ...]:
        """Whom the broadcast is for, but for the agent that it is from; in the order of their names."""
        found = self._answers.get(kind)
        if found is None:
            found = self._answers[kind] = _once_each(self._trie.match(kind))
            if len(self._answers) > len(self._all) + 1_000:  # more types than anybody hears: forget them
                self._answers = {kind: found}
        if agent and any(hearer.agent == agent and hearer.crew == crew for hearer in found):
            return tuple(hearer for hearer in found if (hearer.crew, hearer.agent) != (crew, agent))
        return found


def _once_each(found: tuple[Hearer, ...]) -> tuple[Hearer, ...]:
    if not found:
        return ()
    modes: dict[tuple[str, str], bool] = {}
    for hearer in found:
        key = hearer.crew, hearer.agent
        modes[key] = modes.get(key, True) and hearer.silent
    return tuple(Hearer(crew, agent, modes[crew, agent]) for crew, agent in sorted(modes))


def checked_pattern(pattern: object) -> str:
    """The pattern as it is kept, trimmed; `BadPattern` if it cannot be."""
    if not isinstance(pattern, str):
        raise BadPattern(str(pattern)[:80], "is not a text")
    if fault := pattern_fault(pattern):
        raise BadPattern(pattern[:80], fault)
    if not pattern.strip().isprintable():
        raise BadPattern(pattern[:80], "holds characters that cannot be printed")
    return pattern.strip()
