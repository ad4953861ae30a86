"""What must hold after every record of a run. One function a law; each yields what it finds wrong.

Rule 1: a law reads the journal, the ledger of what came before, and the crew; none asks the engine for its opinion,
except those that compare two of its own opinions.
Rule 2: a law never repairs and never raises; whoever asked decides what follows.
"""

from collections.abc import Callable, Iterator

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.delegating import deliver
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
from interlock.engine.state import RunState, turns_of
from interlock.engine.step import Run
from interlock.engine.timing import ACK, ANSWER, BUDGET, RETRY
from interlock.engine.transition import Transition
from interlock.engine.turns import NUDGES_MAX, RETRIES_MAX
from interlock.messages.mailbox import OUTCOMES
from interlock.messages.states import MOVES, AgentState
from interlock.ports import Record
from interlock.signals.matching import SignalMatcher
from interlock.testing.ledger import Ledger, begins_round, calls_of, is_stale

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
    ),
    "stopped": ("max_handoffs", "max_input_size_kb", "max_rounds", "max_occurs", "timeout", "loop_detected", "budget:"),
    "cancelled": ("cancelled",),
}

# Working time is looked at when something happens; a run may end this much after its bound.
TIMEOUT_SLACK_MS = 60_000


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was just written, and all that is known beside it."""

    crew: Crew
    ledger: Ledger
    record: Record
    facts: tuple[Event, ...]
    replayed: Run
    passed_ms: int

    @property
    def events(self) -> tuple[Event, ...]:
        return self.record.events


def sequence_has_no_gaps(seen: Seen) -> Iterator[str]:
    expected = seen.ledger.last_seq + 1
    if seen.record.seq != expected:
        yield f"the record at seq {seen.record.seq} should be at {expected}"


def replay_gives_the_same(seen: Seen) -> Iterator[str]:
    if seen.facts != seen.record.events[1:]:
        yield f"at seq {seen.record.seq} the journal holds {seen.record.events[1:]}, and a replay gives {seen.facts}"


def nothing_follows_the_end(seen: Seen) -> Iterator[str]:
    if seen.ledger.finished is not None and not is_stale(seen.record):
        yield f"the run is over, and at seq {seen.record.seq} it did {_names(seen.events)}"


def keys_are_used_once(seen: Seen) -> Iterator[str]:
    ledger = seen.ledger
    used = {*ledger.calls, *ledger.tools, *map(ledger.short, ledger.tokens)}
    for event in seen.events:
        if isinstance(event, ModelCalled | ToolCalled | InputRequested):
            key = ledger.short(event.token if isinstance(event, InputRequested) else event.call)
            if key in used:
                yield f"the key {key} was used before, and now for {type(event).__name__}"
            used.add(key)


def an_answer_counts_once(seen: Seen) -> Iterator[str]:
    first = seen.events[0]
    if is_stale(seen.record):
        return
    if isinstance(first, ModelReplied | ModelFailed | ToolReturned | ChildReturned) and seen.ledger.has_answer(
        first.call
    ):
        yield f"the call {first.call} had an answer, and another one counted: {type(first).__name__}"
    if isinstance(first, RunResumed) and first.token in seen.ledger.given:
        yield f"the wait {first.token} was answered twice, and both answers counted"


def only_own_words_steer(seen: Seen) -> Iterator[str]:
    """A mark is seen in the agent's own reply and nowhere else, and steers only if that reply ends its turn."""
    first = seen.events[0]
    for event in seen.events:
        if not isinstance(event, SignalSeen):
            continue
        if not isinstance(first, ModelReplied) or first.agent != event.agent:
            yield f"{event.signal} of {event.agent} was seen in a {type(first).__name__}, not in its own reply"
        elif not SignalMatcher([event.signal]).find(first.text):
            yield f"{event.signal} was seen in the reply {first.text!r} of {event.agent}, which does not hold it"
        elif event.steers and first.tool_calls:
            yield f"{event.signal} of {event.agent} steers, and the reply that holds it calls tools"


def departures_are_bounded(seen: Seen) -> Iterator[str]:
    most = seen.replayed.settings.max_handoffs
    count = seen.ledger.departures + sum(isinstance(event, HandedOver | GroupStarted) for event in seen.events)
    count += calls_of(seen.record)
    if count > most:
        yield f"{count} departures of control, and max_handoffs is {most}"


def turns_are_bounded(seen: Seen) -> Iterator[str]:
    rounds, nudges = seen.ledger.rounds.copy(), seen.ledger.nudges.copy()
    with_backup = seen.ledger.with_backup.copy()
    for event in seen.events:
        match event:
            case TurnStarted():
                rounds[event.agent] = nudges[event.agent] = 0
                with_backup.discard(event.agent)
            case ModelCalled():
                rounds[event.agent] += not event.purpose and begins_round(event, with_backup)
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


def working_time_is_bounded(seen: Seen) -> Iterator[str]:
    """Time worked is time that passed, whatever the wall clock says, and the run's bound ends it."""
    worked: int = getattr(seen.events[0], "worked_ms", 0)
    total = seen.ledger.worked_ms + worked
    if worked < 0 or total > seen.passed_ms:
        yield f"{total} ms were worked within {seen.passed_ms} ms"
    bound = int(seen.replayed.settings.timeout_seconds * 1000)
    if total > bound + TIMEOUT_SLACK_MS and seen.ledger.finished is None and not _ends(seen):
        yield f"{total} ms were worked, the bound is {bound} ms, and the run goes on"


def joins_keep_every_result(seen: Seen) -> Iterator[str]:
    """When a group joins, every member has an outcome, and the words of those that succeeded are handed on."""
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
            yield f"the group joined, and nothing is known of its member {member}"
        elif statuses[member] == "ok" and replies[member] not in merged:
            yield f"the group joined, and the result of {member} is not handed on"


def broadcasts_are_heard_once(seen: Seen) -> Iterator[str]:
    """An agent of a run hears a broadcast once, whatever process took it in."""
    known = set(seen.ledger.heard)
    for event in seen.events:
        if isinstance(event, BroadcastDelivered):
            heard = event.agent, str(event.signal["id"])
            if heard in known:
                yield f"{heard[0]} hears {event.signal['type']} ({heard[1]}) again"
            known.add(heard)


def side_turns_do_not_steer(seen: Seen) -> Iterator[str]:
    """Nothing that an agent says aside moves control."""
    aside = seen.ledger.aside
    for event in seen.events:
        if isinstance(event, SignalSeen) and event.steers and aside and event.agent == aside:
            yield f"{event.agent} was called aside, and its {event.signal} steers"


def messages_are_settled_once(seen: Seen) -> Iterator[str]:
    """Sent is answered, refused, undelivered or timed out: each once, and none is left when the run is over."""
    letters = dict(seen.ledger.letters)
    for event in seen.events:
        if isinstance(event, MessageSent):
            id_ = event.message["message_id"]
            if (id_ in letters) is not bool(event.attempt):
                yield f"message {id_} was sent for the {event.attempt + 1}th time, and the journal knows otherwise"
            letters.setdefault(id_, "")
        elif isinstance(event, MessageSettled):
            if letters.get(event.message_id) != "" or event.outcome not in OUTCOMES:
                yield f"message {event.message_id} is {event.outcome}, and was {letters.get(event.message_id)!r}"
            letters[event.message_id] = event.outcome
    left = [id_ for id_, outcome in letters.items() if not outcome]
    if left and (_ends(seen) or seen.ledger.finished is not None):
        yield f"the run is over, and nobody knows what became of {', '.join(left)}"


def agents_move_by_the_table(seen: Seen) -> Iterator[str]:
    states = dict(seen.ledger.states)
    for event in seen.events:
        if isinstance(event, AgentStateChanged):
            before, after = AgentState(states.get(event.agent, "idle")), AgentState(event.state)
            if not any(was is before and move is after for (was, _), move in MOVES.items()):
                yield f"{event.agent} went from {before} to {after}"
            states[event.agent] = event.state


def ends_say_why(seen: Seen) -> Iterator[str]:
    for event in seen.events:
        if isinstance(event, RunFinished) and not event.reason.startswith(REASONS.get(event.status, ())):
            yield f"the run ended as {event.status!r} with the reason {event.reason!r}"


def pauses_only_when_idle(seen: Seen) -> Iterator[str]:
    """Paused means that nothing is under way; running means that something is."""
    state = seen.replayed.state
    later = [purpose for purpose in state.timers if purpose.startswith((RETRY, BUDGET))]
    working = [
        *owed(state),
        *children_at_work(state),
        *later,
        *(turn.reserving or turn.taking for turn in turns_of(state) if turn.reserving or turn.taking),
    ]
    owed_mail = [purpose for purpose in state.timers if purpose.startswith((ACK, ANSWER))]
    if state.status == "paused" and working and not state.parked:
        yield f"the run is paused, and {', '.join(working)} can go on"
    if state.status == "paused" and not state.waits and not state.parked:
        yield "the run is paused, and there is nothing that anybody could answer"
    if state.status == "running" and not working and not owed_mail:
        yield "the run is running, and nothing is under way"
    if any(isinstance(e, RunPaused) for e in seen.events) and state.status != "paused":
        yield f"the journal says that the run is paused, and its status is {state.status}"


def nobody_is_left_who_could_go_on(seen: Seen) -> Iterator[str]:
    """An event is followed only where it touches something; looking at everybody finds nothing more."""
    run = seen.replayed
    t = Transition(run.crew, run.settings, run.table, run.budgets, run.state, run.index)
    t.touched = dict.fromkeys(run.state.mailboxes)
    move = deliver(t)
    if move is not None:
        yield f"at seq {seen.record.seq} nothing went on, and there was {type(move).__name__}"


def what_is_found_by_key_is_there(seen: Seen) -> Iterator[str]:
    kept, anew = seen.replayed.index, Index(seen.replayed.state)
    if kept != anew:
        yield f"the index holds {vars(kept)}, and the state {vars(anew)}"


def children_at_work(state: RunState) -> list[str]:
    branches = state.group.branches if state.group is not None else []
    children = [branch.child for branch in branches if branch.child is not None]
    children += state.calling.children if state.calling is not None else []
    children += [task.child for task in state.tasks.values() if task.child is not None]
    stopping = [child.run for child in state.leaving if state.ending is not None or child.message]
    return [*stopping, *(child.run for child in children if child.status == "working")]


def owed(state: RunState) -> list[str]:
    """The keys of the calls that a run waits for: models that have not answered, tools that nobody is asked about."""
    if state.parked:  # all of it is held until the run is resumed
        return []
    turns = turns_of(state)
    asked_about = [wait.tool for wait in state.waits]
    calls = [turn.call for turn in turns if turn.call]
    tools = [tool.key for turn in turns for tool in turn.tools if tool.output is None]
    return [*calls, *(key for key in tools if key not in asked_about)]


Law = Callable[[Seen], Iterator[str]]

# In the order in which they are looked at: the first that breaks is reported.
LAWS: tuple[Law, ...] = (
    sequence_has_no_gaps,
    replay_gives_the_same,
    nothing_follows_the_end,
    keys_are_used_once,
    an_answer_counts_once,
    only_own_words_steer,
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
    nobody_is_left_who_could_go_on,
)


def broken(seen: Seen) -> Iterator[tuple[str, str]]:
    """The laws that do not hold, each with what was seen."""
    for law in LAWS:
        for what in law(seen):
            yield law.__name__.replace("_", " "), what


def _names(things: tuple[object, ...]) -> str:
    return ", ".join(type(thing).__name__ for thing in things)


def _ends(seen: Seen) -> bool:
    return any(isinstance(event, RunFinished) for event in seen.events)
