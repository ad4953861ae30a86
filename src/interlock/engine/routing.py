"""From a reply to a decision, with its reasons.

Rule 1: only an agent's own final reply steers; it has a type of its own, and nothing else is ever looked at.
Rule 2: tells all fire; among the rest the highest priority wins, then the more exact match, then file order.
Rule 3: a mark that does not steer is named with its reason; nothing is dropped in silence.
Rule 4: without a signal control goes where the crew says, never to some other agent.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from interlock.crew.definition import Agent, Crew, Route
from interlock.crew.graph import ends_without_signal
from interlock.crew.registry import registry_of
from interlock.errors import UsageError, nearest
from interlock.signals.definition import SignalBehavior
from interlock.signals.matching import METHODS, Mark, MatchMethod, SignalMatcher, marks
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
    """What the current agent itself said to end its turn. Text of any other origin has no such type."""

    agent: str
    text: str


class Outcome(StrEnum):
    """What became of a candidate."""

    WON = "won"
    JOINED = "joined"  # a sub-crew call that runs beside the winning one
    LOST = "lost"
    TOLD = "told"
    NOTED = "noted"  # it acknowledges, and steers nothing


_STEERING = (Outcome.WON, Outcome.JOINED, Outcome.LOST)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A routed mark of the reply, with everything the choice looks at."""

    signal: str
    method: MatchMethod
    start: int
    end: int
    line: int
    priority: int
    order: int
    verb: Verb
    target: str
    outcome: Outcome
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

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._agents = {agent.id: agent for agent in crew.agents}
        self._registry = registry_of(crew)
        self._known = SignalMatcher(self._registry.names())
        self._near = NearNames(self._known.names)
        self._own: dict[str, tuple[SignalMatcher, dict[str, tuple[int, Route]]]] = {}

    def decide(self, reply: OwnReply) -> Decision:
        """What this reply causes, and why."""
        agent = self._agents.get(reply.agent)
        if agent is None:
            raise UsageError(
                f"crew '{self.crew.name}' has no agent '{reply.agent}'; "
                f"{nearest(reply.agent, list(self._agents), 'agents: ' + ', '.join(self._agents))}"
            )
        own, routes = self._routes_of(agent.id)
        seen = _Lines(reply.text).placed(marks(reply.text, lambda inner: self._speaks_of(own, inner)))
        counts = _position_rule(self._position, seen, reply.text, self._known.recognizes)
        if self.crew.settings.signal_mode == "tool":
            counts = _no_mark_counts
        candidates = _candidates(own, routes, [mark for mark in seen if counts(mark) and own.recognizes(mark.inner)])
        decision = self._decision(agent, [c for c in candidates if c.outcome in _STEERING])
        rejected = (self._rejection(own, agent.id, mark, counts(mark)) for mark in seen)
        return msgspec.structs.replace(
            decision, candidates=tuple(candidates), rejected=tuple(r for r in rejected if r is not None)
        )

    def route(self, agent: str, signal: str) -> Route:
        return self._routes_of(agent)[1][signal][1]

    def knows(self, inner: str) -> bool:
        """Whether a mark of this inside is a signal of the crew, whoever may use it."""
        return self._known.recognizes(inner)

    def max_occurs(self, signal: str) -> int | None:
        definition = self._registry.get(signal)
        return definition.max_occurs if definition is not None else None

    def without_marks(self, text: str) -> str:
        """The text as a person would like to read it: every known mark taken out."""
        kept, position = [], 0
        for mark in marks(text, self._known.recognizes):
            kept.append(text[position : mark.start])
            position = mark.end
        return "".join((*kept, text[position:])).strip()

    def winner_of(self, decision: Decision) -> Decision:
        """What would be done if a contradiction were settled by priority after all."""
        winner = next(c for c in decision.candidates if c.outcome is Outcome.WON)
        return msgspec.structs.replace(decision, verb=winner.verb, because="signal", target=winner.target, then="")

    def decision_of(self, agent: str, signal: str) -> Decision:
        """What a held mark does once it is approved."""
        route = self.route(agent, signal)
        return Decision(
            agent=agent, verb=_verb(route), because="signal", signal=signal, target=route.target_crew or route.target
        )

    def rank_of(self, decision: Decision) -> tuple[int, int]:
        """Less is better; for decisions of several members."""
        winner = next(c for c in decision.candidates if c.outcome is Outcome.WON)
        return -winner.priority, _EXACTNESS[winner.method]

    def _routes_of(self, agent: str) -> tuple[SignalMatcher, dict[str, tuple[int, Route]]]:
        if agent not in self._own:
            routes = {route.signal: (n, route) for n, route in enumerate(self.crew.routes.get(agent, ()))}
            self._own[agent] = SignalMatcher(routes), routes
        return self._own[agent]

    def _speaks_of(self, own: SignalMatcher, inner: str) -> bool:
        return own.recognizes(inner) or self._known.recognizes(inner) or self._near.nearest(inner) is not None

    def _rejection(self, own: SignalMatcher, agent: str, mark: "_Placed", counts: bool) -> Rejection | None:
        if own.recognizes(mark.inner):
            return None if counts else _rejected(mark, self._why_it_does_not_count())
        if self._known.recognizes(mark.inner):
            name = self._known.lookup(mark.inner)[1][0]
            return _rejected(mark, self._why_not(agent, name), name)
        name = self._near.nearest(mark.inner) or ""
        return _rejected(mark, f"unknown: it differs from {name} by one edit", name)

    def _why_it_does_not_count(self) -> str:
        if self.crew.settings.signal_mode == "tool":
            return "mode: signal_mode is tool, marks in text are ignored"
        return f"position: signal_position is {self._position}"

    @property
    def _position(self) -> str:
        return self.crew.settings.signal_position

    def _why_not(self, agent: str, name: str) -> str:
        definition = self._registry.get(name)
        narrowed = self._agents[agent].signals
        forbidden = definition is not None and not definition.may_be_emitted_by(agent)
        if forbidden or (narrowed is not None and name not in narrowed):
            return f"forbidden: agent '{agent}' is not allowed to emit {name}"
        return f"not routed: agent '{agent}' has no route for {name}"

    def _decision(self, agent: Agent, steering: list[Candidate]) -> Decision:
        """What the steering candidates, best first, come to."""
        if not steering:
            return self._without_signal(agent)
        winner, on_conflict = steering[0], self.crew.settings.on_conflict
        if on_conflict != "priority" and any(c.conflicts for c in steering):
            return Decision(agent=agent.id, verb=None, because="conflict", signal=winner.signal, then=on_conflict)
        moves = winner.verb in (Verb.HAND_OVER, Verb.FORK, Verb.CALL)
        return Decision(
            agent=agent.id,
            verb=winner.verb,
            because="signal",
            signal=winner.signal,
            target=winner.target,
            held=moves and not self.crew.behavior_of(agent.id).auto_route,
        )

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


class _Lines:
    """Finds the lines of positions that grow, walking the text once."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text

    def placed(self, found: Iterable[Mark]) -> list[_Placed]:
        placed = []
        number, start, end = 1, 0, self._end(0)
        for mark in found:
            while mark.end > end + 1:
                number, start, end = number + 1, end + 1, self._end(end + 1)
            placed.append(_Placed(mark.inner, mark.start, mark.end, number, start, end))
        return placed

    def _end(self, position: int) -> int:
        at = self.text.find("\n", position)
        return at if at >= 0 else len(self.text)


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


def _lines_of_nothing_but_marks(seen: list[_Placed], text: str, recognizes: Callable[[str], bool]) -> set[int]:
    """Lines whose every character belongs to a mark, is blank, or is emphasis."""
    by_line: dict[int, list[_Placed]] = {}
    for mark in seen:
        if recognizes(mark.inner):
            by_line.setdefault(mark.line, []).append(mark)
    return {line for line, group in by_line.items() if not _rest_of_line(text, group).strip("*_~ \t\r")}


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


def _candidates(own: SignalMatcher, routes: dict[str, tuple[int, Route]], seen: list[_Placed]) -> list[Candidate]:
    """Best first, one a signal: its most exact mark, and of those the first."""
    best: dict[str, tuple[MatchMethod, _Placed]] = {}
    for mark in seen:
        method, names = own.lookup(mark.inner)
        for name in names:
            if name not in best or _EXACTNESS[method] < _EXACTNESS[best[name][0]]:
                best[name] = (method, mark)
    return _ranked([_candidate(name, *routes[name], *found) for name, found in best.items()])


def _candidate(name: str, order: int, route: Route, method: MatchMethod, mark: _Placed) -> Candidate:
    verb, outcome = _verb(route), Outcome.LOST
    if route.acknowledges:
        outcome = Outcome.NOTED
    elif route.is_tell:
        outcome = Outcome.TOLD
    return Candidate(
        signal=name,
        method=method,
        start=mark.start,
        end=mark.end,
        line=mark.line,
        priority=route.priority,
        order=order,
        verb=verb,
        target=route.target_crew or route.target,
        outcome=outcome,
    )


def _verb(route: Route) -> Verb:
    if route.is_tell:
        return Verb.TELL
    return Verb.AWAIT if route.behavior is SignalBehavior.EXTERNAL else _VERBS[route.behavior]


def _ranked(candidates: list[Candidate]) -> list[Candidate]:
    """Best first, each with what became of it."""
    ranked = sorted(candidates, key=lambda c: (-c.priority, _EXACTNESS[c.method], c.order))
    steering = [c for c in ranked if c.outcome is Outcome.LOST]
    if not steering:
        return ranked
    winner = steering[0]
    return [_judged(c, winner) if c.outcome is Outcome.LOST else c for c in ranked]


def _judged(candidate: Candidate, winner: Candidate) -> Candidate:
    if candidate is winner:
        return msgspec.structs.replace(candidate, outcome=Outcome.WON)
    if candidate.verb is winner.verb is Verb.CALL and candidate.priority == winner.priority:
        return msgspec.structs.replace(candidate, outcome=Outcome.JOINED)
    differs = (candidate.verb, candidate.target) != (winner.verb, winner.target)
    return msgspec.structs.replace(candidate, conflicts=differs)
