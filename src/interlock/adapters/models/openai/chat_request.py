"""A call as the body of a chat completion.

Rule: reasoning goes back to the server that gave it, in the field in which it came, unaltered.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.adapters.models.openai.chat_stream import REASONING_DETAILS, REASONING_FIELDS
from interlock.adapters.models.openai.endpoint import Endpoint
from interlock.adapters.models.openai.settings_fields import chat_fields, with_extra
from interlock.adapters.tools.tool_names import fit_name
from interlock.ports import ModelRequest, PromptMessage, ToolSchema

NO_ARGUMENTS = "{}"

# The field without which a server refuses a tool call while it reasons. A call of another model has none.
REQUIRED_REASONING = {"deepseek": "reasoning_content"}

_encoder = msgspec.json.Encoder()


def chat_body(endpoint: Endpoint, model: str, request: ModelRequest, extra: Mapping[str, Any] | None = None) -> bytes:
    """The body in UTF-8; `extra` are fields of this server only, which the agent's own settings may replace."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(_messages(request, endpoint)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(schema) for schema in request.tools]
    if extra:
        body |= extra
    body |= chat_fields(endpoint.provider, model, request)
    return _encoder.encode(with_extra(body, request.settings) if request.settings.extra else body)


def tool_names(request: ModelRequest) -> dict[str, str]:
    """The tools of a call by their wire names."""
    return {fit_name(schema.name): schema.name for schema in request.tools}


def _messages(request: ModelRequest, endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    source, required = endpoint.source, REQUIRED_REASONING.get(endpoint.provider)
    if request.system:
        yield {"role": "system", "content": fit_text(request.system)}
    for message in request.messages:
        said = _message(message)
        for block in message.reasoning:
            if block.provider == source and block.kind in REASONING_FIELDS:
                said[block.kind] = fit_text(block.text)
            elif block.provider == source and block.kind == REASONING_DETAILS:
                said[block.kind] = msgspec.Raw(block.data.encode())
        if message.tool_calls and required:
            said.setdefault(required, "")
        yield said


def _message(message: PromptMessage) -> dict[str, Any]:
    text = fit_text(message.text)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call, "content": text}
    if not message.tool_calls:
        return {"role": message.role, "content": text}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": fit_name(call.name), "arguments": fit_arguments(call.arguments)},
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": text or None, "tool_calls": calls}


def _tool(schema: ToolSchema) -> dict[str, Any]:
    function = {"name": fit_name(schema.name), "description": schema.description, "parameters": schema.parameters}
    return {"type": "function", "function": function}


def fit_arguments(text: str) -> str:
    """Arguments as a JSON object: servers refuse a conversation with others. The tool's error quotes the original."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return NO_ARGUMENTS
    return text


def fit_text(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
