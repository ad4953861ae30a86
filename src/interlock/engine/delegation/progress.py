"""What a suspended turn waits for, and whether it can continue."""

from interlock.engine.delegation.mailboxes import (
    count_open,
    has_new_messages,
    is_waiting_for_parent,
    is_waiting_for_person,
    mailbox,
    open_tasks,
)
from interlock.engine.kinds import TurnKind
from interlock.engine.state import Turn
from interlock.engine.transition import Transition
from interlock.messages.wire import (
    Answer,
    Delegate,
    HostNote,
    HostRequest,
    Query,
    RequestUserInput,
    UserResponse,
)


def is_awaiting_answers(t: Transition, turn: Turn) -> bool:
    """Whether an answer, or a report that is being checked, is still to come."""
    return count_open(t, turn.agent, Delegate, Query, RequestUserInput, HostRequest) > 0 or _is_checking(t, turn)


def _is_checking(t: Transition, turn: Turn) -> bool:
    return any(
        advisory.kind is TurnKind.CHECK and advisory.agent == turn.agent for advisory in t.state.advisory_turns.values()
    )


def can_resume(t: Transition, turn: Turn) -> bool:
    """Whether a suspended turn continues now."""
    if turn.notices or has_new_messages(t, turn.agent, Query, Answer, UserResponse, HostNote, HostRequest):
        return True
    if not has_new_messages(t, turn.agent):
        return not is_awaiting_answers(t, turn)
    return not _is_checking(t, turn) and not any(_can_progress(t, task) for task in open_tasks(t, turn.agent))


def _can_progress(t: Transition, message: Delegate) -> bool:
    """Whether a task may still make progress by itself; one that has not started has a deadline.

    A sub-crew always may: it waits for no agent of this run.
    """
    task = t.state.tasks.get(message.to)
    if task is None or task.message != message.message_id:
        return True
    return task.turn is None or _can_continue(t, task.turn)


def _can_continue(t: Transition, turn: Turn) -> bool:
    if not turn.suspended or turn.notices or has_new_messages(t, turn.agent) or is_waiting_for_person(t, turn.agent):
        return True
    if count_open(t, turn.agent, HostRequest):  # which has a deadline
        return True
    return _is_checking(t, turn) or any(_can_progress(t, task) for task in open_tasks(t, turn.agent))


def query_in_deadlock(t: Transition, turn: Turn) -> Query | None:
    """The newest question of a child that the turn waits for, if nothing else can wake either of them."""
    if not turn.suspended or is_waiting_for_parent(t, turn.agent) or _can_continue(t, turn):
        return None
    asked = [message for message in mailbox(t, turn.agent).owes.values() if isinstance(message, Query)]
    waited_for = [task.to for task in open_tasks(t, turn.agent)]
    return next((query for query in reversed(asked) if query.from_ in waited_for), None)
