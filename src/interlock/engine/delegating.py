"""Delegation: mail is carried, tasks are taken up, turns suspended and woken, reports checked and handed over.

Rule 1: an agent has one turn at a time. A task for an agent at work waits in its inbox, received and not begun.
Rule 2: reports are joined: they wake a turn when no task of its own is open on which somebody can still work.
Rule 3: how a task ends goes to whoever delegated it, never to the run.
Rule 4: when a turn ends, so do the tasks that it gave out and waits for no more.
"""

from interlock.engine.attention import next_in_doubt, next_suspended, next_with_task
from interlock.engine.beginning import new_turn
from interlock.engine.crew_tasks import begun, begun_again, hindrance_again
from interlock.engine.emitting import emitted
from interlock.engine.errands import ERRANDS, check, errand_done, select
from interlock.engine.events import MessageSent, ReportChecked
from interlock.engine.leaving import end_work, give_up_task, give_up_tasks_of
from interlock.engine.mail import (
    acknowledge_once,
    acknowledged,
    expect_answer,
    forget,
    has_news,
    has_open,
    mailbox,
    open_tasks,
    receive,
    send,
    settle,
    short,
    take_out_news,
    waits_for_parent,
    waits_for_person,
)
from interlock.engine.moves import Ask, CloseTask, Conclude, Judged, Move, Rest
from interlock.engine.phrases import mail_entry, objection
from interlock.engine.routing import OwnReply
from interlock.engine.standing import children_of, moved, moved_if_at_work, parent_of, state_of
from interlock.engine.state import Message, Task, Turn, turn_of
from interlock.engine.steering import conclude, fire_tells
from interlock.engine.talking import send_report
from interlock.engine.timing import ACK, start_timer
from interlock.engine.transition import CHECK, TASK, Transition
from interlock.engine.turns import ask, note_marks
from interlock.messages.mailbox import REFUSED, TIMED_OUT
from interlock.messages.refusals import Deadlock
from interlock.messages.states import AgentState, Cause
from interlock.messages.validation import TaskValidator
from interlock.messages.wire import (
    Answer,
    AnyMessage,
    Delegate,
    HostNote,
    HostRequest,
    Query,
    Report,
    RequestUserInput,
    UserResponse,
)

WAITING = (AgentState.WAITING_FOR_CHILD, AgentState.WAITING_FOR_PARENT, AgentState.WAITING_FOR_USER)

# Turns that ask, rest and end


def ask_ready(t: Transition, move: Ask) -> Move | None:
    """Before its first call an agent knows whom it may delegate to; before each, what came for it meanwhile."""
    turn = move.turn
    if turn.kind not in ERRANDS and turn.children is None and children_of(t.crew, turn.agent):
        selecting = select(t, turn)
        if selecting is not None:
            return selecting
    if state_of(t, turn.agent) is AgentState.ANALYZING and turn.kind not in ERRANDS:
        moved(t, turn.agent, Cause.WORK)
    if (t.state.agents or t.state.mailboxes) and turn.kind not in ERRANDS:
        take_news(t, turn)
    return ask(t, move)


def asked_at_once(t: Transition, turn: Turn) -> Move | None:
    """For turns that begin together: each is asked before the next one; what else follows from it is given back."""
    move: Move | None = Ask(turn)
    while isinstance(move, Ask):
        move = ask_ready(t, move)
    return move


def rest(t: Transition, move: Rest) -> Move | None:
    turn = move.turn
    task = t.task_of(turn)
    if task is not None and task.report is not None:
        return CloseTask(task)
    if _wakes(t, turn):  # nothing is open, or what came meanwhile has not been seen yet
        return Ask(turn)
    turn.suspended, t.touched[turn.agent] = True, None
    moved(t, turn.agent, _why_waits(t, turn.agent))
    return None


def _has_open(t: Transition, turn: Turn) -> bool:
    """Whether something is still to come: an answer, or a report that is being checked."""
    return has_open(t, turn.agent, Delegate, Query, RequestUserInput, HostRequest) > 0 or _is_checking(t, turn)


def _is_checking(t: Transition, turn: Turn) -> bool:
    return any(errand.kind == CHECK and errand.agent == turn.agent for errand in t.state.errands.values())


def _why_waits(t: Transition, agent: str) -> Cause:
    if waits_for_person(t, agent):
        return Cause.REQUEST_USER_INPUT
    asks = waits_for_parent(t, agent) or (has_open(t, agent, HostRequest) and not has_open(t, agent, Delegate))
    return Cause.QUERY_PARENT if asks else Cause.DELEGATE


def conclude_turn(t: Transition, move: Conclude) -> Move | None:
    """A reply that calls nothing ends an errand, a task or a turn, unless something is still to come."""
    turn = move.turn
    if turn.kind in ERRANDS:
        return errand_done(t, move)
    if t.state.mailboxes and (_has_open(t, turn) or has_news(t, turn.agent)):
        _note(t, move)
        turn.said.append(Message(role="assistant", text=move.reply))
        return Rest(turn)
    give_up_tasks_of(t, turn)
    if turn.kind == TASK:
        return _reported_by_words(t, move)
    after = conclude(t, move)
    if not isinstance(after, Ask):
        moved_if_at_work(t, turn.agent, Cause.DONE)
    return after


def _note(t: Transition, move: Conclude) -> None:
    """Marks of a reply that ends no turn with the floor steer nothing."""
    decision = t.table.decide(OwnReply(move.turn.agent, move.reply, emitted(move.turn.emits)))
    note_marks(t, decision, steers=False)
    fire_tells(t, move.turn, decision, move.reply, waits=False)


def _reported_by_words(t: Transition, move: Conclude) -> Move:
    """A child that ends its turn without the tool has reported what it said."""
    task = t.task_of(move.turn)
    assert task is not None, "a turn of this kind has a task until it has reported"
    _note(t, move)
    move.turn.said.append(Message(role="assistant", text=move.reply))
    send_report(t, task, move.reply, "completed")
    return CloseTask(task)


# Mail is carried


def deliver(t: Transition) -> Move | None:
    """The next thing that mail leads to, until there is none."""
    if not t.state.mailboxes or not t.can_move or t.state.ending is not None:
        return None
    while (agent := next_with_task(t)) is not None:
        waiting = [message for message in t.state.mailboxes[agent].inbox if isinstance(message, Delegate)]
        if _is_at_work(t, agent):
            _acknowledge(t, waiting)
            continue
        move = _take_up(t, waiting[0])
        if move is not None:  # a sub-crew that begins leads to nothing else here
            return move
    while (turn := next_suspended(t)) is not None:
        if _wakes(t, turn):
            turn.suspended = False
            return Ask(turn)
    while (turn := next_in_doubt(t)) is not None:
        if (query := _stuck_on(t, turn)) is not None:
            return _break(t, turn, query)
    return None


def _acknowledge(t: Transition, tasks: list[Delegate]) -> None:
    """Their child is at work, and has them in its inbox: received, and neither sent again nor undelivered (rules 3)."""
    if t.state.rules >= 3:
        for message in tasks:
            acknowledge_once(t, message)


def _is_at_work(t: Transition, agent: str) -> bool:
    return agent in t.state.tasks or turn_of(t.state, agent) is not None


def _take_up(t: Transition, message: Delegate) -> Move | None:
    mailbox(t, message.to).inbox.remove(message)
    acknowledge_once(t, message)
    parent = turn_of(t.state, message.from_)
    assert parent is not None, "what a turn gave out ends with it"
    task = Task(worker=message.to, message=message.message_id, parent=parent.number, assigned=message.task)
    t.state.tasks[message.to] = task
    if message.to in t.crew.sub_crews:
        return begun(t, task, message)
    task.turn = turn = new_turn(t, message.to)
    task.taken_up = turn.number
    turn.kind, turn.history = TASK, 0
    if t.state.rules > 1:
        turn.hops = max(turn.hops, parent.hops)
    turn.said.append(_entry(t, message))
    return Ask(turn)


def _entry(t: Transition, message: AnyMessage) -> Message:
    remark = t.state.remarks.pop(message.message_id, "")
    entry = mail_entry(t.crew, message, remark)
    return Message(role="user", text=entry.text, author=message.sender, frames=entry.frames)


def take_news(t: Transition, turn: Turn) -> None:
    """What came for the turn is shown to it; whoever waited is moved by the first of it."""
    news, before = take_out_news(t, turn.agent), state_of(t, turn.agent)
    if before in WAITING:
        decided = Cause.USER_RESPONSE if before is AgentState.WAITING_FOR_USER and not turn.notices else Cause.NO_ANSWER
        moved(t, turn.agent, _cause_of(news[0]) if news else decided)
    places = {child: place for place, child in enumerate(turn.children or ())} if news else {}
    for message in sorted(news, key=lambda message: _place(places, message)):
        if isinstance(message, HostNote):
            receive(t, message)
            turn.owes = turn.owes or message.asks
        turn.said.append(_entry(t, message))
    turn.said += [Message(role="user", text=notice, author="system") for notice in turn.notices]
    turn.notices = []


def _cause_of(message: AnyMessage) -> Cause:
    """A message of the host's types wakes as a question does."""
    return Cause.QUERY if isinstance(message, HostNote) else Cause(message.type)


def _place(places: dict[str, int], message: AnyMessage) -> int:
    """Reports stand in the order of the children, whoever was first; what asks or answers comes before them."""
    return places[message.from_] if isinstance(message, Report) else -1


def _wakes(t: Transition, turn: Turn) -> bool:
    """Whether a suspended turn goes on now."""
    if turn.notices or has_news(t, turn.agent, Query, Answer, UserResponse, HostNote, HostRequest):
        return True
    if not has_news(t, turn.agent):
        return not _has_open(t, turn)
    return not _is_checking(t, turn) and not any(_can_work(t, task) for task in open_tasks(t, turn.agent))


def _can_work(t: Transition, message: Delegate) -> bool:
    """Whether a task may still lead to something by itself; one that was not taken up has a deadline.

    A sub-crew always may: nobody in it waits for anybody here.
    """
    task = t.state.tasks.get(message.to)
    if task is None or task.message != message.message_id:
        return True
    return task.turn is None or _can_go_on(t, task.turn)


def _can_go_on(t: Transition, turn: Turn) -> bool:
    if not turn.suspended or turn.notices or has_news(t, turn.agent) or waits_for_person(t, turn.agent):
        return True
    if has_open(t, turn.agent, HostRequest):  # which has a deadline
        return True
    return _is_checking(t, turn) or any(_can_work(t, task) for task in open_tasks(t, turn.agent))


def _stuck_on(t: Transition, turn: Turn) -> Query | None:
    """The youngest question of a child that the turn waits for, if nothing else can wake either of them."""
    if not turn.suspended or waits_for_parent(t, turn.agent) or _can_go_on(t, turn):
        return None
    asked = [message for message in mailbox(t, turn.agent).owes.values() if isinstance(message, Query)]
    waited_for = [task.to for task in open_tasks(t, turn.agent)]
    return next((query for query in reversed(asked) if query.from_ in waited_for), None)


def _break(t: Transition, turn: Turn, query: Query) -> Move:
    """The youngest wait of the circle is given up, and its agent is told."""
    fault = Deadlock((turn.agent, query.from_))
    settle(t, query, REFUSED, fault)
    forget(t, query)
    child = turn_of(t.state, query.from_)
    assert child is not None, "who asks has a turn until it is answered"
    child.notices.append(f"{fault.code}: your question {short(query.message_id)} is not answered; {fault}")
    child.suspended = False
    return Ask(child)


# Deadlines


def overdue(t: Transition, purpose: str) -> Move | None:
    """A message was not taken up in time, or not answered."""
    kind, _, id_ = purpose.partition(":")
    message = next(box.sent[id_].message for box in t.state.mailboxes.values() if id_ in box.sent)
    return _not_taken_up(t, message) if kind == ACK.rstrip(":") else _not_answered(t, message)


def _not_taken_up(t: Transition, message: AnyMessage) -> Move | None:
    box = mailbox(t, message.sender)
    if not box.missed_ack(message.message_id):
        box.outbox.remove(message)
        mailbox(t, message.addressee).deliver(message)  # which has it already, and knows that by its id
        t.conclude(MessageSent(message=message.to_wire(), attempt=box.sent[message.message_id].sends - 1))
        start_timer(t, f"{ACK}{message.message_id}", box.ack_timeout_ms)
        return None
    doing = "has had no turn" if isinstance(message, HostNote) else "was at work on something else"
    why = f"{message.addressee} {doing} and has not taken it up"
    settle(t, message, box.settled[message.message_id], why=why)
    forget(t, message)
    return _tell_sender(t, message, f"undelivered: {short(message.message_id)}; {why}")


def _not_answered(t: Transition, message: AnyMessage) -> Move | None:
    seconds = mailbox(t, message.sender).answer_timeout_ms / 1000
    why = f"{message.addressee} has not answered within {seconds:g} s"
    settle(t, message, TIMED_OUT, why=why)
    forget(t, message)
    task = t.state.tasks.get(message.addressee)
    if task is not None and task.message == message.message_id and task.child is not None:
        give_up_task(t, task)
    return _tell_sender(t, message, f"timed-out: {short(message.message_id)}; {why}; go on without it")


def _tell_sender(t: Transition, message: AnyMessage, notice: str) -> Move | None:
    turn = turn_of(t.state, message.sender)
    assert turn is not None or isinstance(message, HostNote), "what a turn sent is settled when it ends"
    if turn is not None:  # else it was sent by the host, or by a turn that is over
        turn.notices.append(notice)
    return None


# Reports


def close_task(t: Transition, move: CloseTask) -> Move | None:
    """The child's work is over; what it said is checked, unless it failed or nobody waits for it any more."""
    task = move.task
    end_work(t, task)
    if move.error:
        moved_if_at_work(t, task.worker, Cause.FAILED)
        send_report(t, task, f"error: {move.error}", "needs_help")
    else:
        moved_if_at_work(t, task.worker, Cause.DONE)
    if task.refused:
        t.drop_task(task)
        return None
    assert task.report is not None, "a task closes by a report"
    parent = mailbox(t, task.report.to)
    parent.inbox.remove(task.report)  # until it is checked
    return Judged(task, ok=True) if move.error else _checked(t, task)


def _checked(t: Transition, task: Task) -> Move:
    """By the rules first; a model is asked only about what they let pass and its child calls complete."""
    tree, report = t.crew.delegation, task.report
    assert tree is not None, "only crews that delegate have tasks"
    assert report is not None, "only reports are checked"
    if tree.report_check == "none":
        return Judged(task, ok=True)
    found = TaskValidator(least_chars=tree.min_report_chars).validate_report(task.assigned, report)
    if found and tree.report_check == "model" and report.status == "completed":
        return check(t, task, report.to)
    t.conclude(ReportChecked(message_id=report.message_id, ok=bool(found), by=found.by, reason=found.reason))
    return Judged(task, bool(found), found.reason)


def judged(t: Transition, move: Judged) -> Move | None:
    task, tree = move.task, t.crew.delegation
    assert tree is not None, "only crews that delegate have tasks"
    assert task.report is not None, "only reports are judged"
    remarks = [f"it is about your task {short(task.given_as)}, which was sent back"] if task.follow_ups else []
    if not move.ok:
        hindrance = _no_follow_up(t, task, move.reason, tree.max_follow_ups)
        if not hindrance:
            return _follow_up(t, task, move.reason)
        remarks.append(f"it was not accepted, and {hindrance}: {move.reason}")
    if remarks:
        t.state.remarks[task.report.message_id] = "; ".join(remarks)
    mailbox(t, task.report.to).inbox.append(task.report)
    t.drop_task(task)
    return None


def _no_follow_up(t: Transition, task: Task, reason: str, most: int) -> str:
    """Why a report is not sent back, although it should be; empty if it is."""
    if task.follow_ups >= most:
        return "there is no follow-up left"
    return hindrance_again(t, task, reason) if task.turn is None else ""


def _follow_up(t: Transition, task: Task, reason: str) -> Move | None:
    """The child goes on from what it said, with why that was not enough."""
    message = Delegate(
        message_id=t.new_message_id(),
        from_=parent_of(t.crew, task.worker),
        to=task.worker,
        task=objection(task.assigned, reason),
        context={"follow_up_of": short(task.message), "follow_up": task.follow_ups + 1},
    )
    _send_back(t, message)
    task.given_as = task.given_as or task.message
    task.message = message.message_id
    task.follow_ups += 1
    if task.turn is None:
        begun_again(t, task, reason)
        return None
    turn = new_turn(t, task.worker)
    turn.kind, turn.history, turn.said = TASK, 0, [*task.turn.said, _entry(t, message)]
    if t.state.rules > 1:
        turn.hops = max(turn.hops, task.turn.hops)
    task.turn, task.report = turn, None
    return Ask(turn)


def _send_back(t: Transition, message: Delegate) -> None:
    """To somebody who has just reported, and takes it up at once."""
    send(t, message)
    mailbox(t, message.from_).outbox.remove(message)
    box = mailbox(t, message.to)
    box.deliver(message)
    box.inbox.remove(message)
    acknowledged(t, message)
    expect_answer(t, message)
