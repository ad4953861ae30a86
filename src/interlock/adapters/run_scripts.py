"""A recorded run as a script: what every agent answered, in the order of its calls.

Rule 1: an agent's n-th answer is that to its n-th call, so a call that was never answered keeps its place.
Rule 2: where answers came in another order than they were asked for, small delays keep that order.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from interlock.adapters.models.scripted import Answer, ScriptUsage, ToolCall
from interlock.engine.events import (
    ModelCalled,
    ModelFailed,
    ModelReplied,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolRequest,
    TurnStarted,
    Usage,
    WentStale,
)
from interlock.ports import Record

# Longer than any run: a call that was given up, or answered too late, must not be answered this time either.
NEVER_SECONDS = 86_400.0

# Answers of members at work at once are set this far apart, to come in the order they came in.
APART_SECONDS = 0.02

Script = dict[str, list[Answer]]

NEVER = Answer(error="was never answered", delay_seconds=NEVER_SECONDS)


class _Call(msgspec.Struct):
    agent: str
    answers_before: int
    answer: Answer | None = None


def script_of(records: Sequence[Record]) -> Script:
    """What the run's agents answered."""
    calls: dict[str, _Call] = {}
    answers = 0
    for record in records:
        incoming, *derived = record.events
        if isinstance(incoming, ModelReplied | ModelFailed) and incoming.call in calls:
            if not any(isinstance(fact, WentStale) for fact in derived):
                call = calls[incoming.call]
                call.answer = _answer(incoming, answers - call.answers_before)
            answers += 1
        for fact in derived:
            if isinstance(fact, ModelCalled):
                calls[fact.call] = _Call(fact.agent, answers)
    return _by_agent(list(calls.values()), is_over=_ending(records) is not None)


def _by_agent(calls: Sequence[_Call], *, is_over: bool) -> Script:
    script: Script = {}
    for call in calls:
        script.setdefault(call.agent, []).append(call.answer or NEVER)
    for answers in script.values():
        while answers and (answers[-1] is EXHAUSTED or (answers[-1] is NEVER and not is_over)):
            answers.pop()
    return {agent: answers for agent, answers in script.items() if answers}


# Where a script ran out, a shorter script runs out again.
EXHAUSTED = Answer(error="the script has no more answers", retry=False)


def _answer(event: ModelReplied | ModelFailed, overtaken: int) -> Answer:
    delay = round(overtaken * APART_SECONDS, 3)
    if isinstance(event, ModelReplied):
        return Answer(
            text=event.text,
            delay_seconds=delay,
            usage=_usage(event.usage),
            tool_calls=tuple(_tool_call(request) for request in event.tool_calls),
        )
    if event.reason == "script_exhausted":
        return EXHAUSTED
    return Answer(error=event.error or "failed", delay_seconds=delay, retry=event.retry)


def _usage(usage: Usage) -> ScriptUsage:
    return ScriptUsage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=usage.cost_micros / 1_000_000
    )


def _tool_call(request: ToolRequest) -> ToolCall:
    """Arguments as an object where the model wrote one, else as it wrote them."""
    try:
        return ToolCall(name=request.name, arguments=msgspec.json.decode(request.arguments, type=dict[str, object]))
    except ValueError:
        return ToolCall(name=request.name, arguments=request.arguments)


def _ending(records: Sequence[Record]) -> RunFinished | None:
    found = (event for record in reversed(records) for event in record.events if isinstance(event, RunFinished))
    return next(found, None)


# Writing


def written_script(records: Sequence[Record]) -> str:
    """The run as a file for `--script`."""
    return _yaml({"replies": _plain_script(records)})


def written_test(records: Sequence[Record]) -> str:
    """The run as one of a crew's own tests."""
    started, ending = records[0].events[0], _ending(records)
    assert isinstance(started, RunStarted), "a run begins with run.started"
    events = [event for record in records for event in record.events]
    expect: dict[str, Any] = {"turns": [event.agent for event in events if isinstance(event, TurnStarted)]}
    if ending is not None:
        expect |= {"status": ending.status, "reason": ending.reason}
    resumes = [event.input for event in events if isinstance(event, RunResumed)]
    body = {"input": started.input, "script": _plain_script(records), "expect": expect}
    return _yaml(body | ({"answers": resumes} if resumes else {}))


def _plain_script(records: Sequence[Record]) -> dict[str, list[Any]]:
    return {agent: [_plain(answer) for answer in answers] for agent, answers in script_of(records).items()}


def _plain(answer: Answer) -> Any:
    if answer == Answer(text=answer.text) and answer.text:
        return answer.text
    default = msgspec.to_builtins(Answer())
    body = {key: value for key, value in msgspec.to_builtins(answer).items() if value != default[key]}
    if "usage" in body:
        body["usage"] = {key: value for key, value in body["usage"].items() if value}
    return body or {"text": ""}


class _Dumper(yaml.SafeDumper):
    """Text is quoted, unless it is a plain word: what looks like a number differs between versions of YAML."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_WORD = re.compile(r"[a-z_][a-z0-9_-]*\Z")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if _WORD.match(text):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text)
    is_block = "\n" in text and all(char == "\n" or char.isprintable() for char in text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_block else '"')


_Dumper.add_representer(str, _text)


def _yaml(body: object) -> str:
    text = yaml.dump(body, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=2**31)
    assert isinstance(text, str), "without a stream the text is returned"
    return text
