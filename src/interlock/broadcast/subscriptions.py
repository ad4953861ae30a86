"""Subscriptions of agents to broadcasts.

Rule 1: a subscription is (crew, agent, pattern); the same one again only changes `silent`.
Rule 2: an agent receives a broadcast once even if several of its patterns match; it is silent only if all of them are.
Rule 3: an agent never receives its own broadcasts.
"""

from typing import Literal

import msgspec

from interlock.broadcast.pattern import pattern_fault
from interlock.broadcast.trie import PatternTrie
from interlock.errors import BadPattern

Origin = Literal["file", "tool", "api"]


class AgentSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """One stored subscription. `origin` is its source: those of a crew file end when the file no longer has them."""

    crew: str
    agent: str
    pattern: str
    silent: bool = True
    origin: Origin = "api"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.crew, self.agent, self.pattern


class Subscriber(msgspec.Struct, frozen=True):
    """An agent that receives a broadcast."""

    crew: str
    agent: str
    silent: bool


class SubscriptionIndex:
    """All subscriptions, indexed by pattern."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, str, str], AgentSubscription] = {}
        self._trie: PatternTrie[Subscriber] = PatternTrie()
        self._answers: dict[str, tuple[Subscriber, ...]] = {}

    def __len__(self) -> int:
        return len(self.by_key)

    def add(self, subscribed: AgentSubscription) -> None:
        self.remove(subscribed.key)
        self.by_key[subscribed.key] = subscribed
        self._trie.add(subscribed.pattern, Subscriber(subscribed.crew, subscribed.agent, subscribed.silent))

    def remove(self, key: tuple[str, str, str]) -> bool:
        """Removes a subscription; true if there was one."""
        before = self.by_key.pop(key, None)
        self._answers.clear()
        if before is not None:
            self._trie.remove(before.pattern, Subscriber(before.crew, before.agent, before.silent))
        return before is not None

    def all(self) -> list[AgentSubscription]:
        return [self.by_key[key] for key in sorted(self.by_key)]

    def subscribers_of(self, kind: str, *, crew: str = "", agent: str = "") -> tuple[Subscriber, ...]:
        """The subscribers of a broadcast without its sender, sorted by name."""
        found = self._answers.get(kind)
        if found is None:
            found = self._answers[kind] = _one_per_agent(self._trie.match(kind))
            if len(self._answers) > len(self.by_key) + 1_000:  # more types than a cache is for: clear it
                self._answers = {kind: found}
        if agent and any(hearer.agent == agent and hearer.crew == crew for hearer in found):
            return tuple(hearer for hearer in found if (hearer.crew, hearer.agent) != (crew, agent))
        return found


def _one_per_agent(found: tuple[Subscriber, ...]) -> tuple[Subscriber, ...]:
    if not found:
        return ()
    modes: dict[tuple[str, str], bool] = {}
    for hearer in found:
        key = hearer.crew, hearer.agent
        modes[key] = modes.get(key, True) and hearer.silent
    return tuple(Subscriber(crew, agent, modes[crew, agent]) for crew, agent in sorted(modes))


def require_pattern(pattern: object) -> str:
    """Returns the trimmed pattern; raises `BadPattern` if it is invalid."""
    if not isinstance(pattern, str):
        raise BadPattern(str(pattern)[:80], "is not a text")
    if fault := pattern_fault(pattern):
        raise BadPattern(pattern[:80], fault)
    if not pattern.strip().isprintable():
        raise BadPattern(pattern[:80], "holds characters that cannot be printed")
    return pattern.strip()
