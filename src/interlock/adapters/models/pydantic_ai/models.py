"""Models of every provider that pydantic-ai has a client for, by its direct API. Needs the extra `llm`.

Rule 1: only requests of the library are used: no agents, no tools that it runs, no tracing.
Rule 2: retries are ours: a client calls once.
Rule 3: only a complete reply counts; everything else is a `PortError` that is safe to show.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, cast

import msgspec
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from interlock.adapters.config.known_secrets import KnownSecrets, RedactingStream
from interlock.adapters.models.openai.chat_request import tool_names
from interlock.adapters.models.openai.endpoint import CallLimits
from interlock.adapters.models.pydantic_ai.call_settings import call_settings, mark_of
from interlock.adapters.models.pydantic_ai.failures import failure_of
from interlock.adapters.models.pydantic_ai.messages import conversation_of, tools_of
from interlock.adapters.models.pydantic_ai.model_facts import facts_of
from interlock.adapters.models.pydantic_ai.reasoning import blocks_of
from interlock.adapters.models.typed_output import SCHEMA, TOOL, OutputPlan, plan_output, without_thoughts
from interlock.adapters.models.wire_schemas import ANTHROPIC, GEMINI, OPENAI
from interlock.crew.definition import ModelRef
from interlock.engine.events import ToolRequest, Usage
from interlock.engine.prompt.grammar import ReplyEnding
from interlock.errors import ModelRefused, ModelUnavailable, PortError, ReplyCutShort, ReplyTooLarge
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta

LIMITS = CallLimits()


def open_model(model: ModelRef, provider: str, keys: KnownSecrets) -> "PydanticAIModel":
    """The model with its client; raises `ModelRefused` if the client cannot be set up."""
    try:
        client = infer_model(f"{provider}:{model.model}")
    except Exception as error:
        raise failure_of(model.name, error, keys) from error
    return PydanticAIModel(client, model, keys)


class PydanticAIModel:
    """One model of a provider."""

    def __init__(self, client: Model, model: ModelRef, keys: KnownSecrets) -> None:
        self._client, self._model, self._keys = client, model, keys
        self._is_open, self._opening = False, asyncio.Lock()

    async def reply(self, request: ModelRequest) -> AsyncGenerator[Delta | ReasoningDelta | ModelReply]:
        try:
            await self._open()
            async with aclosing(self._pieces(request)) as pieces:  # otherwise the stream would never be closed
                async for piece in pieces:
                    yield piece
        except PortError:
            raise
        except Exception as error:
            raise failure_of(self._model.name, error, self._keys) from error

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._client.__aexit__(None, None, None)

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._client.__aenter__()
                self._is_open = True

    async def _pieces(self, request: ModelRequest) -> AsyncGenerator[Delta | ReasoningDelta | ModelReply]:
        plan = self._plan(request)
        request = request if plan is None else plan.request
        pieces = _Pieces(self._model.name, self._keys, is_json=plan is not None and plan.is_json)
        async with model_request_stream(
            self._client,
            conversation_of(request, self._model.server, self._client.system, mark_of(self._model, request.settings)),
            model_settings=cast(ModelSettings, call_settings(self._client, self._model, request, LIMITS)),
            model_request_parameters=_parameters(request, plan),
            instrument=False,
        ) as stream:
            async for event in stream:
                for piece in pieces.add(event):
                    yield piece
            for piece in pieces.flush():
                yield piece
            response = stream.get()
        try:
            reply = self._reply(request, response)
            reply = reply if plan is None else plan.reply_of(reply)
        except PortError as error:
            error.usage = _usage(response.usage)
            raise
        yield reply

    def _plan(self, request: ModelRequest) -> "OutputPlan | EndingPlan | None":
        """Asks for a value by a schema where the library says that the model takes one, else by a tool."""
        profile, dialect = self._client.profile, _DIALECTS.get(self._model.provider, OPENAI)
        if request.typed is None:
            return _plan_ending(self._model, request)
        way = SCHEMA if profile.get("supports_json_schema_output", False) else TOOL
        with_tools = dialect is not GEMINI or bool(profile.get("google_supports_tool_combination", False))
        return plan_output(request, way, dialect, with_tools=with_tools)

    def _reply(self, request: ModelRequest, response: ModelResponse) -> ModelReply:
        text = self._keys.redact("".join(part.content for part in response.parts if isinstance(part, TextPart)))
        self._require_whole(response, text)
        names = tool_names(request)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        return ModelReply(
            text=text,
            usage=_usage(response.usage),
            tool_calls=tuple(self._tool_request(request, n, call, names) for n, call in enumerate(calls)),
            uncounted=not response.usage.input_tokens and not response.usage.output_tokens,
            reasoning=blocks_of(response, self._model.server, self._keys),
        )

    def _require_whole(self, response: ModelResponse, text: str) -> None:
        if response.finish_reason == "length":
            raise ReplyCutShort(self._model.name, text, response.usage.output_tokens)
        if response.finish_reason == "content_filter":
            raise ModelRefused(f"{self._model.name} withheld its reply: its content filter stopped it")
        if response.finish_reason == "error" or response.state != "complete" or not _is_ended(response):
            raise ModelUnavailable(f"the reply of {self._model.name} broke off before its end")

    def _tool_request(self, request: ModelRequest, n: int, call: ToolCallPart, names: dict[str, str]) -> ToolRequest:
        return ToolRequest(
            id=call.tool_call_id or f"{request.key}/{n}",
            name=self._keys.redact(names.get(call.tool_name, call.tool_name)),
            arguments=self._keys.redact_json(call.args if isinstance(call.args, str) else call.args_as_json_str())
            or "{}",
        )


def _usage(usage: RequestUsage) -> Usage:
    """The tokens by bucket; the library counts cached ones as input."""
    return Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
    )


# The dialects of schemas, by provider; others speak OpenAI's.
_DIALECTS = {"anthropic": ANTHROPIC, "bedrock": ANTHROPIC, "gemini": GEMINI, "google": GEMINI}


class EndingPlan(msgspec.Struct, frozen=True):
    """How one call is held to end in one of its marks: by a schema, unless the reply calls tools."""

    request: ModelRequest
    ending: ReplyEnding
    way: str = SCHEMA
    is_json: bool = True

    @property
    def envelope(self) -> dict[str, Any]:
        return self.ending.schema

    def reply_of(self, reply: ModelReply) -> ModelReply:
        if reply.tool_calls:
            return reply
        reply = without_thoughts(reply)
        return msgspec.structs.replace(reply, text=self.ending.reply_of(reply.text), constrained=True)


def _plan_ending(model: ModelRef, request: ModelRequest) -> EndingPlan | None:
    facts = facts_of(model)
    if request.ending is None or facts is None:
        return None
    can = facts.takes_schema_with_tools if request.tools else facts.takes_schema
    return EndingPlan(request, request.ending) if can else None


def _parameters(request: ModelRequest, plan: OutputPlan | EndingPlan | None) -> ModelRequestParameters:
    tools = tools_of(request)
    if plan is None or plan.way != SCHEMA:
        return ModelRequestParameters(function_tools=tools)
    envelope = OutputObjectDefinition(json_schema=plan.envelope, name="reply", strict=True)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=envelope)


def _is_ended(response: ModelResponse) -> bool:
    """True if the provider gave a finish reason: the library accepts a stream that breaks off."""
    details = response.provider_details or {}
    return response.finish_reason is not None or "finish_reason" in details or response.provider_name is None


class _Pieces:
    """The pieces of a reply from the events of the library, redacted; tool calls have none."""

    def __init__(self, name: str, keys: KnownSecrets, *, is_json: bool) -> None:
        self._name, self._is_json, self._size = name, is_json, 0
        self._text, self._reasoning = RedactingStream(keys), RedactingStream(keys)

    def add(self, event: ModelResponseStreamEvent) -> Iterator[Delta | ReasoningDelta]:
        text, reasoning = _texts_of_event(event)
        self._size += len(text) + len(reasoning)
        if self._size > LIMITS.reply_bytes_max:
            raise ReplyTooLarge(self._name, LIMITS.reply_bytes_max)
        if shown := self._reasoning.add(reasoning):
            yield ReasoningDelta(shown)
        if (shown := self._text.add(text)) and not self._is_json:
            yield Delta(shown)

    def flush(self) -> Iterator[Delta | ReasoningDelta]:
        if shown := self._reasoning.flush():
            yield ReasoningDelta(shown)
        if (shown := self._text.flush()) and not self._is_json:
            yield Delta(shown)


def _texts_of_event(event: ModelResponseStreamEvent) -> tuple[str, str]:
    """The text and the reasoning that an event adds."""
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text, ""
        case PartStartEvent(part=ThinkingPart(content=text)):
            return "", text
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=piece)):
            return "", piece or ""
        case _:
            return "", ""
