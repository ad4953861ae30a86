"""Where turns call delegation: before a model is asked, before a reply concludes a turn, and after it."""

from interlock.engine.delegation.advisory_calls import (
    on_advisory_reply,
    select_children,
)
from interlock.engine.delegation.agent_states import (
    agent_state_of,
    children_of,
    set_agent_state,
    set_state_if_at_work,
)
from interlock.engine.delegation.mailboxes import (
    count_open,
    has_new_messages,
    is_waiting_for_parent,
    is_waiting_for_person,
    receive_host_note,
    take_new_messages,
)
from interlock.engine.delegation.progress import can_resume, is_awaiting_answers
from interlock.engine.delegation.tasks import turn_message_of
from interlock.engine.delegation.tools import send_report
from interlock.engine.flow.control import fire_tells
from interlock.engine.kinds import ADVISORY_KINDS, TurnKind
from interlock.engine.outputs.checked_reply import steering_text
from interlock.engine.routing.decision import OwnReply
from interlock.engine.routing.emit_signal import emission_names
from interlock.engine.stages import AskModel, CloseTask, ConcludeTurn, Stage, SuspendTurn
from interlock.engine.state import Turn, TurnMessage
from interlock.engine.transition import Transition
from interlock.engine.turns.cancellation import cancel_tasks_of
from interlock.engine.turns.replies import record_marks
from interlock.messages.states import AgentState, Cause
from interlock.messages.wire import (
    AnyMessage,
    Delegate,
    HostNote,
    HostRequest,
    Report,
)

WAITING = (AgentState.WAITING_FOR_CHILD, AgentState.WAITING_FOR_PARENT, AgentState.WAITING_FOR_USER)


def before_ask(t: Transition, turn: Turn) -> Stage | None:
    """Selects children before the first call of a turn, and shows new messages before each call."""
    if turn.kind in ADVISORY_KINDS:
        return None
    if turn.children is None and children_of(t.crew, turn.agent):
        selecting = select_children(t, turn)
        if selecting is not None:
            return selecting
    if agent_state_of(t, turn.agent) is AgentState.ANALYZING:
        set_agent_state(t, turn.agent, Cause.WORK)
    show_new_messages(t, turn)
    return None


def suspend_turn(t: Transition, stage: SuspendTurn) -> Stage | None:
    turn = stage.turn
    task = t.task_of(turn)
    if task is not None and task.report is not None:
        return CloseTask(task)
    if can_resume(t, turn):  # nothing is open, or what came meanwhile has not been seen yet
        return AskModel(turn)
    turn.suspended, t.touched[turn.agent] = True, None
    set_agent_state(t, turn.agent, _cause_of_wait(t, turn.agent))
    return None


def _cause_of_wait(t: Transition, agent: str) -> Cause:
    if is_waiting_for_person(t, agent):
        return Cause.REQUEST_USER_INPUT
    asks = is_waiting_for_parent(t, agent) or (count_open(t, agent, HostRequest) and not count_open(t, agent, Delegate))
    return Cause.QUERY_PARENT if asks else Cause.DELEGATE


def before_conclusion(t: Transition, stage: ConcludeTurn) -> Stage | None:
    """Uses a reply that ends an advisory call or a task, or that comes while an answer is awaited."""
    turn = stage.turn
    if turn.kind in ADVISORY_KINDS:
        return on_advisory_reply(t, stage)
    if t.state.mailboxes and (is_awaiting_answers(t, turn) or has_new_messages(t, turn.agent)):
        _note_marks_only(t, stage)
        turn.said.append(TurnMessage(role="assistant", text=stage.reply))
        return SuspendTurn(turn)
    cancel_tasks_of(t, turn)
    return _report_reply(t, stage) if turn.kind is TurnKind.TASK else None


def after_conclusion(t: Transition, turn: Turn) -> None:
    set_state_if_at_work(t, turn.agent, Cause.DONE)


def _note_marks_only(t: Transition, stage: ConcludeTurn) -> None:
    """Records the marks of a reply without routing by them."""
    text = steering_text(t, stage.turn, stage.reply)
    decision = t.table.decide(OwnReply(stage.turn.agent, text, emission_names(stage.turn.emits)))
    record_marks(t, decision, steers=False)
    fire_tells(t, stage.turn, decision, stage.reply, waits=False)


def _report_reply(t: Transition, stage: ConcludeTurn) -> Stage:
    """Sends the reply as the report of a child that did not use the report tool."""
    task = t.task_of(stage.turn)
    assert task is not None, "a turn of this kind has a task until it has reported"
    _note_marks_only(t, stage)
    stage.turn.said.append(TurnMessage(role="assistant", text=stage.reply))
    send_report(t, task, stage.reply, "completed")
    return CloseTask(task)


def show_new_messages(t: Transition, turn: Turn) -> None:
    """Adds new messages to the turn; the first of them sets the state of an agent that waited."""
    news, before = take_new_messages(t, turn.agent), agent_state_of(t, turn.agent)
    if before in WAITING:
        decided = Cause.USER_RESPONSE if before is AgentState.WAITING_FOR_USER and not turn.notices else Cause.NO_ANSWER
        set_agent_state(t, turn.agent, _cause_of(news[0]) if news else decided)
    places = {child: place for place, child in enumerate(turn.children or ())} if news else {}
    for message in sorted(news, key=lambda message: _order_of(places, message)):
        if isinstance(message, HostNote):
            receive_host_note(t, message)
            turn.owes = turn.owes or message.asks
        turn.said.append(turn_message_of(t, message))
    turn.said += [TurnMessage(role="user", text=notice, author="system") for notice in turn.notices]
    turn.notices = []


def _cause_of(message: AnyMessage) -> Cause:
    """The cause of a state change by a message; a host message counts as a question."""
    return Cause.QUERY if isinstance(message, HostNote) else Cause(message.type)


def _order_of(places: dict[str, int], message: AnyMessage) -> int:
    """Reports come in the order of the children, after questions and answers."""
    return places[message.from_] if isinstance(message, Report) else -1
