"""Assembles a streamed reply of the Responses API, event by event.

Rule 1: a reply is complete only with the event that says so. Then its items count, as they were when each was done.
Rule 2: reasoning items are kept whole, in one block, with the ids of the items between them: their order and their
ids are what the API checks when they go back.
Rule 3: an event that is not known says nothing about the reply, and is skipped; there are new ones every month.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.endpoint import Endpoint
from interlock.adapters.models.openai.provider_failures import failure_of
from interlock.adapters.models.openai.reply_assembly import TOOL_CALLS_MAX, ReplyAssembly, count_of, part_of
from interlock.engine.events import ReasoningBlock, Usage
from interlock.errors import ModelRefused, ModelUnavailable, ReplyCutShort
from interlock.ports import ModelReply

# The kind of the one block that holds the items of a reply with reasoning.
OUTPUT_ITEMS = "output_items"

TEXT, REFUSAL = "response.output_text.delta", "response.refusal.delta"
REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
NEXT_SUMMARY = "response.reasoning_summary_part.added"
ARGUMENTS, ITEM = "response.function_call_arguments.delta", "response.output_item.done"
COMPLETED, INCOMPLETE, FAILED = "response.completed", "response.incomplete", "response.failed"
CUT_SHORT, HELD_BACK = "max_output_tokens", "content_filter"

# What of an item is needed to send it back; its content is in the reply.
_STUB_FIELDS = ("type", "id", "call_id", "phase")


class _Response(msgspec.Struct):
    usage: Any = None
    error: Any = None
    incomplete_details: Any = None


class _Event(msgspec.Struct):
    type: str = ""
    delta: Any = None
    item: Any = None
    response: _Response | None = None
    code: Any = None
    message: Any = None


_decoder = msgspec.json.Decoder(_Event)


class ResponsesStream(ReplyAssembly):
    """The stream of a response."""

    def __init__(self, endpoint: Endpoint, keys: KnownSecrets, *, key: str, tools: Mapping[str, str]) -> None:
        super().__init__(endpoint, keys, key=key, tools=tools)
        self._items: list[dict[str, Any]] = []
        self._end = self._why = ""

    def on_stream_done(self) -> None:
        """Says nothing here: some servers end every stream so."""

    def _plain_text_of(self, event: _Event) -> str | None:
        return event.delta if event.type == TEXT and isinstance(event.delta, str) else None

    def _apply(self, event: _Event) -> str:
        self._add_event(event)
        return ""

    def reply(self, *, is_framed: bool) -> ModelReply:
        text, name = "".join(self._texts), self._server.name
        if not self._end:
            raise ModelUnavailable(f"the reply of {name} broke off before its end")
        if self._end == INCOMPLETE and self._why == CUT_SHORT:
            raise ReplyCutShort(name, text, self.usage.output_tokens)
        if self._end == INCOMPLETE:
            raise ModelRefused(f"{name} held its reply back ({self._why or 'incomplete'})")
        if self._refusal and not text:
            raise ModelRefused(f"{name} refused: {self._keys.safe_line(''.join(self._refusal))}")
        calls = [item for item in self._items if item["type"] == "function_call"]
        if len(calls) > TOOL_CALLS_MAX:
            raise ModelRefused(f"{name} asked for more than {TOOL_CALLS_MAX} tools in one reply")
        requests = tuple(self._requests((_text(c, "call_id"), _text(c, "name"), _text(c, "arguments")) for c in calls))
        return ModelReply(
            text=text,
            usage=self.usage,
            tool_calls=requests,
            uncounted=not self.usage.tokens,
            reasoning=self._blocks(),
        )

    def _read(self, payload: bytes) -> _Event:
        try:
            return _decoder.decode(payload)
        except (ValueError, RecursionError):
            return self._read_leniently(payload)

    def _read_leniently(self, payload: bytes) -> _Event:
        """Reads a payload with broken characters replaced; other faults stay."""
        try:
            return msgspec.convert(json.loads(payload.decode("utf-8", "replace")), _Event)
        except (ValueError, RecursionError) as error:
            raise ModelUnavailable(f"{self._server.name} sent something that is not an event of a response") from error

    def _add_event(self, event: _Event) -> None:
        if event.type in REASONING and isinstance(event.delta, str):
            self._show_reasoning(self._count_text(event.delta))
        elif event.type == NEXT_SUMMARY and self._reasoning_stream is not None:
            self._show_reasoning("\n\n")
        elif event.type == REFUSAL and isinstance(event.delta, str):
            self._refusal.append(self._count_text(event.delta))
        elif event.type == ARGUMENTS and isinstance(event.delta, str):
            self._count_text(event.delta)
        elif event.type == ITEM and isinstance(event.item, dict) and isinstance(event.item.get("type"), str):
            self._items.append(event.item)
        elif event.type in (COMPLETED, INCOMPLETE):
            self._end_reply(event.type, event.response or _Response())
        elif event.type in (FAILED, "error"):
            self._raise_failure(event)

    def _end_reply(self, end: str, response: _Response) -> None:
        self._end, self.usage, self.is_done = end, _usage(response.usage), True
        details = response.incomplete_details
        self._why = _text(details, "reason") if isinstance(details, dict) else ""

    def _raise_failure(self, event: _Event) -> NoReturn:
        response = event.response or _Response()
        error = response.error or {"code": event.code, "message": event.message}
        raise failure_of(self._server, self._keys, None, error)

    def _blocks(self) -> tuple[ReasoningBlock, ...]:
        """The items of a reply with reasoning that can go back; nothing if there is none."""
        if not any(map(_is_reasoning, self._items)):
            return ()
        kept = [item for item in self._items if _is_reasoning(item) or item["type"] in ("function_call", "message")]
        items = [
            {
                name: value
                for name, value in item.items()
                if value is not None and (_is_reasoning(item) or name in _STUB_FIELDS)
            }
            for item in kept
        ]
        data = self._keys.redact_json(msgspec.json.encode(items).decode())
        return (self._reasoning_block(OUTPUT_ITEMS, self._keys.redact(_summary_of(self._items)), data),)


def _is_reasoning(item: Mapping[str, Any]) -> bool:
    """True for a reasoning item that the provider can read without having stored it."""
    return item["type"] == "reasoning" and bool(item.get("encrypted_content") or item.get("content"))


def _summary_of(items: list[dict[str, Any]]) -> str:
    """What a person can read of the reasoning."""
    parts = [part for item in items if item["type"] == "reasoning" for part in _parts(item)]
    return "\n\n".join(_text(part, "text") for part in parts)


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = item.get("content") or item.get("summary")
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _text(values: Mapping[str, Any], name: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) else ""


def _usage(usage: Any) -> Usage:
    """The usage; invalid numbers count as 0, since a reply is complete whatever its usage says."""
    said = usage if isinstance(usage, dict) else {}
    prompt, output = count_of(said.get("input_tokens")), count_of(said.get("output_tokens"))
    return Usage(
        input_tokens=prompt,
        cache_read_tokens=min(part_of(said, "input_tokens_details", "cached_tokens"), prompt),
        output_tokens=output,
        reasoning_tokens=min(part_of(said, "output_tokens_details", "reasoning_tokens"), output),
    )
