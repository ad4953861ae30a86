"""Routing: from a reply to a decision, with its reasons.

Rule 1: only an agent's own final reply steers; it has its own type, `OwnReply`, and no other text is read.
Rule 2: all notifications fire; among the rest the highest priority wins, then the more exact match, then file order.
Rule 3: a mark that does not steer is recorded with its reason.
Rule 4: without a signal, control goes where the crew says, never to another agent.
"""

from collections.abc import Collection

import msgspec

from interlock.crew.definition import AgentDefinition, CrewDefinition, RouteDefinition
from interlock.crew.graph import ends_without_signal
from interlock.crew.outputs.asked import outputs_by_agent
from interlock.crew.registry import registry_of
from interlock.engine.kinds import ASK_USER
from interlock.engine.routing.candidates import CALL, STEERING, TRANSFERS, WON, Candidate, CandidateOutcome, Verb
from interlock.engine.routing.own_marks import (
    EXACTNESS,
    OwnMarks,
    PlacedMark,
    Reading,
    candidate_of_member,
    is_mark_only,
    lines_that_count,
    marks_with_lines,
    signals_to_call,
    verb_of,
)
from interlock.errors import UsageError, nearest
from interlock.signals.mark_filter import MarkFilter, MarkHolder, text_without_marks
from interlock.signals.matching import SignalMatcher
from interlock.signals.nearness import NameSuggestions


class OwnReply(msgspec.Struct, frozen=True, gc=False):
    """The reply by which the current agent ends its turn. Text of any other origin has no such type.

    `emitted` are the names that it gave to `emit_signal`, if signal_mode is tool.
    """

    agent: str
    text: str
    emitted: tuple[str, ...] = ()


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A mark that does not steer, with its reason."""

    mark: str
    start: int
    end: int
    line: int
    reason: str
    nearest: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The decision for a reply. Without a verb there is no action, and `then` is nudge or fail."""

    agent: str
    verb: Verb | None
    because: str
    signal: str = ""
    target: str = ""
    held: bool = False
    then: str = ""
    calls: tuple[str, ...] = ()  # all signals, if several sub-crews are called together
    candidates: tuple[Candidate, ...] = ()
    rejected: tuple[Rejection, ...] = ()


class RoutingTable:
    """A crew's routes, prepared once for all replies of all its runs.

    `is_known_mark` tells whether a mark with this name is a signal of the crew, for any agent. `deprecations` is the
    advice for each deprecated signal, `max_occurs` the bound of each signal that has one. `messaging_agents` have a
    place in the delegation tree, or may ask a person.
    """

    def __init__(self, crew: CrewDefinition, reading: int = 3) -> None:
        self.crew = crew
        self.reading = reading  # the version of the reader of marks, see `signals.matching`
        self._older: RoutingTable | None = None
        self._agents = {agent.id: agent for agent in crew.agents}
        self.registry = registry_of(crew)
        self._known = SignalMatcher(self.registry.names())
        self.is_known_mark = self._known.recognizes
        self.deprecations = {each.name: each.deprecated_msg for each in self.registry.all() if each.deprecated_msg}
        self.max_occurs = {each.name: each.max_occurs for each in self.registry.all() if each.max_occurs is not None}
        self.messaging_agents = _messaging_agents(crew)
        self._near = NameSuggestions(self._known.names)
        self._own: dict[str, OwnMarks] = {}
        self.outputs = outputs_by_agent(crew)  # the agents that are asked for a typed value

    def for_rules(self, rules: int) -> "RoutingTable":
        """The table for runs of these rules."""
        if rules >= 3 or self.reading < 3:
            return self
        self._older = self._older or RoutingTable(self.crew, 2)
        return self._older

    def decide(self, reply: OwnReply) -> Decision:
        """The decision for this reply, with its reasons."""
        own = self._own.get(reply.agent) or self._marks_of(reply.agent)
        seen = marks_with_lines(reply.text, own.reading, self.reading)
        if not seen and not reply.emitted:
            return self._decision(reply.agent, own, (), ())
        settings = self.crew.settings
        lines: Collection[int] = ()
        if seen and settings.signal_mode != "tool":
            lines = lines_that_count(settings.signal_position, seen, reply.text, self.is_known_mark)
        counted: list[tuple[PlacedMark, Reading]] = []
        refused: list[PlacedMark] = []
        if reply.emitted:
            seen += [PlacedMark(inner, 0, 0, 0, 0, 0) for inner in reply.emitted]
        for mark in seen:
            reading = own.reading(mark.inner)
            if reading is not None and reading.names and (mark.line in lines or mark.line == 0):
                counted.append((mark, reading))
            else:
                refused.append(mark)
        rejected = self._rejections(own, reply.agent, refused) if refused else ()
        return self._decision(reply.agent, own, own.candidates(counted), rejected)

    def route(self, agent: str, signal: str) -> RouteDefinition:
        return self._marks_of(agent).ways[signal].route

    def is_own_mark(self, agent: str, inner: str) -> bool:
        """Whether a mark with this name has a route of the agent."""
        return bool(self._marks_of(agent).names_of(inner))

    def is_steering_line(self, agent: str, text: str) -> bool:
        """Whether the last line of the text holds only marks that steer for this agent."""
        own = self._marks_of(agent)
        seen = [mark for mark in marks_with_lines(text, own.is_steering, self.reading) if mark.line_end == len(text)]
        return bool(seen) and is_mark_only(text, seen)

    def without_marks(self, text: str) -> str:
        """The text for people: without known marks and the emphasis around them."""
        return text_without_marks(text, self._known, self.reading)

    def mark_filter(self) -> MarkFilter | MarkHolder:
        """A filter that gives the same text while a reply streams."""
        return MarkFilter(self._known) if self.reading >= 3 else MarkHolder(self._known, self.reading)

    def winner_of(self, decision: Decision) -> Decision:
        """The decision if a conflict is resolved by priority."""
        winner = next(c for c in decision.candidates if c.outcome is CandidateOutcome.WON)
        held = winner.verb in self._marks_of(decision.agent).held_verbs
        return msgspec.structs.replace(
            decision, verb=winner.verb, because="signal", target=winner.target, held=held, then=""
        )

    def member_decision(self, reply: OwnReply) -> Decision | None:
        """The decision of a member's own marks: the best one that does not wait, even in a conflict."""
        decision = self.decide(reply)
        marks_that_go = [c for c in decision.candidates if c.outcome in STEERING and c.verb is not Verb.AWAIT]
        if not marks_that_go:
            return None
        best = marks_that_go[0]
        judged = tuple(candidate_of_member(c, best) for c in decision.candidates)
        return self.winner_of(msgspec.structs.replace(decision, signal=best.signal, candidates=judged))

    def decision_of(self, agent: str, signal: str, calls: tuple[str, ...] = ()) -> Decision:
        """The decision of a held mark that was approved."""
        route = self.route(agent, signal)
        target = route.target_crew or route.target
        return Decision(agent=agent, verb=verb_of(route), because="signal", signal=signal, target=target, calls=calls)

    def rank_of(self, decision: Decision) -> tuple[int, int]:
        """The rank among decisions of several members; lower is better."""
        winner = next(c for c in decision.candidates if c.outcome is CandidateOutcome.WON)
        return -winner.priority, EXACTNESS[winner.method]

    def _marks_of(self, agent: str) -> OwnMarks:
        if agent not in self._own:
            if agent not in self._agents:
                raise UsageError(
                    f"crew '{self.crew.name}' has no agent '{agent}'; "
                    f"{nearest(agent, list(self._agents), 'agents: ' + ', '.join(self._agents))}"
                )
            # Where auto_route is false, a person approves of transfers.
            held = () if self.crew.behavior_of(agent).auto_route else TRANSFERS
            self._own[agent] = OwnMarks(self.crew.routes.get(agent, ()), self._known, self._near, held)
        return self._own[agent]

    def _rejections(self, own: OwnMarks, agent: str, refused: list[PlacedMark]) -> tuple[Rejection, ...]:
        once: dict[str, PlacedMark] = {}  # the first of each; a reply may repeat a mark without end
        for mark in refused:
            once.setdefault(mark.inner, mark)
        named = list(once.values())[:REJECTIONS_MAX]
        return tuple(self._rejection(own, agent, mark) for mark in named)

    def _rejection(self, own: OwnMarks, agent: str, mark: PlacedMark) -> Rejection:
        if own.names_of(mark.inner):
            return _rejection_of(mark, self._reason_not_counted())
        if self._known.recognizes(mark.inner):
            name = self._known.lookup(mark.inner)[1][0]
            return _rejection_of(mark, self._why_not(agent, name), name)
        near = self._near.nearest(mark.inner)
        if near is None:  # only for emitted names
            return _rejection_of(mark, f"unknown: the crew has no signal [{mark.inner}]")
        return _rejection_of(mark, f"unknown: it differs from {near} by one edit", near)

    def _reason_not_counted(self) -> str:
        if self.crew.settings.signal_mode == "tool":
            return "mode: signal_mode is tool, marks in text are ignored"
        return f"position: signal_position is {self.crew.settings.signal_position}"

    def _why_not(self, agent: str, name: str) -> str:
        definition = self.registry.get(name)
        narrowed = self._agents[agent].signals
        forbidden = definition is not None and not definition.may_be_emitted_by(agent)
        if forbidden or (narrowed is not None and name not in narrowed):
            return f"forbidden: agent '{agent}' is not allowed to emit {name}"
        return f"not routed: agent '{agent}' has no route for {name}"

    def _decision(
        self,
        agent: str,
        own: OwnMarks,
        candidates: tuple[Candidate, ...],
        rejected: tuple[Rejection, ...],
    ) -> Decision:
        """The decision among the candidates, best first."""
        winner = None
        for candidate in candidates:
            if candidate.outcome is WON:
                winner = candidate
                break
        if winner is None:
            decision = self._without_signal(self._agents[agent])
            if not candidates and not rejected:
                return decision
            return msgspec.structs.replace(decision, candidates=candidates, rejected=rejected)
        on_conflict = self.crew.settings.on_conflict
        undecided = on_conflict != "priority" and any(c.conflicts for c in candidates)
        return Decision(
            agent=agent,
            verb=None if undecided else winner.verb,
            because="conflict" if undecided else "signal",
            signal=winner.signal,
            target="" if undecided else winner.target,
            held=not undecided and winner.verb in own.held_verbs,
            then=on_conflict if undecided else "",
            calls=signals_to_call(candidates) if winner.verb is CALL else (),
            candidates=candidates,
            rejected=rejected,
        )

    def _without_signal(self, agent: AgentDefinition) -> Decision:
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


def _messaging_agents(crew: CrewDefinition) -> frozenset[str]:
    """The agents and sub-crews in the delegation tree, and the agents with the tool that asks people."""
    tree, asking = crew.delegation, [agent.id for agent in crew.agents if ASK_USER in agent.tools]
    if tree is None:
        return frozenset(asking)
    return frozenset([*asking, *(each for each, below in tree.children.items() if below), *tree.parents])


def _rejection_of(mark: PlacedMark, reason: str, name: str = "") -> Rejection:
    return Rejection(
        mark=f"[{mark.inner}]", start=mark.start, end=mark.end, line=mark.line, reason=reason, nearest=name
    )


# Rejected marks of one reply that are recorded; the reply itself is in the journal.
REJECTIONS_MAX = 100
