"""A call as the body of a request to the Responses API.

Rule 1: nothing is stored at the provider: the whole conversation goes out with every call.
Rule 2: reasoning items go back unaltered and in their place, before the items that followed them. One that nothing
follows any more stays out: the API refuses it.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from interlock.adapters.models.openai.chat_request import fit_arguments, fit_text
from interlock.adapters.models.openai.endpoint import Endpoint
from interlock.adapters.models.openai.openai_models import openai_model_facts
from interlock.adapters.models.openai.responses_stream import OUTPUT_ITEMS
from interlock.adapters.models.openai.settings_fields import responses_fields, with_extra
from interlock.adapters.tools.tool_names import fit_name
from interlock.engine.events import ToolRequest
from interlock.ports import ModelRequest, PromptMessage, ToolSchema

Item = dict[str, Any]

ENCRYPTED_REASONING = "reasoning.encrypted_content"

# The API refuses longer ids. Those of other providers may be longer.
CALL_ID_CHARS_MAX = 64

_encoder = msgspec.json.Encoder()


def responses_body(
    endpoint: Endpoint, model: str, request: ModelRequest, extra: Mapping[str, Any] | None = None
) -> bytes:
    """The body in UTF-8; `extra` are fields as of a chat completion."""
    body: Item = {
        "model": model,
        "input": [item for message in request.messages for item in _items(message, endpoint.source)],
        "stream": True,
        "store": False,
    }
    if openai_model_facts(model).can_reason:  # other models refuse it
        body["include"] = [ENCRYPTED_REASONING]
    if request.system:
        body["instructions"] = fit_text(request.system)
    if request.tools:
        body["tools"] = [_tool(schema) for schema in request.tools]
    if extra:
        body |= _as_responses_fields(extra)
    body |= responses_fields(model, request)
    return _encoder.encode(with_extra(body, request.settings) if request.settings.extra else body)


def _as_responses_fields(fields: Mapping[str, Any]) -> Item:
    """Fields of a chat completion in the form of this API."""
    found = dict(fields)
    form = found.pop("response_format", None)
    if form is None:
        return found
    return {**found, "text": {"format": {"type": form["type"], **form.get("json_schema", {})}}}


def _tool(schema: ToolSchema) -> Item:
    """A function. It is not strict: that would make every optional argument required."""
    return {
        "type": "function",
        "name": fit_name(schema.name),
        "description": schema.description,
        "parameters": schema.parameters,
        "strict": False,
    }


def _items(message: PromptMessage, source: str) -> Iterator[Item]:
    text = fit_text(message.text)
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": _fit_call_id(message.tool_call), "output": text}
    elif message.role == "assistant":
        given = (block.data for block in message.reasoning if (block.provider, block.kind) == (source, OUTPUT_ITEMS))
        before = [item for data in given for item in msgspec.json.decode(data, type=list[Item])]
        yield from _reply_items(text, message.tool_calls, before)
    else:
        yield {"role": message.role, "content": text}


def _reply_items(text: str, calls: tuple[ToolRequest, ...], before: Iterable[Item]) -> Iterator[Item]:
    """The items of a reply in the order in which they came; what was not there then comes last."""
    rest = {_fit_call_id(call.id): _call(call) for call in calls}
    held: list[Item] = []  # reasoning whose next item is not known yet
    for item in before:
        if item["type"] == "reasoning":
            held.append(item)
        elif item["type"] == "function_call" and (call := rest.pop(item.get("call_id", ""), None)) is not None:
            yield from (*held, {**item, **call})
            held = []
        elif item["type"] == "message" and text:
            yield from (*held, {**item, **_message(text)})
            held, text = [], ""
    last = [*([{"role": "assistant", "content": text}] if text else []), *rest.values()]
    yield from (*held, *last) if last else ()


def _call(call: ToolRequest) -> Item:
    return {
        "type": "function_call",
        "call_id": _fit_call_id(call.id),
        "name": fit_name(call.name),
        "arguments": fit_arguments(call.arguments),
    }


def _message(text: str) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def _fit_call_id(id_: str) -> str:
    return id_ if len(id_) <= CALL_ID_CHARS_MAX else f"call_{sha256(id_.encode()).hexdigest()[:40]}"
