"""The laws that must hold after every record of a run. One function per law; each yields its violations.

Rule 1: a law reads the journal, the tally of earlier records, and the crew. None uses the engine, except laws that
compare two results of the engine.
Rule 2: a law never repairs and never raises; the caller decides what follows.
"""

from collections.abc import Callable, Iterator

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.delegation.tasks import deliver_messages
from interlock.engine.events import (
    AgentStateChanged,
    BranchFinished,
    BroadcastDelivered,
    ChildReturned,
    Event,
    GroupJoined,
    GroupStarted,
    HandedOver,
    InputRequested,
    MessageSent,
    MessageSettled,
    ModelCalled,
    ModelFailed,
    ModelReplied,
    Nudged,
    RunFinished,
    RunPaused,
    RunResumed,
    SignalSeen,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from interlock.engine.index import Index
from interlock.engine.kinds import TimerKind, TimerPurpose
from interlock.engine.run import Run
from interlock.engine.state import RunState, turns_of
from interlock.engine.transition import Transition
from interlock.engine.turns.model_calls import RETRIES_MAX
from interlock.engine.turns.replies import NUDGES_MAX
from interlock.messages.mailbox import OUTCOMES
from interlock.messages.states import MOVES, AgentState
from interlock.ports import Record
from interlock.signals.matching import SignalMatcher
from interlock.testing.simulation.ledger import JournalTally, begins_round, calls_of, is_stale
from interlock.testing.simulation.random_model import THOUGHT

# DESIGN.md section 7: how a run may end, and with which reasons.
REASONS = {
    "completed": ("signal:", "terminal_agent", "no_signal_complete"),
    "failed": (
        "no_signal",
        "conflict",
        "model_error",
        "group_failed",
        "child_failed",
        "tool_unknown_outcome",
        "script_exhausted",
        "cannot_continue",
        "hook_failed",
        "refused:",
    ),
    "stopped": ("max_handoffs", "max_input_size_kb", "max_rounds", "max_occurs", "timeout", "loop_detected", "budget:"),
    "cancelled": ("cancelled",),
}

# Working time is checked at events; a run may end this much after its limit.
TIMEOUT_SLACK_MS = 60_000


class RecordContext(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was just written, with its context."""

    crew: CrewDefinition
    ledger: JournalTally
    record: Record
    facts: tuple[Event, ...]
    replayed: Run
    passed_ms: int

    @property
    def events(self) -> tuple[Event, ...]:
        return self.record.events


def sequence_has_no_gaps(seen: RecordContext) -> Iterator[str]:
    expected = seen.ledger.last_seq + 1
    if seen.record.seq != expected:
        yield f"the record at seq {seen.record.seq} should be at {expected}"


def replay_gives_the_same(seen: RecordContext) -> Iterator[str]:
    if seen.facts != seen.record.events[1:]:
        yield f"at seq {seen.record.seq} the journal holds {seen.record.events[1:]}, and a replay gives {seen.facts}"


def nothing_follows_the_end(seen: RecordContext) -> Iterator[str]:
    if seen.ledger.finished is not None and not is_stale(seen.record):
        yield f"the run is over, and at seq {seen.record.seq} it did {_names(seen.events)}"


def keys_are_used_once(seen: RecordContext) -> Iterator[str]:
    ledger = seen.ledger
    used = {*ledger.calls, *ledger.tools, *map(ledger.short_key, ledger.tokens)}
    for event in seen.events:
        if isinstance(event, ModelCalled | ToolCalled | InputRequested):
            key = ledger.short_key(event.token if isinstance(event, InputRequested) else event.call)
            if key in used:
                yield f"the key {key} was used before, and now for {type(event).__name__}"
            used.add(key)


def an_answer_counts_once(seen: RecordContext) -> Iterator[str]:
    first = seen.events[0]
    if is_stale(seen.record):
        return
    if isinstance(first, ModelReplied | ModelFailed | ToolReturned | ChildReturned) and seen.ledger.has_answer(
        first.call
    ):
        yield f"the call {first.call} had an answer, and another one counted: {type(first).__name__}"
    if isinstance(first, RunResumed) and first.token in seen.ledger.given:
        yield f"the wait {first.token} was answered twice, and both answers counted"


def only_own_words_steer(seen: RecordContext) -> Iterator[str]:
    """A signal is found only in the agent's own reply, and steers only if that reply ends the turn."""
    first: object = seen.events[0]
    if isinstance(first, RunResumed):  # a reply that a hook of the host asked a person about
        first = seen.ledger.held_replies.get(first.token, first)
    for event in seen.events:
        if not isinstance(event, SignalSeen):
            continue
        if not isinstance(first, ModelReplied) or first.agent != event.agent:
            yield f"{event.signal} of {event.agent} was seen in a {type(first).__name__}, not in its own reply"
        elif not SignalMatcher([event.signal]).find(first.text):
            yield f"{event.signal} was seen in the reply {first.text!r} of {event.agent}, which does not hold it"
        elif event.steers and first.tool_calls:
            yield f"{event.signal} of {event.agent} steers, and the reply that holds it calls tools"


def reasoning_is_no_text(seen: RecordContext) -> Iterator[str]:
    """What a model reasoned is in its reply as reasoning, and in nothing that follows from the reply."""
    first = seen.events[0]
    if isinstance(first, ModelReplied) and THOUGHT in first.text:
        yield f"the reply of {first.agent} at seq {seen.record.seq} holds reasoning: {first.text!r}"
    if THOUGHT.encode() in msgspec.json.encode(seen.events[1:]):
        yield f"what followed at seq {seen.record.seq} holds reasoning: {_names(seen.events[1:])}"


def departures_are_bounded(seen: RecordContext) -> Iterator[str]:
    most = seen.replayed.settings.max_handoffs
    count = seen.ledger.departures + sum(isinstance(event, HandedOver | GroupStarted) for event in seen.events)
    count += calls_of(seen.record)
    if count > most:
        yield f"{count} departures of control, and max_handoffs is {most}"


def turns_are_bounded(seen: RecordContext) -> Iterator[str]:
    rounds, nudges = seen.ledger.rounds.copy(), seen.ledger.nudges.copy()
    with_backup, is_repeat = seen.ledger.with_backup.copy(), seen.ledger.repeats_call(seen.events[0])
    for event in seen.events:
        match event:
            case TurnStarted():
                rounds[event.agent] = nudges[event.agent] = 0
                with_backup.discard(event.agent)
            case ModelCalled():
                is_round = not event.purpose and not is_repeat
                rounds[event.agent] += is_round and begins_round(event, with_backup)
                if rounds[event.agent] > seen.crew.settings.max_rounds:
                    yield f"{event.agent} is asked {rounds[event.agent]} times in one turn"
                if event.attempt > RETRIES_MAX:
                    yield f"a failed call of {event.agent} is tried again {event.attempt} times"
            case Nudged():
                nudges[event.agent] += 1
                if nudges[event.agent] > NUDGES_MAX:
                    yield f"{event.agent} is nudged {nudges[event.agent]} times in one turn"
            case _:
                pass


def working_time_is_bounded(seen: RecordContext) -> Iterator[str]:
    """Working time is at most the time that passed, whatever the wall clock shows, and the run's limit ends it."""
    worked: int = getattr(seen.events[0], "worked_ms", 0)
    total = seen.ledger.worked_ms + worked
    if worked < 0 or total > seen.passed_ms:
        yield f"{total} ms were worked within {seen.passed_ms} ms"
    bound = int(seen.replayed.settings.timeout_seconds * 1000)
    if total > bound + TIMEOUT_SLACK_MS and seen.ledger.finished is None and not _ends(seen):
        yield f"{total} ms were worked, the limit is {bound} ms, and the run continues"


def joins_keep_every_result(seen: RecordContext) -> Iterator[str]:
    """When a group joins, every member has an outcome, and the replies of those that succeeded are passed on."""
    if not any(isinstance(event, GroupJoined) for event in seen.events):
        return
    after = seen.ledger
    statuses = {**after.branches, **{e.agent: e.status for e in seen.events if isinstance(e, BranchFinished)}}
    replies = {**after.replies, **{e.agent: e.text for e in seen.events if isinstance(e, ModelReplied)}}
    calls = {key: child.crew for key, child in after.children.items()}
    replies |= {calls[e.call]: e.text for e in seen.events if isinstance(e, ChildReturned)}
    merged = "\n".join(entry.text for entry in seen.replayed.state.history if entry.author == "system")
    for member in after.members:
        if member not in statuses:
            yield f"the group joined, and its member {member} has no outcome"
        elif statuses[member] == "ok" and replies[member] not in merged:
            yield f"the group joined, and the result of {member} is not passed on"


def broadcasts_are_heard_once(seen: RecordContext) -> Iterator[str]:
    """An agent of a run gets a broadcast once, whichever process delivers it."""
    known = set(seen.ledger.broadcasts)
    for event in seen.events:
        if isinstance(event, BroadcastDelivered):
            delivery = event.agent, str(event.signal["id"])
            if delivery in known:
                yield f"{delivery[0]} gets {event.signal['type']} ({delivery[1]}) again"
            known.add(delivery)


def side_turns_do_not_steer(seen: RecordContext) -> Iterator[str]:
    """A reply in a side turn never moves control."""
    agent = seen.ledger.side_agent
    for event in seen.events:
        if isinstance(event, SignalSeen) and event.steers and agent and event.agent == agent:
            yield f"{event.agent} is in a side turn, and its {event.signal} steers"


def messages_are_settled_once(seen: RecordContext) -> Iterator[str]:
    """A sent message is answered, refused, undelivered or timed out, once; none is open when the run is over."""
    messages = dict(seen.ledger.messages)
    for event in seen.events:
        if isinstance(event, MessageSent):
            id_ = event.message["message_id"]
            if (id_ in messages) is not bool(event.attempt):
                yield f"message {id_} was sent for the {event.attempt + 1}th time, and the journal knows otherwise"
            messages.setdefault(id_, "")
        elif isinstance(event, MessageSettled):
            if messages.get(event.message_id) != "" or event.outcome not in OUTCOMES:
                yield f"message {event.message_id} is {event.outcome}, and was {messages.get(event.message_id)!r}"
            messages[event.message_id] = event.outcome
    left = [id_ for id_, outcome in messages.items() if not outcome]
    if left and (_ends(seen) or seen.ledger.finished is not None):
        yield f"the run is over, and {', '.join(left)} has no outcome"


def agents_move_by_the_table(seen: RecordContext) -> Iterator[str]:
    states = dict(seen.ledger.states)
    for event in seen.events:
        if isinstance(event, AgentStateChanged):
            before, after = AgentState(states.get(event.agent, "idle")), AgentState(event.state)
            if not any(was is before and move is after for (was, _), move in MOVES.items()):
                yield f"{event.agent} went from {before} to {after}"
            states[event.agent] = event.state


def ends_say_why(seen: RecordContext) -> Iterator[str]:
    for event in seen.events:
        if isinstance(event, RunFinished) and not event.reason.startswith(REASONS.get(event.status, ())):
            yield f"the run ended as {event.status!r} with the reason {event.reason!r}"


def pauses_only_when_idle(seen: RecordContext) -> Iterator[str]:
    """Paused means that no work is in progress; running means that some is."""
    state = seen.replayed.state
    later = [key for key in state.timers if TimerPurpose.of_key(key).kind in (TimerKind.RETRY, TimerKind.BUDGET)]
    working = [
        *outstanding_calls(state),
        *children_at_work(state),
        *later,
        *(turn.reserving or turn.taking for turn in turns_of(state) if turn.reserving or turn.taking),
    ]
    owed_messages = [key for key in state.timers if TimerPurpose.of_key(key).kind in (TimerKind.ACK, TimerKind.ANSWER)]
    if state.status == "paused" and working and not state.parked:
        yield f"the run is paused, and {', '.join(working)} can continue"
    if state.status == "paused" and not state.waits and not state.parked:
        yield "the run is paused, and it asks nothing"
    if state.status == "running" and not working and not owed_messages:
        yield "the run is running, and no work is in progress"
    if any(isinstance(e, RunPaused) for e in seen.events) and state.status != "paused":
        yield f"the journal says that the run is paused, and its status is {state.status}"


def no_idle_agent_could_continue(seen: RecordContext) -> Iterator[str]:
    """An event wakes only the agents that it touches; checking all agents finds no other move."""
    run = seen.replayed
    t = Transition(run.crew, run.settings, run.table, run.budgets, run.state, run.index)
    t.touched = dict.fromkeys(run.state.mailboxes)
    move = deliver_messages(t)
    if move is not None:
        yield f"at seq {seen.record.seq} no agent continued, and {type(move).__name__} was possible"


def what_is_found_by_key_is_there(seen: RecordContext) -> Iterator[str]:
    kept, rebuilt = seen.replayed.index, Index(seen.replayed.state)
    if kept != rebuilt:
        yield f"the index holds {vars(kept)}, and the state {vars(rebuilt)}"


def children_at_work(state: RunState) -> list[str]:
    branches = state.group.branches if state.group is not None else []
    children = [branch.child for branch in branches if branch.child is not None]
    children += state.calling.children if state.calling is not None else []
    children += [task.child for task in state.tasks.values() if task.child is not None]
    stopping = [child.run for child in state.leaving if state.ending is not None or child.message]
    return [*stopping, *(child.run for child in children if child.status == "working")]


def outstanding_calls(state: RunState) -> list[str]:
    """Keys of the calls that a run waits for: of models, of tools without an open question, of hooks about its end."""
    if state.parked:  # all of it is held until the run is resumed
        return []
    turns = turns_of(state)
    asked_about = [wait.tool for wait in state.waits]
    calls = [turn.call for turn in turns if turn.call]
    tools = [tool.key for turn in turns for tool in turn.tools if tool.output is None]
    checks = [state.ending.checking] if state.ending is not None and state.ending.checking else []
    return [*calls, *(key for key in tools if key not in asked_about), *checks]


Law = Callable[[RecordContext], Iterator[str]]

# In the order of checking: the first violation is reported.
LAWS: tuple[Law, ...] = (
    sequence_has_no_gaps,
    replay_gives_the_same,
    nothing_follows_the_end,
    keys_are_used_once,
    an_answer_counts_once,
    only_own_words_steer,
    reasoning_is_no_text,
    departures_are_bounded,
    turns_are_bounded,
    working_time_is_bounded,
    joins_keep_every_result,
    broadcasts_are_heard_once,
    side_turns_do_not_steer,
    messages_are_settled_once,
    agents_move_by_the_table,
    ends_say_why,
    pauses_only_when_idle,
    what_is_found_by_key_is_there,
    no_idle_agent_could_continue,
)


def violations_of(seen: RecordContext) -> Iterator[tuple[str, str]]:
    """The violated laws, each with what was seen."""
    for law in LAWS:
        for what in law(seen):
            yield law.__name__.replace("_", " "), what


def _names(things: tuple[object, ...]) -> str:
    return ", ".join(type(thing).__name__ for thing in things)


def _ends(seen: RecordContext) -> bool:
    return any(isinstance(event, RunFinished) for event in seen.events)
