"""Real clients against strict providers."""

import importlib
import warnings
from typing import Any

import pytest

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.pydantic_ai.other_providers import OtherProviderModel
from interlock.crew.definition import ModelRef, ModelSettings
from interlock.engine.state import TurnMessage
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta, ToolSchema
from tests.fakes.dialects.server import DialectServer

with warnings.catch_warnings():  # Google's client has a text that its first compilation warns of
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("pydantic_ai.models.google")

KEY = "sk-0123456789abcdef"
SONNET = ModelRef(provider="anthropic", model="claude-sonnet-4-6")
FLASH = ModelRef(provider="google", model="gemini-3-flash")
FIND = ToolSchema(
    name="find",
    description="Find things.",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)
USER = TurnMessage(role="user", text="hi")

# The environment variables of the key and the address, by provider.
VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "google": ("GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}


def use(server: DialectServer, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points the clients of a provider to a server of this machine."""
    key, url = VARIABLES[provider]
    monkeypatch.setenv(key, KEY)
    monkeypatch.setenv(url, server.url)


def request_of(*messages: TurnMessage, settings: ModelSettings | None = None, **parts: Any) -> ModelRequest:
    return ModelRequest(
        key="r:1",
        agent="a",
        number=1,
        system=parts.pop("system", "Be kind."),
        messages=messages or (USER,),
        settings=settings or ModelSettings(),
        **parts,
    )


Pieces = list[Delta | ReasoningDelta | ModelReply]


async def pieces_from(model: ModelRef, request: ModelRequest) -> Pieces:
    client = OtherProviderModel(model, KnownSecrets([KEY]))
    try:
        return [piece async for piece in client.reply(request)]
    finally:
        await client.close()


async def reply_from(model: ModelRef, request: ModelRequest) -> ModelReply:
    reply = (await pieces_from(model, request))[-1]
    assert isinstance(reply, ModelReply)
    return reply


def spoken(reply: ModelReply) -> TurnMessage:
    """The reply as it stands in the conversation of the next call."""
    return TurnMessage(role="assistant", text=reply.text, tool_calls=reply.tool_calls, reasoning=reply.reasoning)


def results(reply: ModelReply) -> tuple[TurnMessage, ...]:
    return tuple(TurnMessage(role="tool", text="found", tool_call=call.id) for call in reply.tool_calls)
