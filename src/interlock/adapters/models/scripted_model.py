"""A model that answers from a script, and fails loudly when the script runs out."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from interlock.engine.events import ReasoningBlock, ToolRequest, Usage
from interlock.engine.kinds import ADVISORY_KINDS
from interlock.errors import ModelRefused, ModelUnavailable, ScriptExhausted, UsageError
from interlock.ids import full_name, without_number
from interlock.ports import Clock, Delta, ModelReply, ModelRequest, ReasoningDelta


class ScriptedToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. `arguments` as text stand for a model's output that is not a JSON object."""

    name: str
    arguments: dict[str, object] | str = {}


# Its name in `interlock.testing`; the port has another `ToolCall`.
ToolCall = ScriptedToolCall


class ScriptUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class ScriptedReasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A block of reasoning as a provider gives it; without a provider it is not sent back."""

    text: str = ""
    provider: str = ""
    kind: str = ""
    data: str = ""


# The provider of reasoning that a script gives as text.
SCRIPTED = "scripted"


class ScriptedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a script: text, tool calls, both, or an error, which with `retry: false` is final.

    `reasoning` is what the model thinks before it: a text, or blocks.
    """

    text: str = ""
    delay_seconds: float = 0.0
    usage: ScriptUsage = ScriptUsage()
    tool_calls: tuple[ScriptedToolCall, ...] = ()
    error: str = ""
    retry: bool = True
    reasoning: str | tuple[ScriptedReasoning, ...] = ""


Answers = Mapping[str, Sequence[ScriptedAnswer | str | Mapping[str, Any]]]


class ScriptedModel:
    """Answers by agent: its n-th call of a run gets its n-th answer, also after a crash. Records its requests.

    An answer is a text, a `ScriptedAnswer`, or an entry of a script file as a dictionary.

    An agent of a sub-crew uses the answers under `sub-crew/agent`, else those under its id. If a crew has several runs
    at once for one caller, the second may have its own under `sub-crew#2/agent`. Answers for a purpose are under
    `agent:select` and `agent:check`; without these they are among the agent's others.
    """

    def __init__(self, answers: Answers, *, clock: Clock | None = None, records_requests: bool = True) -> None:
        self.answers = {
            agent: [_answer_from(entry, agent, number) for number, entry in enumerate(entries, 1)]
            for agent, entries in answers.items()
        }
        self.asked: list[ModelRequest] = []
        self._clock, self._records_requests = clock, records_requests

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        if self._records_requests:
            self.asked.append(request)
        name, number, answers = self._answers_for(request)
        if number > len(answers):
            raise ScriptExhausted(f"the script has {len(answers)} answers for agent '{name}', not {number}")
        answer = answers[number - 1]
        await self._wait(answer.delay_seconds)
        if answer.error:
            raise (ModelUnavailable if answer.retry else ModelRefused)(answer.error)
        reasoning = _blocks(answer.reasoning) if answer.reasoning else ()
        for block in reasoning:
            if block.text:
                yield ReasoningDelta(block.text)
        if answer.text:
            yield Delta(answer.text)
        yield ModelReply(
            text=answer.text,
            usage=_usage(answer.usage),
            tool_calls=_requests(request.key, answer),
            reasoning=reasoning,
        )

    def _answers_for(self, request: ModelRequest) -> tuple[str, int, list[ScriptedAnswer]]:
        """The name of the answers, the index of the next one, and all of them."""
        name = full_name(request.path, request.agent)
        for known in (name, full_name([without_number(crew) for crew in request.path], request.agent), request.agent):
            if any(f"{known}:{purpose}" in self.answers for purpose in ADVISORY_KINDS):
                of_purpose = f"{known}:{request.purpose}" if request.purpose else known
                return of_purpose, request.purpose_number, self.answers.get(of_purpose, [])
            if known in self.answers:
                return known, request.number, self.answers[known]
        return name, request.number, []

    async def _wait(self, seconds: float) -> None:
        if not seconds:
            return
        if self._clock is None:
            await asyncio.sleep(seconds)
        else:
            await self._clock.sleep_until(self._clock.monotonic_ms() + int(seconds * 1000))


def _answer_from(entry: object, agent: str, number: int) -> ScriptedAnswer:
    """An answer as a script file or a program writes it: a text, an entry of a script as a dictionary, or itself."""
    if isinstance(entry, ScriptedAnswer):
        return entry
    if isinstance(entry, str):
        return ScriptedAnswer(text=entry)
    try:
        return msgspec.convert(entry, ScriptedAnswer)
    except msgspec.ValidationError as error:
        raise UsageError(f"answer {number} of agent '{agent}' is not an entry of a script: {error}") from error


def _usage(usage: ScriptUsage) -> Usage:
    return Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_micros=round(usage.cost * 1_000_000),
    )


def _blocks(reasoning: str | tuple[ScriptedReasoning, ...]) -> tuple[ReasoningBlock, ...]:
    if isinstance(reasoning, str):
        return (ReasoningBlock(provider=SCRIPTED, text=reasoning),)
    return tuple(ReasoningBlock(**msgspec.structs.asdict(block)) for block in reasoning)


def _requests(key: str, answer: ScriptedAnswer) -> tuple[ToolRequest, ...]:
    return tuple(
        ToolRequest(id=f"{key}/{n}", name=call.name, arguments=_arguments(call))
        for n, call in enumerate(answer.tool_calls)
    )


def _arguments(call: ScriptedToolCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()


def answers_from(document: object, where: str) -> dict[str, list[ScriptedAnswer | str]]:
    """Reads the answers of a script; raises `UsageError` with the fault."""
    try:
        script = msgspec.convert(document, _Script)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where} is not a script: {error}; a script is 'replies:' with a list per agent") from error
    return script.replies


class _Script(msgspec.Struct, forbid_unknown_fields=True):
    replies: dict[str, list[ScriptedAnswer | str]]
