"""`delegate`, `report`, `query_parent`, `answer_child`: the tools for messages between agents.

Rule 1: a tool puts a message into a mailbox and returns its id at once; delivery follows in the same transition.
Rule 2: a message that cannot be sent is recorded as refused, and its sender gets the reason.
"""

from typing import Annotated, Any, Literal

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.delegation.agent_states import parent_of
from interlock.engine.delegation.mailboxes import (
    count_open,
    mailbox,
    open_messages,
    require_room,
    send_and_deliver,
    send_and_refuse,
    send_to_outbox,
    short_id,
    start_answer_timer,
)
from interlock.engine.kinds import TimerKind
from interlock.engine.state import Task, Turn
from interlock.engine.timers import start_timer
from interlock.engine.transition import ToolRefusal, Transition
from interlock.limits import FAN_OUT_MAX
from interlock.messages.refusals import (
    BadMessage,
    LateMessage,
    MessageRefused,
    OutOfTurn,
    TooManyMessages,
    UnknownAddressee,
    WrongConversation,
)
from interlock.messages.wire import Answer, Delegate, Query, Report, ReportStatus

DELEGATE, REPORT, QUERY_PARENT, ANSWER_CHILD = "delegate", "report", "query_parent", "answer_child"


def _meta(text: str) -> Any:
    return msgspec.Meta(description=text)


class DelegateArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Annotated[str, _meta("The child that does the task.")]
    task: Annotated[str, _meta("The complete task: the child sees nothing else of this conversation.")]
    context: Annotated[dict[str, Any], _meta("What is already known.")] = {}


class ReportArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    result: Annotated[str, _meta("The result of your task.")]
    status: Annotated[
        Literal["completed", "partial", "needs_help"], _meta("Whether the task is done, partly done, or you need help.")
    ] = "completed"


class QueryParentArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[str, _meta("What you need to know to continue.")]


class AnswerChildArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: str
    to: Annotated[str, _meta("The child that asked; optional if there is only one question.")] = ""
    message_id: Annotated[str, _meta("The id of the question, if one child has several.")] = ""


def delegate(t: Transition, turn: Turn, given: DelegateArguments) -> str:
    id_, known = t.new_message_id(), turn.children or ()
    require_room(t, id_)
    message = _build_or_refuse(
        lambda: Delegate(message_id=id_, from_=turn.agent, to=given.to, task=given.task, context=given.context)
    )
    if given.to not in known:
        raise send_and_refuse(t, message, UnknownAddressee(id_, given.to, known))
    if count_open(t, turn.agent, Delegate) >= FAN_OUT_MAX:
        raise send_and_refuse(t, message, TooManyMessages(id_, "tasks open at once", FAN_OUT_MAX))
    send_to_outbox(t, message)
    mailbox(t, turn.agent).outbox.remove(message)
    mailbox(t, given.to).deliver(message)
    start_timer(t, TimerKind.ACK.of(id_), mailbox(t, turn.agent).ack_timeout_ms)
    start_answer_timer(t, message)
    return f"message {short_id(id_)} is on its way to {given.to}; the report will come to you"


def report(t: Transition, turn: Turn, given: ReportArguments) -> str:
    task = t.task_of(turn)
    assert task is not None, "only tasks have this tool"
    if len(turn.tools) > 1:
        raise ToolRefusal("out-of-turn: a report ends your task, and this reply called other tools too; report alone")
    waits = open_messages(t, turn.agent)
    if waits:
        names = ", ".join(f"{message.type} {short_id(message.message_id)}" for message in waits)
        raise ToolRefusal(f"out-of-turn: you still wait for answers ({names}); report when they are there")
    send_report(t, task, given.result, given.status)
    return "reported"


def send_report(t: Transition, task: Task, result: str, status: ReportStatus) -> None:
    """Sends the report that ends a task; `reports` checks it."""
    message = Report(
        message_id=t.new_message_id(),
        from_=task.worker,
        to=parent_of(t.crew, task.worker),
        result=result,
        status=status,
        in_response_to=task.message,
    )
    task.refused = send_and_deliver(t, message) is not None
    task.report = message


def query_parent(t: Transition, turn: Turn, given: QueryParentArguments) -> str:
    id_ = t.new_message_id()
    require_room(t, id_)
    parent = parent_of(t.crew, turn.agent)
    message = _build_or_refuse(lambda: Query(message_id=id_, from_=turn.agent, to=parent, question=given.question))
    send_and_deliver(t, message)
    start_answer_timer(t, message)
    return f"question {short_id(id_)} is with {parent}; the answer will come to you"


def answer_child(t: Transition, turn: Turn, given: AnswerChildArguments) -> str:
    id_ = t.new_message_id()
    asked = _require_open_query(t, turn, given, id_)
    message = Answer(
        message_id=id_, from_=turn.agent, to=asked.sender, answer=given.answer, in_response_to=asked.message_id
    )
    fault = send_and_deliver(t, message)
    if fault is not None:
        raise ToolRefusal(f"{fault.code}: {fault}")
    return f"{asked.sender} has your answer to {short_id(asked.message_id)}"


def _require_open_query(t: Transition, turn: Turn, given: AnswerChildArguments, id_: str) -> Query:
    """The open question that an answer is for; raises a refusal if there is none or more than one."""
    box = mailbox(t, turn.agent)
    queries = [message for message in box.owes.values() if isinstance(message, Query)]
    meant = [query for query in queries if not given.to or query.sender == given.to]
    if given.message_id:
        meant = [query for query in meant if short_id(query.message_id) == short_id(given.message_id)]
    if len(meant) == 1:
        return meant[0]
    raise _refusal_of_answer(t, turn, given, id_, meant or queries)


def _refusal_of_answer(
    t: Transition, turn: Turn, given: AnswerChildArguments, id_: str, among: list[Query]
) -> ToolRefusal:
    box, asked = mailbox(t, turn.agent), f"{t.state.run}:{short_id(given.message_id)}"
    open_ = ", ".join(f"{short_id(query.message_id)} of {query.sender}" for query in among) or "none"
    fault: MessageRefused
    if not given.message_id or (not among and asked not in box.received):
        fault = WrongConversation(id_, f"which question is meant? open are: {open_}")
    elif box.received.get(asked) == "QUERY" and not any(query.message_id == asked for query in among):
        fault = LateMessage(id_, short_id(asked), "its sender has gone on")
    else:
        fault = OutOfTurn(id_, f"'{given.message_id}' is no question to you; open are: {open_}")
    to = given.to if given.to.strip() else among[0].sender if among else "nobody"
    about = asked if given.message_id else "nothing"
    message = Answer(message_id=id_, from_=turn.agent, to=to, answer=given.answer, in_response_to=about)
    return send_and_refuse(t, message, fault)


def _build_or_refuse(make: Any) -> Any:
    try:
        return make()
    except BadMessage as fault:
        raise ToolRefusal(f"{fault.code}: {fault}") from fault


def describe_children(crew: CrewDefinition, turn: Turn) -> tuple[str, dict[str, Any]]:
    """The children as the model sees them, and the schema of their ids."""
    agents = {agent.id: agent for agent in crew.agents}
    lines = []
    for child in turn.children or ():
        agent, called = agents.get(child), crew.sub_crews.get(child)
        words = [agent.role, agent.description] if agent is not None else [called.description if called else ""]
        good_for = "; ".join(" ".join(word.split()) for word in words if word.strip())
        lines.append(f"{child}: {good_for}" if good_for else child)
    return "\n".join(lines), {
        "type": "string",
        "enum": list(turn.children or ()),
        "description": "The child that does the task.",
    }
