"""A model call as messages of pydantic-ai.

Rule 1: tool calls get new numbers in every model call: providers accept different ids, and a conversation may contain
ids of several providers.
"""

from collections.abc import Iterator, Sequence

from pydantic_ai import messages as wire
from pydantic_ai.tools import ToolDefinition

from interlock.adapters.models.openai.chat_request import fit_arguments, fit_text
from interlock.adapters.tools.tool_names import fit_name
from interlock.ports import ModelRequest, PromptMessage


def conversation_of(request: ModelRequest) -> list[wire.ModelMessage]:
    """The conversation in turns: everything up to the next reply of the model is one request."""
    turns, calls = list(_turns(request.messages)), _Calls()
    asked = [n for n, turn in enumerate(turns) if turn[0].role != "assistant"]
    last = asked[-1] if asked else None
    said = [
        calls.request(turn, request.system if n == last else "") if n in asked else calls.response(turn)
        for n, turn in enumerate(turns)
    ]
    return said if asked else [*said, calls.request((), request.system)]


def tools_of(request: ModelRequest) -> list[ToolDefinition]:
    return [
        ToolDefinition(
            name=fit_name(schema.name), description=schema.description, parameters_json_schema=schema.parameters
        )
        for schema in request.tools
    ]


def _turns(messages: Sequence[PromptMessage]) -> Iterator[list[PromptMessage]]:
    """The messages of the model, and between them all others together."""
    turn: list[PromptMessage] = []
    for message in messages:
        if turn and (message.role == "assistant") != (turn[0].role == "assistant"):
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


class _Calls:
    """The tool calls so far, by their original ids."""

    def __init__(self) -> None:
        self._numbered: dict[str, tuple[str, str]] = {}

    def response(self, turn: Sequence[PromptMessage]) -> wire.ModelResponse:
        parts: list[wire.ModelResponsePart] = []
        for message in turn:
            if message.text:
                parts.append(wire.TextPart(fit_text(message.text)))
            for call in message.tool_calls:
                name, number = fit_name(call.name), f"call_{len(self._numbered)}"
                self._numbered[call.id] = (name, number)
                parts.append(wire.ToolCallPart(name, fit_arguments(call.arguments), number))
        return wire.ModelResponse(parts=parts)

    def request(self, turn: Sequence[PromptMessage], instructions: str) -> wire.ModelRequest:
        parts: list[wire.ModelRequestPart] = [self._part(message) for message in turn]
        return wire.ModelRequest(parts=parts, instructions=fit_text(instructions) or None)

    def _part(self, message: PromptMessage) -> wire.ToolReturnPart | wire.UserPromptPart:
        if message.role != "tool":
            return wire.UserPromptPart(fit_text(message.text))
        name, number = self._numbered.get(message.tool_call, ("tool", f"call_{len(self._numbered)}"))
        return wire.ToolReturnPart(name, fit_text(message.text), number)
