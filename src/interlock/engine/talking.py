"""`delegate`, `report`, `query_parent`, `answer_child`: how agents talk to each other.

Rule 1: a tool puts mail into boxes and returns at once with the message's id; who takes it up is decided afterwards.
Rule 2: what cannot be sent is written down as refused, and its sender is told why.
"""

from typing import Annotated, Any, Literal

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.mail import (
    expect_answer,
    has_open,
    mailbox,
    open_messages,
    require_room,
    send,
    send_now,
    send_refused,
    short,
)
from interlock.engine.standing import parent_of
from interlock.engine.state import Task, Turn
from interlock.engine.timing import ACK, start_timer
from interlock.engine.transition import Refusal, Transition
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


def _said(text: str) -> Any:
    return msgspec.Meta(description=text)


class GiveTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Annotated[str, _said("Who is to do it.")]
    task: Annotated[str, _said("What is to be done, complete in itself: nothing else of this conversation is shown.")]
    context: Annotated[dict[str, Any], _said("What is known already.")] = {}


class GiveReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    result: Annotated[str, _said("What came of your task.")]
    status: Annotated[
        Literal["completed", "partial", "needs_help"], _said("Whether that is all, a part of it, or you are stuck.")
    ] = "completed"


class AskParent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[str, _said("What you need to know to go on.")]


class AnswerQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: str
    to: Annotated[str, _said("Whose question it is; may be left out where there is only one.")] = ""
    message_id: Annotated[str, _said("Which question, if there are several of the same child.")] = ""


def delegate(t: Transition, turn: Turn, given: GiveTask) -> str:
    id_, known = t.new_message_id(), turn.children or ()
    require_room(t, id_)
    message = _made(
        lambda: Delegate(message_id=id_, from_=turn.agent, to=given.to, task=given.task, context=given.context)
    )
    if given.to not in known:
        raise send_refused(t, message, UnknownAddressee(id_, given.to, known))
    if has_open(t, turn.agent, Delegate) >= FAN_OUT_MAX:
        raise send_refused(t, message, TooManyMessages(id_, "tasks open at once", FAN_OUT_MAX))
    send(t, message)
    mailbox(t, turn.agent).outbox.remove(message)
    mailbox(t, given.to).deliver(message)
    start_timer(t, f"{ACK}{id_}", mailbox(t, turn.agent).ack_timeout_ms)
    expect_answer(t, message)
    return f"message {short(id_)} is on its way to {given.to}; the report will come to you"


def report(t: Transition, turn: Turn, given: GiveReport) -> str:
    task = t.task_of(turn)
    assert task is not None, "only tasks have this tool"
    if len(turn.tools) > 1:
        raise Refusal("out-of-turn: a report ends your task, and this reply called other tools too; report alone")
    waits = open_messages(t, turn.agent)
    if waits:
        names = ", ".join(f"{message.type} {short(message.message_id)}" for message in waits)
        raise Refusal(f"out-of-turn: you still wait for answers ({names}); report when they are there")
    send_report(t, task, given.result, given.status)
    return "reported"


def send_report(t: Transition, task: Task, result: str, status: ReportStatus) -> None:
    """The work is over with it. Whether it is taken is for `delegating` to see."""
    message = Report(
        message_id=t.new_message_id(),
        from_=task.worker,
        to=parent_of(t.crew, task.worker),
        result=result,
        status=status,
        in_response_to=task.message,
    )
    task.refused = send_now(t, message) is not None
    task.report = message


def query_parent(t: Transition, turn: Turn, given: AskParent) -> str:
    id_ = t.new_message_id()
    require_room(t, id_)
    parent = parent_of(t.crew, turn.agent)
    message = _made(lambda: Query(message_id=id_, from_=turn.agent, to=parent, question=given.question))
    send_now(t, message)
    expect_answer(t, message)
    return f"question {short(id_)} is with {parent}; the answer will come to you"


def answer_child(t: Transition, turn: Turn, given: AnswerQuestion) -> str:
    id_ = t.new_message_id()
    asked = _asked(t, turn, given, id_)
    message = Answer(
        message_id=id_, from_=turn.agent, to=asked.sender, answer=given.answer, in_response_to=asked.message_id
    )
    fault = send_now(t, message)
    if fault is not None:
        raise Refusal(f"{fault.code}: {fault}")
    return f"{asked.sender} has your answer to {short(asked.message_id)}"


def _asked(t: Transition, turn: Turn, given: AnswerQuestion, id_: str) -> Query:
    """The open question that is meant; a typed refusal where there is none, or more than one."""
    box = mailbox(t, turn.agent)
    queries = [message for message in box.owes.values() if isinstance(message, Query)]
    meant = [query for query in queries if not given.to or query.sender == given.to]
    if given.message_id:
        meant = [query for query in meant if short(query.message_id) == short(given.message_id)]
    if len(meant) == 1:
        return meant[0]
    raise _refused_answer(t, turn, given, id_, meant or queries)


def _refused_answer(t: Transition, turn: Turn, given: AnswerQuestion, id_: str, among: list[Query]) -> Refusal:
    box, asked = mailbox(t, turn.agent), f"{t.state.run}:{short(given.message_id)}"
    open_ = ", ".join(f"{short(query.message_id)} of {query.sender}" for query in among) or "none"
    fault: MessageRefused
    if not given.message_id or (not among and asked not in box.received):
        fault = WrongConversation(id_, f"which question is meant? open are: {open_}")
    elif box.received.get(asked) == "QUERY" and not any(query.message_id == asked for query in among):
        fault = LateMessage(id_, short(asked), "its sender has gone on")
    else:
        fault = OutOfTurn(id_, f"'{given.message_id}' is no question to you; open are: {open_}")
    to = given.to if given.to.strip() else among[0].sender if among else "nobody"
    about = asked if given.message_id else "nothing"
    message = Answer(message_id=id_, from_=turn.agent, to=to, answer=given.answer, in_response_to=about)
    return send_refused(t, message, fault)


def _made(make: Any) -> Any:
    try:
        return make()
    except BadMessage as fault:
        raise Refusal(f"{fault.code}: {fault}") from fault


def about_children(crew: Crew, turn: Turn) -> tuple[str, dict[str, Any]]:
    """What a model is told of those it may delegate to, and their ids."""
    agents = {agent.id: agent for agent in crew.agents}
    lines = []
    for child in turn.children or ():
        agent, called = agents.get(child), crew.sub_crews.get(child)
        words = [agent.role, agent.description] if agent is not None else [called.description if called else ""]
        good_for = "; ".join(" ".join(word.split()) for word in words if word.strip())
        lines.append(f"{child}: {good_for}" if good_for else child)
    return "\n".join(lines), {"type": "string", "enum": list(turn.children or ()), "description": "Who is to do it."}
