"""A model call as messages of pydantic-ai.

Rule 1: tool calls get new numbers in every model call: providers accept different ids, and a conversation may contain
ids of several providers. The same conversation gets the same numbers, so that its start can be cached.
Rule 2: the results of tools come first in their turn: providers want them directly after the calls.
Rule 3: where a cache has to be asked, the end of the prompt of the call before is marked, beside the end of this one:
there the cache has an entry. From one mark it looks back over 20 blocks only; a reply with its results may have more.
"""

from collections.abc import Iterator, Sequence

from pydantic_ai import messages as wire
from pydantic_ai.tools import ToolDefinition

from interlock.adapters.models.openai.chat_request import fit_arguments, fit_text
from interlock.adapters.models.pydantic_ai.reasoning import parts_with_reasoning
from interlock.adapters.tools.tool_names import fit_name
from interlock.engine.events import ToolRequest
from interlock.ports import ModelRequest, PromptMessage


def conversation_of(
    request: ModelRequest, server: str = "", system: str = "", mark: wire.CachePoint | None = None
) -> list[wire.ModelMessage]:
    """The conversation in turns: everything up to the next reply of the model is one request.

    `server` is who gets its reasoning back, and `system` the library's name for it. `mark` goes to the end of what the
    call before showed (rule 3).
    """
    turns, calls = list(_turns(request.messages)), _Calls(server, system)
    asked = [n for n, turn in enumerate(turns) if turn[0].role != "assistant"]
    last, before = asked[-1:], asked[-2:-1]
    said = [
        calls.request(turn, request.system if n in last else "", mark if n in before else None)
        if n in asked
        else calls.response(turn)
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

    def __init__(self, server: str, system: str) -> None:
        self._server, self._system = server, system
        self._numbered: dict[str, tuple[str, str]] = {}

    def response(self, turn: Sequence[PromptMessage]) -> wire.ModelResponse:
        parts: list[wire.ModelResponsePart] = []
        for message in turn:
            calls = [self._call(call) for call in message.tool_calls]
            text = fit_text(message.text)
            parts += parts_with_reasoning(text, calls, message.reasoning, self._server, self._system)
        return wire.ModelResponse(parts=parts, provider_name=self._system or None)

    def _call(self, call: ToolRequest) -> wire.ToolCallPart:
        name, number = fit_name(call.name), f"call_{len(self._numbered)}"
        self._numbered[call.id] = (name, number)
        return wire.ToolCallPart(name, fit_arguments(call.arguments), number)

    def request(
        self, turn: Sequence[PromptMessage], instructions: str, mark: wire.CachePoint | None = None
    ) -> wire.ModelRequest:
        results_first = sorted(turn, key=lambda message: message.role != "tool")
        parts: list[wire.ModelRequestPart] = [self._part(message) for message in results_first]
        if mark is not None and any(message.text.strip() for message in turn):  # a mark needs something before it
            parts.append(wire.UserPromptPart([mark]))
        return wire.ModelRequest(parts=parts, instructions=fit_text(instructions) or None)

    def _part(self, message: PromptMessage) -> wire.ToolReturnPart | wire.UserPromptPart:
        if message.role != "tool":
            return wire.UserPromptPart(fit_text(message.text))
        name, number = self._numbered.get(message.tool_call, ("tool", f"call_{len(self._numbered)}"))
        return wire.ToolReturnPart(name, fit_text(message.text), number)
