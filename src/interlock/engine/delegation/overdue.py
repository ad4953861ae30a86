"""Deadlines of messages: one that was not acknowledged is sent again, one that was not answered is settled."""

from interlock.engine.delegation.mailboxes import (
    mailbox,
    settle_message,
    short_id,
    withdraw_message,
)
from interlock.engine.events import MessageSent
from interlock.engine.kinds import TimerKind
from interlock.engine.stages import Stage
from interlock.engine.state import turn_of
from interlock.engine.timers import start_timer
from interlock.engine.transition import Transition
from interlock.engine.turns.cancellation import cancel_task
from interlock.messages.mailbox import TIMED_OUT
from interlock.messages.wire import (
    AnyMessage,
    HostNote,
)


def on_ack_missing(t: Transition, message_id: str) -> Stage | None:
    """Sends a message again that was not acknowledged in time; the second time it is undelivered."""
    message = _outgoing_message(t, message_id)
    box = mailbox(t, message.sender)
    if not box.on_ack_timeout(message.message_id):
        box.outbox.remove(message)
        mailbox(t, message.addressee).deliver(message)  # which ignores the repetition by its id
        t.record(MessageSent(message=message.to_wire(), attempt=box.sent[message.message_id].sends - 1))
        start_timer(t, TimerKind.ACK.of(message.message_id), box.ack_timeout_ms)
        return None
    doing = "has had no turn" if isinstance(message, HostNote) else "was at work on something else"
    why = f"{message.addressee} {doing} and has not taken it up"
    settle_message(t, message, box.settled[message.message_id], why=why)
    withdraw_message(t, message)
    return _notify_sender(t, message, f"undelivered: {short_id(message.message_id)}; {why}")


def on_answer_missing(t: Transition, message_id: str) -> Stage | None:
    """Settles a message that was not answered in time, and notifies its sender."""
    message = _outgoing_message(t, message_id)
    seconds = mailbox(t, message.sender).answer_timeout_ms / 1000
    why = f"{message.addressee} has not answered within {seconds:g} s"
    settle_message(t, message, TIMED_OUT, why=why)
    withdraw_message(t, message)
    task = t.state.tasks.get(message.addressee)
    if task is not None and task.message == message.message_id and task.child is not None:
        cancel_task(t, task)
    return _notify_sender(t, message, f"timed-out: {short_id(message.message_id)}; {why}; go on without it")


def _outgoing_message(t: Transition, message_id: str) -> AnyMessage:
    return next(box.sent[message_id].message for box in t.state.mailboxes.values() if message_id in box.sent)


def _notify_sender(t: Transition, message: AnyMessage, notice: str) -> Stage | None:
    turn = turn_of(t.state, message.sender)
    assert turn is not None or isinstance(message, HostNote), "messages of a turn are settled when it ends"
    if turn is not None:  # else the host sent it, or a turn that is over
        turn.notices.append(notice)
    return None
