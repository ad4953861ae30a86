"""OpenAI's chat completions, as strict as the real ones. The errors are worded as OpenAI words them."""

import json
import re
from typing import Any, ClassVar, Literal, NoReturn

import msgspec

from tests.adapters.strict_schemas import refusals_of_openai
from tests.fakes.dialects.server import Call, DialectServer, Refusal, Say, event_lines, pieces_of

KEY = "sk-strict-0123456789abcdef"
TOOL_NAME = re.compile("[a-zA-Z0-9_-]{1,64}")
REASONING_MODEL = re.compile("(o[134]|gpt-5)(?!.*chat).*")
RESPONSES_ONLY = re.compile(".*(-pro|codex|deep-research).*")
TOOLS_WITHOUT_REASONING = re.compile(r"gpt-5\.[4-9].*")


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of a request that takes no field but its own."""


class Function(Strict):
    name: str
    arguments: str


class ToolCall(Strict):
    id: str
    type: Literal["function"]
    function: Function


class Message(Strict):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str = ""


class FunctionSchema(Strict):
    name: str
    parameters: dict[str, Any]
    description: str = ""
    strict: bool = False


class Tool(Strict):
    type: Literal["function"]
    function: FunctionSchema


class JsonSchema(Strict):
    name: str
    schema: dict[str, Any]
    strict: bool = False


class ResponseFormat(Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(Strict):
    include_usage: bool


class ChatRequest(Strict):
    """The fields that all chat completions have."""

    model: str
    messages: list[Message]
    stream: bool = False
    stream_options: StreamOptions | None = None
    tools: list[Tool] = []
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: list[str] | str | None = None


class OpenAIChatRequest(ChatRequest):
    max_completion_tokens: int | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    seed: int | None = None
    parallel_tool_calls: bool | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    prompt_cache_key: str | None = None


class ChatServer(DialectServer):
    """What the chat completions of all providers have in common."""

    root: ClassVar[str] = "/v1"
    form: ClassVar[type[ChatRequest]] = ChatRequest

    def check(self, call: Call) -> None:
        if (call.method, call.path) != ("POST", f"{self.root}/chat/completions"):
            self.refuse(404, f"Unknown request URL: {call.method} {call.path}.", "invalid_request_error")
        if call.headers.get("authorization") != f"Bearer {KEY}":
            self.refuse(401, "Incorrect API key provided.", "invalid_request_error", code="invalid_api_key")
        request = self.read(call.body, self.form)
        self.check_request(request)
        self.check_messages(request.messages)
        for tool in request.tools:
            if not TOOL_NAME.fullmatch(tool.function.name):
                self.refuse_value("tools[0].function.name", "string does not match pattern '^[a-zA-Z0-9_-]+$'")

    def check_request(self, request: Any) -> None:
        """Refuses what only this provider refuses."""

    def check_messages(self, messages: list[Message]) -> None:
        open_: list[str] = []
        for message in messages:
            if message.role == "tool":
                if message.tool_call_id not in open_:
                    self.refuse_value(
                        "messages", "messages with role 'tool' must be a response to a preceding 'tool_calls'"
                    )
                open_.remove(message.tool_call_id)
                continue
            self._require_no_open_call(open_)
            open_ = [call.id for call in message.tool_calls]
            for call in message.tool_calls:
                if not isinstance(json.loads(call.function.arguments), dict):
                    self.refuse_value("messages", "arguments must be a JSON object")
        self._require_no_open_call(open_)

    def _require_no_open_call(self, open_: list[str]) -> None:
        if open_:
            self.refuse_value(
                "messages",
                "an assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'; without response: {', '.join(open_)}",
            )

    def refuse_value(self, param: str, why: str, code: str = "invalid_value") -> NoReturn:
        self.refuse(400, f"Invalid '{param}': {why}.", "invalid_request_error", param=param, code=code)

    def refuse_shape(self, fault: str) -> NoReturn:
        field = re.search("unknown field `([^`]+)`", fault)
        where = re.search(r"at `\$\.?([^`]*)`", fault)
        place = where[1] if where else ""
        if field:
            name = f"{place}.{field[1]}".strip(".")
            self.refuse(
                400, f"Unknown parameter: '{name}'.", "invalid_request_error", param=name, code="unknown_parameter"
            )
        self.refuse(400, f"Invalid type for '{place}': {fault}.", "invalid_request_error", param=place)

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        kind = refusal.type or "invalid_request_error"
        return {"error": {"message": refusal.message, "type": kind, "param": None, "code": None, **refusal.more}}

    def write(self, call: Call, say: Say) -> tuple[str, bytes]:
        chunks = [self._chunk({"role": "assistant", "content": ""})]
        chunks += [self._chunk(delta) for delta in self.reasoning_deltas(say)]
        chunks += [self._chunk({"content": piece}) for piece in pieces_of(say.text)]
        for n, use in enumerate(say.uses):
            id_ = use.id or self.call_id(n)
            head = {"name": use.name, "arguments": ""}
            chunks.append(self._chunk({"tool_calls": [{"index": n, "id": id_, "type": "function", "function": head}]}))
            for piece in pieces_of(json.dumps(use.arguments)):
                chunks.append(self._chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]}))
        chunks.append(self._chunk({}, say.stop or ("tool_calls" if say.uses else "stop")))
        if call.body.get("stream_options", {}).get("include_usage"):
            chunks.append({**self._chunk({}), "choices": [], "usage": self.usage(say)})
        return "text/event-stream", event_lines(*chunks) + b"data: [DONE]\n\n"

    def call_id(self, n: int) -> str:
        """The id of the n-th tool call of this reply: no other provider gives the same."""
        return f"call_{type(self).__name__}_{len(self.calls)}_{n}"

    def reasoning_deltas(self, say: Say) -> list[dict[str, Any]]:
        return []

    def usage(self, say: Say) -> dict[str, Any]:
        took = say.tokens
        return {
            "prompt_tokens": took.input,
            "completion_tokens": took.output,
            "total_tokens": took.input + took.output,
            "completion_tokens_details": {"reasoning_tokens": took.reasoning},
        }

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


class OpenAIChat(ChatServer):
    """OpenAI itself. It tells nothing of its reasoning but how many tokens it took."""

    form = OpenAIChatRequest

    def check_request(self, request: OpenAIChatRequest) -> None:
        reasons = REASONING_MODEL.fullmatch(request.model) is not None
        if RESPONSES_ONLY.fullmatch(request.model):
            words = "This model is only supported in v1/responses and not in v1/chat/completions."
            self.refuse(404, words, "invalid_request_error", param="model")
        if reasons and (name := next((n for n in ("max_tokens", "stop") if getattr(request, n) is not None), "")):
            self.refuse_unsupported(name)
        if not reasons and request.reasoning_effort is not None:
            words = "Unrecognized request argument supplied: reasoning_effort"
            self.refuse(400, words, "invalid_request_error")
        if request.tools and TOOLS_WITHOUT_REASONING.fullmatch(request.model) and request.reasoning_effort != "none":
            words = (
                f"Function tools with reasoning_effort are not supported for {request.model} in /v1/chat/completions."
            )
            self.refuse(400, words, "invalid_request_error", param="reasoning_effort")
        if request.parallel_tool_calls is not None and not request.tools:
            self.refuse_value("parallel_tool_calls", "it is only allowed when 'tools' are specified")
        self.check_schema(request.response_format)

    def check_schema(self, form: ResponseFormat | None) -> None:
        if form is None or form.json_schema is None:
            return
        faults = refusals_of_openai(form.json_schema.schema) if form.json_schema.strict else []
        if faults:
            words = f"Invalid schema for response_format '{form.json_schema.name}': {'; '.join(faults)}."
            self.refuse(400, words, "invalid_request_error", param="response_format")

    def refuse_unsupported(self, name: str) -> NoReturn:
        words = f"Unsupported parameter: '{name}' is not supported with this model."
        self.refuse(400, words, "invalid_request_error", param=name, code="unsupported_parameter")

    def usage(self, say: Say) -> dict[str, Any]:
        return {**super().usage(say), "prompt_tokens_details": {"cached_tokens": say.tokens.cache_read}}
