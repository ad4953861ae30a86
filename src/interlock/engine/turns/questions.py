"""`ask_user`: a question to a person. It pauses only the agent that asked.

Rule 1: the message keeps its id; after a bad answer the question is repeated under a new token, with the reason.
Rule 2: one answer counts. A deadline is in wall-clock time, and the driver keeps it.
"""

from typing import Annotated, Any

import msgspec

from interlock.engine.delegation.mailboxes import mailbox, require_room, send_and_deliver, settle_message, short_id
from interlock.engine.effects import SetAlarm
from interlock.engine.events import InputExpired, InputRequested
from interlock.engine.kinds import WaitKind
from interlock.engine.stages import Stage
from interlock.engine.state import Turn, Wait, turns_by
from interlock.engine.transition import ToolRefusal, Transition
from interlock.messages.answers import AnswerRules, require_rules, require_use, require_valid_answer
from interlock.messages.mailbox import TIMED_OUT
from interlock.messages.refusals import BadAnswer, BadMessage, BadQuestion
from interlock.messages.wire import USER, RequestUserInput, UserResponse

QUESTION = str(WaitKind.QUESTION)

# A question may be open for a month; for longer, ask without a deadline.
DEADLINE_SECONDS_MAX = 30 * 24 * 3600


class AskUserArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[str, msgspec.Meta(description="One question, to a person.")]
    context: Annotated[str, msgspec.Meta(description="Why you ask.")] = ""
    choices: Annotated[list[str], msgspec.Meta(description="The allowed answers.")] = []
    pattern: Annotated[str, msgspec.Meta(description="A regular expression that the whole answer must match.")] = ""
    answer_schema: Annotated[dict[str, Any], msgspec.Meta(description="A JSON schema that the answer must match.")] = {}
    deadline_seconds: Annotated[
        float, msgspec.Meta(ge=0, le=DEADLINE_SECONDS_MAX, description="Continue without an answer after this time.")
    ] = 0
    default: Annotated[str | None, msgspec.Meta(description="The answer to use if none comes in time.")] = None


def ask_user(t: Transition, turn: Turn, given: AskUserArguments) -> str:
    id_ = t.new_message_id()
    require_room(t, id_)
    try:
        rules = _rules(t, given)
        default = _default(t, given, rules)
        message = RequestUserInput(message_id=id_, from_=turn.agent, question=given.question, context=given.context)
    except (BadQuestion, BadAnswer, BadMessage) as fault:
        raise ToolRefusal(f"{fault.code}: {fault}") from fault
    send_and_deliver(t, message)
    mailbox(t, USER).receive()  # a person sees it from now on
    wait = Wait(
        token=id_,
        reason=QUESTION,
        agent=turn.agent,
        turn=turn.number,
        message=id_,
        question=given.question,
        context=given.context if t.state.rules >= 3 else "",
        rules=rules,
        deadline_ms=_milliseconds(t, given.deadline_seconds),
        default=default,
    )
    _open_wait(t, wait, given.question)
    return f"question {short_id(id_)} is before a person; the answer will come to you"


def _rules(t: Transition, given: AskUserArguments) -> AnswerRules:
    rules = AnswerRules(choices=tuple(given.choices), pattern=given.pattern, schema=given.answer_schema)
    require_rules(rules, formats=t.state.rules >= 3)
    if t.state.rules > 1:
        require_use(rules.schema)
    return rules


def _default(t: Transition, given: AskUserArguments, rules: AnswerRules) -> str | None:
    """The default as a valid answer."""
    if given.default is None:
        return None
    if not given.deadline_seconds:
        raise BadQuestion("a default counts after a deadline, and there is none; give deadline_seconds too")
    try:
        return require_valid_answer(rules, given.default)
    except BadAnswer as fault:
        if t.state.rules == 1:
            raise
        raise BadQuestion(f"the default does not fit: {fault}") from fault


def _milliseconds(t: Transition, seconds: float) -> int:
    """The deadline; one that rounds to 0 is still a deadline."""
    return int(seconds * 1000) or int(seconds > 0 and t.state.rules > 1)


def _open_wait(t: Transition, wait: Wait, question: str) -> None:
    t.state.waits.append(wait)
    if wait.deadline_ms and not wait.alarm:
        wait.alarm = t.new_key()
        t.emit(SetAlarm(key=wait.alarm, token=wait.message, duration_ms=wait.deadline_ms))
    t.record(
        InputRequested(
            agent=wait.agent,
            question=question,
            token=wait.token,
            message_id=wait.message,
            expects=wait.rules.in_words,
            deadline_ms=wait.deadline_ms,
            context=wait.context,
        )
    )


def on_question_answered(t: Transition, wait: Wait, text: str) -> Stage | None:
    """Delivers a person's answer, or repeats the question if the answer does not fit."""
    try:
        answer = require_valid_answer(wait.rules, text)
    except BadAnswer as fault:
        wait.token = t.new_token()
        _open_wait(t, wait, f"{wait.question}\n({fault})")
        return None
    t.cancel(wait.alarm)
    t.state.asked[wait.message] = wait.token
    message = UserResponse(message_id=t.new_message_id(), to=wait.agent, answer=answer, in_response_to=wait.message)
    fault_of_mail = send_and_deliver(t, message)
    assert fault_of_mail is None, "an open wait has a turn that waits"
    return None


def on_question_expired(t: Transition, event: InputExpired) -> Stage | None:
    """Ends a question without an answer: the default counts, if there is one, and the agent continues."""
    wait = next(wait for wait in t.state.waits if wait.message == event.token)
    t.state.waits.remove(wait)
    t.mark_running()
    seconds = wait.deadline_ms / 1000
    why = f"nobody answered '{wait.question}' within {seconds:g} s"
    asked = mailbox(t, wait.agent).sent[wait.message].message
    settle_message(t, asked, TIMED_OUT, why=why)
    mailbox(t, USER).owes.pop(wait.message, None)
    instead = f"; the default counts: {wait.default}" if wait.default is not None else "; go on without an answer"
    turn = next(turn for turn in turns_by(t.state, wait.agent) if turn.number == wait.turn)
    turn.notices.append(why + instead)
    return None
