"""The marks that one agent's routes are for: what each may mean, and which one wins."""

from collections.abc import Sequence

import msgspec

from interlock.crew.definition import RouteDefinition
from interlock.engine.routing.candidates import STEERING, Candidate, CandidateOutcome, Verb
from interlock.engine.routing.positions import PlacedMark
from interlock.signals.definition import SignalBehavior
from interlock.signals.matching import METHODS, MatchMethod, SignalMatcher
from interlock.signals.nearness import NameSuggestions

_VERBS = {
    SignalBehavior.TERMINATE: Verb.END,
    SignalBehavior.ROUTE: Verb.HAND_OVER,
    SignalBehavior.PAUSE: Verb.AWAIT,
    SignalBehavior.PARALLEL: Verb.FORK,
    SignalBehavior.BROADCAST: Verb.TELL,
    SignalBehavior.SUB_CREW: Verb.CALL,
}

EXACTNESS = {method: n for n, method in enumerate(METHODS)}


class _SignalWay(msgspec.Struct, frozen=True):
    """What a signal of an agent does, computed once."""

    signal: str
    order: int
    route: RouteDefinition
    verb: Verb
    target: str
    outcome: CandidateOutcome


class _Reading(msgspec.Struct, frozen=True):
    """The meaning of a mark for an agent: the names of its own signals that it may stand for, or none."""

    method: MatchMethod
    names: tuple[str, ...]
    speaks: bool


# Readings in the cache; a hostile text can contain any number of different marks.
READINGS_MAX = 1_000


class OwnMarks:
    """The marks that one agent's routes are for."""

    def __init__(self, routes: Sequence[RouteDefinition], known: SignalMatcher, near: NameSuggestions) -> None:
        self.ways = {route.signal: _way(order, route) for order, route in enumerate(routes)}
        self._own, self._known, self._near = SignalMatcher(self.ways), known, near
        self._readings: dict[str, _Reading] = {}

    def is_relevant(self, inner: str) -> bool:
        """Whether a mark is one of the agent's, one of the crew's, or nearly one."""
        return self.reading(inner).speaks

    def is_steering(self, inner: str) -> bool:
        """Whether every meaning of a mark moves control."""
        names = self.reading(inner).names
        return bool(names) and all(self.ways[name].outcome is CandidateOutcome.LOST for name in names)

    def reading(self, inner: str) -> _Reading:
        reading = self._readings.get(inner)
        if reading is None:
            method, names = self._own.lookup(inner)
            speaks = bool(names) or self._known.recognizes(inner) or self._near.nearest(inner) is not None
            reading = _Reading(method, names, speaks)
            if len(self._readings) < READINGS_MAX:
                self._readings[inner] = reading
        return reading

    def candidates(self, seen: list[PlacedMark]) -> tuple[Candidate, ...]:
        """The candidates, best first; one per signal, from its most exact and first mark."""
        if len(seen) == 1 and len((reading := self.reading(seen[0].inner)).names) == 1:  # the usual case
            way = self.ways[reading.names[0]]
            return (_candidate(way, way if way.outcome is CandidateOutcome.LOST else None, reading.method, seen[0]),)
        best: dict[str, tuple[int, MatchMethod, PlacedMark]] = {}
        for mark in seen:
            reading = self.reading(mark.inner)
            exactness = EXACTNESS[reading.method]
            for name in reading.names:
                if name not in best or exactness < best[name][0]:
                    best[name] = (exactness, reading.method, mark)
        ranked = [
            (-self.ways[name].route.priority, found[0], self.ways[name].order, name) for name, found in best.items()
        ]
        ranked.sort()
        ways = [self.ways[name] for *_, name in ranked]
        winner = next((way for way in ways if way.outcome is CandidateOutcome.LOST), None)
        return tuple(_candidate(way, winner, *best[way.signal][1:]) for way in ways)


def _way(order: int, route: RouteDefinition) -> _SignalWay:
    outcome = (
        CandidateOutcome.NOTED
        if route.acknowledges
        else CandidateOutcome.TOLD
        if route.is_tell
        else CandidateOutcome.LOST
    )
    return _SignalWay(route.signal, order, route, verb_of(route), route.target_crew or route.target, outcome)


def signals_to_call(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The sub-crew signals that run together, in file order."""
    together = [c for c in candidates if c.outcome in (CandidateOutcome.WON, CandidateOutcome.JOINED)]
    return tuple(c.signal for c in sorted(together, key=lambda c: c.order))


def verb_of(route: RouteDefinition) -> Verb:
    if route.is_tell:
        return Verb.TELL
    return Verb.AWAIT if route.behavior is SignalBehavior.EXTERNAL else _VERBS[route.behavior]


def _candidate(way: _SignalWay, winner: _SignalWay | None, method: MatchMethod, mark: PlacedMark) -> Candidate:
    outcome = way.outcome if way.outcome is not CandidateOutcome.LOST or winner is None else _outcome_of(way, winner)
    return Candidate(
        signal=way.signal,
        method=method,
        start=mark.start,
        end=mark.end,
        line=mark.line,
        priority=way.route.priority,
        order=way.order,
        verb=way.verb,
        target=way.target,
        outcome=outcome,
        conflicts=outcome is CandidateOutcome.LOST
        and winner is not None
        and (way.verb, way.target) != (winner.verb, winner.target),
    )


def _outcome_of(way: _SignalWay, winner: _SignalWay) -> CandidateOutcome:
    if way is winner:
        return CandidateOutcome.WON
    if way.verb is winner.verb is Verb.CALL and way.route.priority == winner.route.priority:
        return CandidateOutcome.JOINED
    return CandidateOutcome.LOST


def candidate_of_member(candidate: Candidate, best: Candidate) -> Candidate:
    if candidate.outcome not in STEERING:
        return candidate
    outcome = (
        CandidateOutcome.WON
        if candidate is best
        else CandidateOutcome.NOTED
        if candidate.verb is Verb.AWAIT
        else CandidateOutcome.LOST
    )
    differs = (candidate.verb, candidate.target) != (best.verb, best.target)
    return msgspec.structs.replace(candidate, outcome=outcome, conflicts=outcome is CandidateOutcome.LOST and differs)
