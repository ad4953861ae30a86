"""A recorded run and all below it as a script: the answers of every agent, in the order of its calls.

Rule 1: an agent's n-th answer is that to its n-th call, so a call that was never answered keeps its place.
Rule 2: where answers came in another order than they were asked for, small delays keep that order.
Rule 3: agents of sub-crews are named by their path, `alpha/inner/y`; they continue counting when their crew is called
again. Where it is called twice in parallel they count alike, and the first answer is kept.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from interlock.adapters.models.scripted_model import SCRIPTED, ScriptedAnswer, ScriptedReasoning, ScriptUsage, ToolCall
from interlock.engine.events import (
    ChildStarted,
    Event,
    ModelCalled,
    ModelFailed,
    ModelReplied,
    ReasoningBlock,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolRequest,
    TurnStarted,
    Usage,
    WentStale,
)
from interlock.ids import full_name
from interlock.ports import StoredRecord

# Longer than any run: a call that was cancelled, or answered too late, must not be answered this time either.
NEVER_SECONDS = 86_400.0

# Answers of parallel members are this far apart, to arrive in the recorded order.
APART_SECONDS = 0.02

Script = dict[str, list[ScriptedAnswer]]

NEVER = ScriptedAnswer(error="was never answered", delay_seconds=NEVER_SECONDS)


# Of a fork: the answers before it are kept, and their agents are not asked again.
ELSEWHERE = ScriptedAnswer(error="was answered in the run that this one was forked from", retry=False)

Tree = Sequence[StoredRecord]


class _Call(msgspec.Struct):
    agent: str
    number: int
    answers_before: int
    answer: ScriptedAnswer | None = None


class _Names:
    """The names of the agents of a tree, as seen from its first run, and how often each was called."""

    def __init__(self, tree: Tree) -> None:
        self._started = {
            stored.run: stored.record.events[0] for stored in tree if isinstance(stored.record.events[0], RunStarted)
        }
        self._top = self._started[tree[0].run]
        self._asked: Counter[tuple[str, str]] = Counter()

    def name_of(self, run: str, agent: str) -> str:
        started = self._started[run]
        return full_name((started.way or started.path)[len(self._top.path) :], agent)

    def next_call(self, run: str, agent: str, answers: int) -> _Call:
        """Counts from the first call of its crew in this tree."""
        self._asked[run, agent] += 1
        name, before = self.name_of(run, agent), self._started[run].calls.get(agent, 0)
        number = before + self._asked[run, agent] - self._top.calls.get(name, 0)
        return _Call(name, number, answers)


def script_of(tree: Tree) -> Script:
    """The answers of the agents of a run and the runs below it."""
    names = _Names(tree)
    calls: dict[tuple[str, str], _Call] = {}
    answers = 0
    for stored in tree:
        incoming, *derived = stored.record.events
        if isinstance(incoming, ModelReplied | ModelFailed) and (stored.run, incoming.call) in calls:
            if not any(isinstance(fact, WentStale) for fact in derived):
                call = calls[stored.run, incoming.call]
                call.answer = _answer(incoming, answers - call.answers_before)
            answers += 1
        for fact in derived:
            if isinstance(fact, ModelCalled):
                calls[stored.run, fact.call] = names.next_call(stored.run, fact.agent, answers)
    return _by_agent(list(calls.values()), is_over=_end_of(tree) is not None)


def _by_agent(calls: Sequence[_Call], *, is_over: bool) -> Script:
    numbered: dict[str, dict[int, ScriptedAnswer]] = {}
    for call in calls:
        answers = numbered.setdefault(call.agent, {})
        if answers.get(call.number, NEVER) is NEVER:
            answers[call.number] = call.answer or NEVER
    script: Script = {}
    for agent, answers in numbered.items():
        kept = [answers.get(number, ELSEWHERE) for number in range(1, max(answers) + 1)]
        while kept and (kept[-1] is EXHAUSTED or (kept[-1] is NEVER and not is_over)):
            kept.pop()
        if kept:
            script[agent] = kept
    return script


# Where a script ran out, its recording runs out too.
EXHAUSTED = ScriptedAnswer(error="the script has no more answers", retry=False)


def _answer(event: ModelReplied | ModelFailed, overtaken: int) -> ScriptedAnswer:
    delay = round(overtaken * APART_SECONDS, 3)
    if isinstance(event, ModelReplied):
        return ScriptedAnswer(
            text=event.text,
            delay_seconds=delay,
            usage=_usage(event.usage),
            tool_calls=tuple(_tool_call(request) for request in event.tool_calls),
            reasoning=_as_reasoning(event.reasoning) if event.reasoning else "",
        )
    if event.reason == "script_exhausted":
        return EXHAUSTED
    return ScriptedAnswer(error=event.error or "failed", delay_seconds=delay, retry=event.retry)


def _usage(usage: Usage) -> ScriptUsage:
    return ScriptUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost=usage.cost_micros / 1_000_000,
    )


def _as_reasoning(blocks: Sequence[ReasoningBlock]) -> str | tuple[ScriptedReasoning, ...]:
    """The reasoning as a text if a script gave it as one, else as blocks."""
    if len(blocks) == 1 and blocks[0] == ReasoningBlock(provider=SCRIPTED, text=blocks[0].text):
        return blocks[0].text
    return tuple(ScriptedReasoning(**msgspec.structs.asdict(block)) for block in blocks)


def _tool_call(request: ToolRequest) -> ToolCall:
    """A tool call with its arguments as an object if they are one, else as text."""
    try:
        return ToolCall(name=request.name, arguments=msgspec.json.decode(request.arguments, type=dict[str, object]))
    except ValueError:
        return ToolCall(name=request.name, arguments=request.arguments)


def _end_of(tree: Tree) -> RunFinished | None:
    own = (stored.record for stored in reversed(tree) if stored.run == tree[0].run)
    found = (event for record in own for event in record.events if isinstance(event, RunFinished))
    return next(found, None)


def turns_of(tree: Tree) -> list[str]:
    """The agents in the order of their turns; turns of a sub-crew appear where it was called."""
    names, runs = _Names(tree), dict[str, list[Event]]()
    for stored in tree:
        runs.setdefault(stored.run, []).extend(stored.record.events)
    ahead = [(tree[0].run, event) for event in reversed(runs[tree[0].run])]
    turns = []
    while ahead:
        run, event = ahead.pop()
        if isinstance(event, TurnStarted):
            turns.append(names.name_of(run, event.agent))
        elif isinstance(event, ChildStarted):
            ahead += [(event.child, below) for below in reversed(runs.get(event.child, []))]
    return turns


# Writing


def script_yaml(tree: Tree) -> str:
    """The run as a file for `--script`."""
    return _to_yaml({"replies": _plain_script(tree)})


def crew_test_yaml(tree: Tree) -> str:
    """The run as one of a crew's own tests."""
    started, ending = tree[0].record.events[0], _end_of(tree)
    assert isinstance(started, RunStarted), "a run begins with run.started"
    expect: dict[str, Any] = {"turns": turns_of(tree)}
    if ending is not None:
        expect |= {"status": ending.status, "reason": ending.reason}
    events = [event for stored in tree for event in stored.record.events]
    resumes = [event.input for event in events if isinstance(event, RunResumed)]
    body = {"input": started.input, "script": _plain_script(tree), "expect": expect}
    return _to_yaml(body | ({"answers": resumes} if resumes else {}))


def _plain_script(tree: Tree) -> dict[str, list[Any]]:
    return {agent: [_as_plain(answer) for answer in answers] for agent, answers in script_of(tree).items()}


def _as_plain(answer: ScriptedAnswer) -> Any:
    if answer == ScriptedAnswer(text=answer.text) and answer.text:
        return answer.text
    default = msgspec.to_builtins(ScriptedAnswer())
    body = {key: value for key, value in msgspec.to_builtins(answer).items() if value != default[key]}
    if isinstance(answer.reasoning, tuple):
        body["reasoning"] = [{key: value for key, value in block.items() if value} for block in body["reasoning"]]
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


def _to_yaml(body: object) -> str:
    text = yaml.dump(body, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=2**31)
    assert isinstance(text, str), "without a stream the text is returned"
    return text
