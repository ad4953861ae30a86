"""DeepSeek's chat completions: they reason in `reasoning_content`, and want it back with every tool call."""

from typing import Any, ClassVar, Literal

from tests.fakes.dialects.openai_chat import ChatRequest, ChatServer, Message, Strict
from tests.fakes.dialects.server import Call, Say, pieces_of


class Thinking(Strict):
    type: Literal["enabled", "disabled"]


class DeepSeekMessage(Message):
    reasoning_content: str | None = None


class DeepSeekRequest(ChatRequest):
    messages: list[DeepSeekMessage]  # type: ignore[assignment]
    thinking: Thinking | None = None
    reasoning_effort: Literal["low", "medium", "high", "max"] | None = None
    user_id: str | None = None


class DeepSeek(ChatServer):
    """It thinks unless `thinking` is disabled. What it gave with a tool call must come back as it was."""

    root: ClassVar[str] = ""
    form = DeepSeekRequest

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self._given: dict[str, str] = {}  # by id of a tool call

    def check_request(self, request: DeepSeekRequest) -> None:
        if request.response_format is not None and request.response_format.type == "json_schema":
            self.refuse(400, "This response_format type is unavailable now", "invalid_request_error")
        prompt = " ".join(message.content or "" for message in request.messages)
        if request.response_format is not None and "json" not in prompt.lower():
            words = "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."
            self.refuse(400, words, "invalid_request_error")
        if request.thinking is None or request.thinking.type == "enabled":
            self._check_reasoning(request.messages)

    def _check_reasoning(self, messages: list[DeepSeekMessage]) -> None:
        for n, message in enumerate(messages):
            given = {self._given[call.id] for call in message.tool_calls if call.id in self._given}
            if message.tool_calls and message.reasoning_content is None:
                words = f"Missing `reasoning_content` field in the assistant message at message index {n}."
                self.refuse(400, words, "invalid_request_error", code="invalid_request_error")
            if given and given != {message.reasoning_content}:
                words = "The `reasoning_content` in the thinking mode must be passed back to the API."
                self.refuse(400, words, "invalid_request_error", code="invalid_request_error")

    def write(self, call: Call, say: Say) -> tuple[str, bytes]:
        for n, use in enumerate(say.uses):
            self._given[use.id or self.call_id(n)] = say.reasoning
        return super().write(call, say)

    def reasoning_deltas(self, say: Say) -> list[dict[str, Any]]:
        return [{"content": None, "reasoning_content": piece} for piece in pieces_of(say.reasoning) or [""]]

    def usage(self, say: Say) -> dict[str, Any]:
        took = say.tokens
        missed = took.input - took.cache_read
        return {**super().usage(say), "prompt_cache_hit_tokens": took.cache_read, "prompt_cache_miss_tokens": missed}
