"""The marks of a reply as its agent's own: where they stand, what each may mean, and which one wins."""

from collections.abc import Callable, Collection, Sequence

import msgspec

from interlock.crew.definition import RouteDefinition
from interlock.engine.routing.candidates import CHOSEN, STEERING, WON, Candidate, CandidateOutcome, Verb
from interlock.signals.definition import SignalBehavior
from interlock.signals.matching import METHODS, MatchMethod, SignalMatcher, marks
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


class PlacedMark(msgspec.Struct, frozen=True, gc=False):
    """A mark and the line of its closing bracket; emitted signals are on line 0."""

    inner: str
    start: int
    end: int
    line: int
    line_start: int
    line_end: int


class _SignalWay(msgspec.Struct, frozen=True):
    """What a signal of an agent does, computed once."""

    signal: str
    order: int
    route: RouteDefinition
    verb: Verb
    target: str
    outcome: CandidateOutcome
    can_win: bool


class Reading(msgspec.Struct, frozen=True):
    """The meaning of a mark for an agent: the names of its own signals that it may stand for, or none."""

    method: MatchMethod
    names: tuple[str, ...]


# Readings in the cache; a hostile text can contain any number of different marks.
READINGS_MAX = 1_000


class _Readings(dict[str, Reading | None]):
    """The readings of an agent's marks so far; others are made when they are asked for."""

    def __init__(self, own: SignalMatcher, known: SignalMatcher, near: NameSuggestions) -> None:
        super().__init__()
        self._own, self._known, self._near = own, known, near

    def __missing__(self, inner: str) -> Reading | None:
        method, names = self._own.lookup(inner)
        is_near = bool(names) or self._known.recognizes(inner) or self._near.nearest(inner) is not None
        reading = Reading(method, names) if is_near else None
        if len(self) < READINGS_MAX:
            self[inner] = reading
        return reading


class OwnMarks:
    """The marks that one agent's routes are for. What `held_verbs` do waits for the approval of a person."""

    def __init__(
        self,
        routes: Sequence[RouteDefinition],
        known: SignalMatcher,
        near: NameSuggestions,
        held_verbs: tuple[Verb, ...] = (),
    ) -> None:
        self.ways = {route.signal: _way(order, route) for order, route in enumerate(routes)}
        self.held_verbs = held_verbs
        # The meaning of a mark; None if it is neither one of the agent's, nor one of the crew's, nor nearly one.
        self.reading = _Readings(SignalMatcher(self.ways), known, near).__getitem__

    def is_steering(self, inner: str) -> bool:
        """Whether every meaning of a mark moves control."""
        names = self.names_of(inner)
        return bool(names) and all(self.ways[name].can_win for name in names)

    def names_of(self, inner: str) -> tuple[str, ...]:
        """The agent's own signals that a mark may stand for."""
        reading = self.reading(inner)
        return reading.names if reading is not None else ()

    def candidates(self, seen: list[tuple[PlacedMark, Reading]]) -> tuple[Candidate, ...]:
        """The candidates, best first; one per signal, from its most exact and first mark."""
        if len(seen) == 1 and len(seen[0][1].names) == 1:  # the usual case
            mark, reading = seen[0]
            way = self.ways[reading.names[0]]
            return (_candidate(way, way if way.can_win else None, reading.method, mark),)
        best: dict[str, tuple[int, MatchMethod, PlacedMark]] = {}
        for mark, reading in seen:
            exactness = EXACTNESS[reading.method]
            for name in reading.names:
                if name not in best or exactness < best[name][0]:
                    best[name] = (exactness, reading.method, mark)
        ranked = [
            (-self.ways[name].route.priority, found[0], self.ways[name].order, name) for name, found in best.items()
        ]
        ranked.sort()
        ways = [self.ways[name] for *_, name in ranked]
        winner = next((way for way in ways if way.can_win), None)
        return tuple(_candidate(way, winner, *best[way.signal][1:]) for way in ways)


def _way(order: int, route: RouteDefinition) -> _SignalWay:
    outcome = (
        CandidateOutcome.NOTED
        if route.acknowledges
        else CandidateOutcome.TOLD
        if route.is_tell
        else CandidateOutcome.LOST
    )
    target, can_win = route.target_crew or route.target, outcome is CandidateOutcome.LOST
    return _SignalWay(route.signal, order, route, verb_of(route), target, outcome, can_win)


def signals_to_call(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The sub-crew signals that run together, in file order."""
    together = [c for c in candidates if c.outcome in CHOSEN]
    return tuple(c.signal for c in sorted(together, key=lambda c: c.order))


def verb_of(route: RouteDefinition) -> Verb:
    if route.is_tell:
        return Verb.TELL
    return Verb.AWAIT if route.behavior is SignalBehavior.EXTERNAL else _VERBS[route.behavior]


def _candidate(way: _SignalWay, winner: _SignalWay | None, method: MatchMethod, mark: PlacedMark) -> Candidate:
    outcome, conflicts = way.outcome, False
    if way is winner:
        outcome = WON
    elif way.can_win and winner is not None:
        outcome = _outcome_beside(winner, way)
        differs = (way.verb, way.target) != (winner.verb, winner.target)
        conflicts = outcome is CandidateOutcome.LOST and differs
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
        conflicts=conflicts,
    )


def _outcome_beside(winner: _SignalWay, way: _SignalWay) -> CandidateOutcome:
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


# Where marks stand


def marks_with_lines(text: str, wanted: Callable[[str], object], reading: int) -> list[PlacedMark]:
    """The wanted marks with their lines; each line is searched once."""
    found = marks(text, wanted, reading)
    if "\r" in text:  # the same length, so that positions stay valid
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    placed: list[PlacedMark] = []
    number, start, end = 1, 0, -1
    for mark in found:
        last = mark.end - 1
        if last > end:
            number += text.count("\n", start, last)
            start = text.rfind("\n", start, last) + 1 or start
            end = text.find("\n", last)
            end = len(text) if end < 0 else end
        placed.append(PlacedMark(mark.inner, mark.start, mark.end, number, start, end))
    return placed


def lines_that_count(
    position: str, seen: Sequence[PlacedMark], text: str, recognizes: Callable[[str], bool]
) -> Collection[int]:
    """The numbers of the lines whose marks count, among those with marks."""
    if position == "last_line":
        last = seen[-1]
        return (last.line,) if last.line_end >= len(text.rstrip()) else ()
    if position == "own_line":
        return _mark_only_lines(seen, text, recognizes)
    return {mark.line for mark in seen}


# Blanks and emphasis beside marks do not count as text.
_AROUND_MARKS = "*_~ \t\r"


def _mark_only_lines(seen: Sequence[PlacedMark], text: str, recognizes: Callable[[str], bool]) -> set[int]:
    """The numbers of lines that hold only marks, blanks and emphasis."""
    by_line: dict[int, list[PlacedMark]] = {}
    for mark in seen:
        if recognizes(mark.inner):
            by_line.setdefault(mark.line, []).append(mark)
    return {line for line, group in by_line.items() if is_mark_only(text, group)}


def is_mark_only(text: str, group: list[PlacedMark]) -> bool:
    """Whether the line of these marks holds only them, blanks and emphasis."""
    return not _rest_of_line(text, group).strip(_AROUND_MARKS)


def _rest_of_line(text: str, group: list[PlacedMark]) -> str:
    rest, position = "", group[0].line_start
    for mark in group:
        rest += text[position : mark.start]
        position = mark.end
    return rest + text[position : group[0].line_end]
