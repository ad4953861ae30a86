"""From a reply to a decision, with its reasons.

Rule 1: only an agent's own final reply steers; it has a type of its own, and nothing else is ever looked at.
Rule 2: tells all fire; among the rest the highest priority wins, then the more exact match, then file order.
Rule 3: a mark that does not steer is named with its reason; nothing is dropped in silence.
Rule 4: without a signal control goes where the crew says, never to some other agent.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from interlock.crew.definition import Agent, Crew, Route
from interlock.crew.graph import ends_without_signal
from interlock.crew.registry import registry_of
from interlock.errors import UsageError, nearest
from interlock.signals.definition import SignalBehavior
from interlock.signals.emphasis import with_emphasis
from interlock.signals.matching import METHODS, MatchMethod, SignalMatcher, marks
from interlock.signals.nearness import NearNames


class Verb(StrEnum):
    """Everything an agent can cause."""

    HAND_OVER = "hand_over"
    CALL = "call"
    FORK = "fork"
    AWAIT = "await"
    TELL = "tell"
    END = "end"


class OwnReply(msgspec.Struct, frozen=True):
    """What the current agent itself said to end its turn. Text of any other origin has no such type.

    `emitted` are the insides of the marks that it gave to `emit_signal`, where signal_mode is tool.
    """

    agent: str
    text: str
    emitted: tuple[str, ...] = ()


class Outcome(StrEnum):
    """What became of a candidate."""

    WON = "won"
    JOINED = "joined"  # a sub-crew call that runs beside the winning one
    LOST = "lost"
    TOLD = "told"
    NOTED = "noted"  # it acknowledges, and steers nothing


_STEERING = (Outcome.WON, Outcome.JOINED, Outcome.LOST)


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A routed mark of the reply, with everything the choice looks at. What was emitted stands on line 0."""

    signal: str
    method: MatchMethod = MatchMethod.EXACT
    start: int
    end: int
    line: int = 1
    priority: int = 50
    order: int = 0
    verb: Verb = Verb.HAND_OVER
    target: str
    outcome: Outcome = Outcome.WON
    conflicts: bool = False


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A mark that does not steer, and why."""

    mark: str
    start: int
    end: int
    line: int
    reason: str
    nearest: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply causes. Without a verb nothing moves, and `then` says whether to nudge or to fail."""

    agent: str
    verb: Verb | None
    because: str
    signal: str = ""
    target: str = ""
    held: bool = False
    then: str = ""
    calls: tuple[str, ...] = ()  # where several sub-crews are called at once, all of their signals
    candidates: tuple[Candidate, ...] = ()
    rejected: tuple[Rejection, ...] = ()


_VERBS = {
    SignalBehavior.TERMINATE: Verb.END,
    SignalBehavior.ROUTE: Verb.HAND_OVER,
    SignalBehavior.PAUSE: Verb.AWAIT,
    SignalBehavior.PARALLEL: Verb.FORK,
    SignalBehavior.BROADCAST: Verb.TELL,
    SignalBehavior.SUB_CREW: Verb.CALL,
}

_EXACTNESS = {method: n for n, method in enumerate(METHODS)}


class RoutingTable:
    """A crew's routes, made ready for replies once."""

    def __init__(self, crew: Crew, reading: int = 3) -> None:
        self.crew = crew
        self.reading = reading  # of marks, see `signals.matching`
        self._older: RoutingTable | None = None
        self._agents = {agent.id: agent for agent in crew.agents}
        self.registry = registry_of(crew)
        self._known = SignalMatcher(self.registry.names())
        self._near = NearNames(self._known.names)
        self._own: dict[str, _OwnMarks] = {}

    def for_rules(self, rules: int) -> "RoutingTable":
        """The table by which runs of these rules read replies."""
        if rules >= 3 or self.reading < 3:
            return self
        self._older = self._older or RoutingTable(self.crew, 2)
        return self._older

    def decide(self, reply: OwnReply) -> Decision:
        """What this reply causes, and why."""
        agent = self._agents.get(reply.agent)
        if agent is None:
            raise UsageError(
                f"crew '{self.crew.name}' has no agent '{reply.agent}'; "
                f"{nearest(reply.agent, list(self._agents), 'agents: ' + ', '.join(self._agents))}"
            )
        own = self._marks_of(reply.agent)
        seen = _placed(reply.text, own.speaks_of, self.reading)
        if not seen and not reply.emitted:
            return self._decision(agent, (), ())
        counts = self._counting(seen, reply.text)
        counted: list[_Placed] = []
        refused: list[_Placed] = []
        for mark in seen:
            (counted if counts(mark) and own.reading(mark.inner).names else refused).append(mark)
        for inner in reply.emitted:
            (counted if own.reading(inner).names else refused).append(_Placed(inner, 0, 0, 0, 0, 0))
        rejected = self._rejections(own, agent.id, refused) if refused else ()
        return self._decision(agent, own.candidates(counted), rejected)

    def tools_of(self, agent: str) -> tuple[str, ...]:
        """None if there is no such agent."""
        return self._agents[agent].tools if agent in self._agents else ()

    def route(self, agent: str, signal: str) -> Route:
        return self._marks_of(agent).ways[signal].route

    def knows(self, inner: str) -> bool:
        """Whether a mark of this inside is a signal of the crew, whoever may use it."""
        return self._known.recognizes(inner)

    def is_own(self, agent: str, inner: str) -> bool:
        """Whether a mark of this inside is one that the agent's routes are for."""
        return bool(self._marks_of(agent).reading(inner).names)

    def steers_alone(self, agent: str, text: str) -> bool:
        """Whether the last line of the text holds nothing but marks that steer for this agent."""
        own = self._marks_of(agent)
        seen = [mark for mark in _placed(text, own.steers, self.reading) if mark.line_end == len(text)]
        return bool(seen) and not _rest_of_line(text, seen).strip(_AROUND_MARKS)

    def max_occurs(self, signal: str) -> int | None:
        definition = self.registry.get(signal)
        return definition.max_occurs if definition is not None else None

    def deprecated_msg(self, signal: str) -> str:
        """What a deprecated signal tells its users; empty if it is not deprecated."""
        definition = self.registry.get(signal)
        return definition.deprecated_msg if definition is not None else ""

    def without_marks(self, text: str) -> str:
        """The text as a person would like to read it: every known mark taken out, with the emphasis around it."""
        spans = [(mark.start, mark.end) for mark in marks(text, self._known.recognizes, self.reading)]
        if self.reading >= 3:
            spans = with_emphasis(text, spans)
        kept, position = [], 0
        for start, end in spans:
            kept.append(text[position:start])
            position = end
        return "".join((*kept, text[position:])).strip()

    def winner_of(self, decision: Decision) -> Decision:
        """What would be done if a contradiction were settled by priority after all."""
        winner = next(c for c in decision.candidates if c.outcome is Outcome.WON)
        held = self._is_held(decision.agent, winner.verb)
        return msgspec.structs.replace(
            decision, verb=winner.verb, because="signal", target=winner.target, held=held, then=""
        )

    def member_decision(self, reply: OwnReply) -> Decision | None:
        """What a member's own marks ask for: the best that does not wait, even if others contradict it."""
        decision = self.decide(reply)
        marks_that_go = [c for c in decision.candidates if c.outcome in _STEERING and c.verb is not Verb.AWAIT]
        if not marks_that_go:
            return None
        best = marks_that_go[0]
        judged = tuple(_judged_for_member(c, best) for c in decision.candidates)
        return self.winner_of(msgspec.structs.replace(decision, signal=best.signal, candidates=judged))

    def decision_of(self, agent: str, signal: str, calls: tuple[str, ...] = ()) -> Decision:
        """What a held mark does once it is approved."""
        route = self.route(agent, signal)
        target = route.target_crew or route.target
        return Decision(agent=agent, verb=_verb(route), because="signal", signal=signal, target=target, calls=calls)

    def rank_of(self, decision: Decision) -> tuple[int, int]:
        """Less is better; for decisions of several members."""
        winner = next(c for c in decision.candidates if c.outcome is Outcome.WON)
        return -winner.priority, _EXACTNESS[winner.method]

    def _marks_of(self, agent: str) -> "_OwnMarks":
        if agent not in self._own:
            self._own[agent] = _OwnMarks(self.crew.routes.get(agent, ()), self._known, self._near)
        return self._own[agent]

    def _counting(self, seen: list["_Placed"], text: str) -> Callable[["_Placed"], bool]:
        """Whether a mark stands where marks count."""
        if self.crew.settings.signal_mode == "tool":
            return _no_mark_counts
        return _position_rule(self._position, seen, text, self._known.recognizes)

    def _rejections(self, own: "_OwnMarks", agent: str, refused: list["_Placed"]) -> tuple[Rejection, ...]:
        once: dict[str, _Placed] = {}  # the first of each; a reply may repeat one for ever
        for mark in refused:
            once.setdefault(mark.inner, mark)
        named = list(once.values())[:REJECTIONS_MAX]
        return tuple(self._rejection(own, agent, mark) for mark in named)

    def _rejection(self, own: "_OwnMarks", agent: str, mark: "_Placed") -> Rejection:
        if own.reading(mark.inner).names:
            return _rejected(mark, self._why_it_does_not_count())
        if self._known.recognizes(mark.inner):
            name = self._known.lookup(mark.inner)[1][0]
            return _rejected(mark, self._why_not(agent, name), name)
        near = self._near.nearest(mark.inner)
        if near is None:  # only what is emitted comes here without any likeness
            return _rejected(mark, f"unknown: the crew has no signal [{mark.inner}]")
        return _rejected(mark, f"unknown: it differs from {near} by one edit", near)

    def _why_it_does_not_count(self) -> str:
        if self.crew.settings.signal_mode == "tool":
            return "mode: signal_mode is tool, marks in text are ignored"
        return f"position: signal_position is {self._position}"

    @property
    def _position(self) -> str:
        return self.crew.settings.signal_position

    def _why_not(self, agent: str, name: str) -> str:
        definition = self.registry.get(name)
        narrowed = self._agents[agent].signals
        forbidden = definition is not None and not definition.may_be_emitted_by(agent)
        if forbidden or (narrowed is not None and name not in narrowed):
            return f"forbidden: agent '{agent}' is not allowed to emit {name}"
        return f"not routed: agent '{agent}' has no route for {name}"

    def _decision(self, agent: Agent, candidates: tuple[Candidate, ...], rejected: tuple[Rejection, ...]) -> Decision:
        """What the candidates, best first, come to."""
        winners = [candidate for candidate in candidates if candidate.outcome is Outcome.WON]
        if not winners:
            decision = self._without_signal(agent)
            if not candidates and not rejected:
                return decision
            return msgspec.structs.replace(decision, candidates=candidates, rejected=rejected)
        winner, on_conflict = winners[0], self.crew.settings.on_conflict
        undecided = on_conflict != "priority" and any(c.conflicts for c in candidates)
        return Decision(
            agent=agent.id,
            verb=None if undecided else winner.verb,
            because="conflict" if undecided else "signal",
            signal=winner.signal,
            target="" if undecided else winner.target,
            held=not undecided and self._is_held(agent.id, winner.verb),
            then=on_conflict if undecided else "",
            calls=_calls(candidates) if winner.verb is Verb.CALL else (),
            candidates=candidates,
            rejected=rejected,
        )

    def _is_held(self, agent: str, verb: Verb) -> bool:
        return verb in (Verb.HAND_OVER, Verb.FORK, Verb.CALL) and not self.crew.behavior_of(agent).auto_route

    def _without_signal(self, agent: Agent) -> Decision:
        crew, here = self.crew, agent.id
        if crew.behavior_of(here).wait_for_signal:
            return Decision(agent=here, verb=Verb.AWAIT, because="wait_for_signal", target=here)
        if ends_without_signal(crew, agent):
            return Decision(agent=here, verb=Verb.END, because="terminal_agent")
        if here in crew.defaults:
            return Decision(agent=here, verb=Verb.HAND_OVER, because="default", target=crew.defaults[here])
        if agent.handoff_targets:
            target = agent.handoff_targets[0]
            return Decision(agent=here, verb=Verb.HAND_OVER, because="handoff_target", target=target)
        if crew.settings.on_no_signal == "complete":
            return Decision(agent=here, verb=Verb.END, because="no_signal_complete")
        return Decision(agent=here, verb=None, because="no_signal", then=crew.settings.on_no_signal)


# Where marks stand


class _Placed(msgspec.Struct, frozen=True):
    """A mark and the line of its closing bracket."""

    inner: str
    start: int
    end: int
    line: int
    line_start: int
    line_end: int


def _placed(text: str, wanted: Callable[[str], bool], reading: int) -> list[_Placed]:
    """The wanted marks with their lines; each line is looked for once."""
    found = marks(text, wanted, reading)
    if "\r" in text:  # same length, so that positions stay
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    placed: list[_Placed] = []
    number, start, end = 1, 0, -1
    for mark in found:
        last = mark.end - 1
        if last > end:
            number += text.count("\n", start, last)
            start = text.rfind("\n", start, last) + 1 or start
            end = text.find("\n", last)
            end = len(text) if end < 0 else end
        placed.append(_Placed(mark.inner, mark.start, mark.end, number, start, end))
    return placed


def _position_rule(
    position: str, seen: list[_Placed], text: str, recognizes: Callable[[str], bool]
) -> Callable[[_Placed], bool]:
    """Whether a mark stands where marks count."""
    if position == "last_line":
        last = len(text.rstrip())
        return lambda mark: mark.line_end >= last
    if position == "own_line":
        lines = _lines_of_nothing_but_marks(seen, text, recognizes)
        return lambda mark: mark.line in lines
    return lambda mark: True


def _no_mark_counts(mark: _Placed) -> bool:
    return False


# Emphasis and blanks beside marks are not words.
_AROUND_MARKS = "*_~ \t\r"


def _lines_of_nothing_but_marks(seen: list[_Placed], text: str, recognizes: Callable[[str], bool]) -> set[int]:
    """Lines whose every character belongs to a mark, is blank, or is emphasis."""
    by_line: dict[int, list[_Placed]] = {}
    for mark in seen:
        if recognizes(mark.inner):
            by_line.setdefault(mark.line, []).append(mark)
    return {line for line, group in by_line.items() if not _rest_of_line(text, group).strip(_AROUND_MARKS)}


def _rest_of_line(text: str, group: list[_Placed]) -> str:
    rest, position = "", group[0].line_start
    for mark in group:
        rest += text[position : mark.start]
        position = mark.end
    return rest + text[position : group[0].line_end]


def _rejected(mark: _Placed, reason: str, name: str = "") -> Rejection:
    return Rejection(
        mark=f"[{mark.inner}]", start=mark.start, end=mark.end, line=mark.line, reason=reason, nearest=name
    )


# Who wins


class _Way(msgspec.Struct, frozen=True):
    """What a signal of an agent does, worked out once."""

    signal: str
    order: int
    route: Route
    verb: Verb
    target: str
    outcome: Outcome


class _Reading(msgspec.Struct, frozen=True):
    """What the inside of a mark says to an agent: the names it may mean, or none of its own."""

    method: MatchMethod
    names: tuple[str, ...]
    speaks: bool


# Marks of one reply that are named with the reason why they do not steer; the reply itself is in the journal.
REJECTIONS_MAX = 100

# Readings that are remembered; a hostile text can make up any number of marks.
READINGS_MAX = 1_000


class _OwnMarks:
    """The marks that one agent's routes are for."""

    def __init__(self, routes: Sequence[Route], known: SignalMatcher, near: NearNames) -> None:
        self.ways = {route.signal: _way(order, route) for order, route in enumerate(routes)}
        self._own, self._known, self._near = SignalMatcher(self.ways), known, near
        self._readings: dict[str, _Reading] = {}

    def speaks_of(self, inner: str) -> bool:
        """Whether a mark is one of the agent's, one of the crew's, or nearly one."""
        return self.reading(inner).speaks

    def steers(self, inner: str) -> bool:
        """Whether a mark, whatever it may mean here, moves control."""
        names = self.reading(inner).names
        return bool(names) and all(self.ways[name].outcome is Outcome.LOST for name in names)

    def reading(self, inner: str) -> _Reading:
        reading = self._readings.get(inner)
        if reading is None:
            method, names = self._own.lookup(inner)
            speaks = bool(names) or self._known.recognizes(inner) or self._near.nearest(inner) is not None
            reading = _Reading(method, names, speaks)
            if len(self._readings) < READINGS_MAX:
                self._readings[inner] = reading
        return reading

    def candidates(self, seen: list[_Placed]) -> tuple[Candidate, ...]:
        """Best first, one a signal: its most exact mark, and of those the first."""
        if len(seen) == 1 and len((reading := self.reading(seen[0].inner)).names) == 1:  # nearly always
            way = self.ways[reading.names[0]]
            return (_candidate(way, way if way.outcome is Outcome.LOST else None, reading.method, seen[0]),)
        best: dict[str, tuple[int, MatchMethod, _Placed]] = {}
        for mark in seen:
            reading = self.reading(mark.inner)
            exactness = _EXACTNESS[reading.method]
            for name in reading.names:
                if name not in best or exactness < best[name][0]:
                    best[name] = (exactness, reading.method, mark)
        ranked = [
            (-self.ways[name].route.priority, found[0], self.ways[name].order, name) for name, found in best.items()
        ]
        ranked.sort()
        ways = [self.ways[name] for *_, name in ranked]
        winner = next((way for way in ways if way.outcome is Outcome.LOST), None)
        return tuple(_candidate(way, winner, *best[way.signal][1:]) for way in ways)


def _way(order: int, route: Route) -> _Way:
    outcome = Outcome.NOTED if route.acknowledges else Outcome.TOLD if route.is_tell else Outcome.LOST
    return _Way(route.signal, order, route, _verb(route), route.target_crew or route.target, outcome)


def _calls(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The sub-crew signals that are followed together, in file order."""
    together = [c for c in candidates if c.outcome in (Outcome.WON, Outcome.JOINED)]
    return tuple(c.signal for c in sorted(together, key=lambda c: c.order))


def _verb(route: Route) -> Verb:
    if route.is_tell:
        return Verb.TELL
    return Verb.AWAIT if route.behavior is SignalBehavior.EXTERNAL else _VERBS[route.behavior]


def _candidate(way: _Way, winner: _Way | None, method: MatchMethod, mark: _Placed) -> Candidate:
    outcome = way.outcome if way.outcome is not Outcome.LOST or winner is None else _judged(way, winner)
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
        conflicts=outcome is Outcome.LOST
        and winner is not None
        and (way.verb, way.target) != (winner.verb, winner.target),
    )


def _judged(way: _Way, winner: _Way) -> Outcome:
    if way is winner:
        return Outcome.WON
    if way.verb is winner.verb is Verb.CALL and way.route.priority == winner.route.priority:
        return Outcome.JOINED
    return Outcome.LOST


def _judged_for_member(candidate: Candidate, best: Candidate) -> Candidate:
    if candidate.outcome not in _STEERING:
        return candidate
    outcome = Outcome.WON if candidate is best else Outcome.NOTED if candidate.verb is Verb.AWAIT else Outcome.LOST
    differs = (candidate.verb, candidate.target) != (best.verb, best.target)
    return msgspec.structs.replace(candidate, outcome=outcome, conflicts=outcome is Outcome.LOST and differs)
