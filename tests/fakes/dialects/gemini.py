"""The Gemini API, as strict as the real one.

From Google's pages and error messages, in our own words. It refuses:
- an unknown field, content without parts, a conversation that does not begin with the user;
- a function call that does not follow the user or a function response, another number of responses than calls, a
  response to a function that was not called;
- from Gemini 3 on: a function call of the current turn whose step has no signature; always: a signature that it did
  not give for that part. The documented text in place of a signature is taken only for calls that it did not sign: the
  real one always takes it, but a client that got a signature must send that;
- a level for models that take a budget and the other way, both, a budget of 0 for models that cannot stop thinking, any
  of it for models that do not think;
- a JSON schema beside functions for models before Gemini 3, and a schema that it does not take;
- more than five stop sequences.
"""

import base64
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NoReturn

import msgspec

from tests.adapters.strict_schemas import refusals_of_gemini
from tests.fakes.dialects.server import Call, DialectServer, Refusal, Reply, Say, Tokens, event_lines, pieces_of

STOPS_MAX = 5
# The smallest prefix that is cached without being asked for.
CACHED_MIN = 1_024
CHARS_PER_TOKEN = 4

# What Google documents for a call that has no signature, such as one of another model.
INSTEAD = b"skip_thought_signature_validator"

# What is under these names is the user's, not the API's.
_OPAQUE = ("args", "response", "parametersJsonSchema", "responseJsonSchema")


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A part of a request; an unknown field is refused."""


class FunctionCall(Strict):
    name: str
    args: dict[str, Any] = {}
    id: str = ""


class FunctionResponse(Strict):
    name: str
    response: dict[str, Any]
    id: str = ""


class Part(Strict):
    text: str | None = None
    thought: bool = False
    thought_signature: str = ""
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class Content(Strict):
    role: Literal["user", "model"]
    parts: list[Part]

    @property
    def calls(self) -> list[FunctionCall]:
        return [part.function_call for part in self.parts if part.function_call is not None]

    @property
    def responses(self) -> list[FunctionResponse]:
        return [part.function_response for part in self.parts if part.function_response is not None]


class Declaration(Strict):
    name: str
    description: str = ""
    parameters_json_schema: dict[str, Any] = {}


class Tool(Strict):
    function_declarations: list[Declaration] = []


class CallingConfig(Strict):
    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED"] = "AUTO"
    allowed_function_names: list[str] = []


class ToolConfig(Strict):
    function_calling_config: CallingConfig


class ThinkingConfig(Strict):
    include_thoughts: bool = False
    thinking_budget: int | None = None
    thinking_level: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"] | None = None


class GenerationConfig(Strict):
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    max_output_tokens: int | None = None
    stop_sequences: list[str] = []
    seed: int | None = None
    thinking_config: ThinkingConfig = msgspec.field(default_factory=ThinkingConfig)
    response_mime_type: Literal["text/plain", "application/json"] = "text/plain"
    response_json_schema: dict[str, Any] | None = None
    response_modalities: list[Literal["TEXT"]] = []


class Body(Strict):
    contents: list[Content]
    system_instruction: Content | None = None
    tools: list[Tool] = []
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig = msgspec.field(default_factory=GenerationConfig)
    service_tier: Literal["standard", "flex", "priority"] = "standard"


class GeminiServer(DialectServer):
    """Answers `models/NAME:streamGenerateContent`."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__(*replies)
        self._numbers = itertools.count(1)
        self._signed: dict[bytes, tuple[Any, ...]] = {}  # the part that a signature was made for
        self._prompts: list[str] = []

    # Requests

    def check(self, call: Call) -> None:
        if not call.path.endswith(":streamGenerateContent?alt=sse"):
            self.refuse(404, "Not Found", "NOT_FOUND")
        if "x-goog-api-key" not in call.headers:
            self.refuse(403, "Method doesn't allow unregistered callers", "PERMISSION_DENIED")
        body, model = self._read_body(call), _model_of(call)
        self._check_settings(body, model)
        self._check_thinking(body.generation_config.thinking_config, model)
        self._check_turns(body)
        self._check_signatures(body, model)

    def _read_body(self, call: Call) -> Body:
        return self.read(_camel(call.body), Body)

    def refuse_shape(self, fault: str) -> NoReturn:
        self._wrong(f"Invalid JSON payload received. {fault.replace('Object contains unknown field', 'Unknown name')}")

    def _wrong(self, message: str) -> NoReturn:
        self.refuse(400, message, "INVALID_ARGUMENT")

    def _check_settings(self, body: Body, model: str) -> None:
        config = body.generation_config
        if config.temperature is not None and not 0 <= config.temperature <= 2:
            self._wrong("temperature must be in the range [0.0, 2.0]")
        if len(config.stop_sequences) > STOPS_MAX:
            self._wrong(f"The number of stop sequences must not be larger than {STOPS_MAX}")
        if config.max_output_tokens is not None and config.max_output_tokens < 1:
            self._wrong("max_output_tokens must be positive")
        declared = [each for tool in body.tools for each in tool.function_declarations]
        if config.response_json_schema is not None:
            if config.response_mime_type != "application/json":
                self._wrong("response_json_schema needs response_mime_type: 'application/json'")
            if declared and not _is_from(model, 3):
                self._wrong("Function calling with a response mime type: 'application/json' is unsupported")
            for fault in refusals_of_gemini(config.response_json_schema):
                self._wrong(fault)

    def _check_thinking(self, thinking: ThinkingConfig, model: str) -> None:
        budget, level = thinking.thinking_budget, thinking.thinking_level
        if thinking == ThinkingConfig():
            return
        if not _is_from(model, 2.5):
            self._wrong("Thinking is not enabled for this model")
        if budget is not None and level is not None:
            self._wrong("You can only set only one of thinking budget and thinking level.")
        if level is not None and not _is_from(model, 3):
            self._wrong("Thinking level is not supported for this model.")
        if budget == 0 and "pro" in model:
            self._wrong("Budget 0 is invalid. This model only works in thinking mode.")
        if level == "MEDIUM" and model.startswith("gemini-3-pro"):
            self._wrong("Thinking level MEDIUM is not supported for this model.")

    def _check_turns(self, body: Body) -> None:
        if not body.contents or body.contents[0].role != "user":
            self._wrong("Please ensure that the conversation begins with a user turn.")
        if any(not content.parts for content in body.contents):
            self._wrong("GenerateContentRequest.contents: contents.parts must not be empty.")
        asked: list[FunctionCall] = []
        for n, content in enumerate(body.contents):
            if content.calls and (content.role != "model" or body.contents[n - 1].role != "user"):
                self._wrong(
                    "Please ensure that function call turn comes immediately after a user turn or after a function "
                    "response turn."
                )
            answers = content.responses
            if len(answers) != len(asked):
                self._wrong(
                    "Please ensure that the number of function response parts is equal to the number of function call "
                    "parts of the function call turn."
                )
            if sorted(each.name for each in answers) != sorted(each.name for each in asked):
                self._wrong("Please ensure that function response turn comes immediately after a function call turn.")
            asked = content.calls
        if asked:
            self._wrong("Please ensure that a function call turn is followed by its function responses.")

    def _check_signatures(self, body: Body, model: str) -> None:
        said = [n for n, each in enumerate(body.contents) if each.role == "user" and not each.responses]
        for n, content in enumerate(body.contents):
            for part in content.parts:
                if part.thought_signature:
                    self._check_signature(part)
            first = next((part for part in content.parts if part.function_call is not None), None)
            is_current = n > _turn_start(body, said)
            if first is not None and is_current and _is_from(model, 3) and not first.thought_signature:
                assert first.function_call is not None
                self._wrong(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                    f"work correctly. Additional data, function call `{first.function_call.name}`, position {n}."
                )

    def _check_signature(self, part: Part) -> None:
        signature = base64.b64decode(part.thought_signature.replace("-", "+").replace("_", "/"))  # either alphabet
        if signature == INSTEAD and _shape(part) not in self._signed.values():
            return
        if self._signed.get(signature) != _shape(part):
            self._wrong("Thought signature is not valid.")

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        kind = refusal.type or "INTERNAL"
        return {"error": {"code": refusal.status, "message": refusal.message, "status": kind}}

    # Replies

    def write(self, call: Call, say: Say) -> tuple[str, bytes]:
        body, model = self._read_body(call), _model_of(call)
        parts = list(self._parts(body, model, say))
        prompt = json.dumps([call.body.get(name) for name in ("systemInstruction", "tools", "contents")])
        tokens = say.tokens if say.tokens != Tokens() else self._count(prompt, say)
        self._prompts.append(prompt)
        usage = {
            "promptTokenCount": tokens.input,
            "candidatesTokenCount": tokens.output - tokens.reasoning,
            "totalTokenCount": tokens.input + tokens.output,
            **({"cachedContentTokenCount": tokens.cache_read} if tokens.cache_read else {}),
            **({"thoughtsTokenCount": tokens.reasoning} if tokens.reasoning else {}),
        }
        return "text/event-stream", event_lines(*_chunks(parts, model, usage, say.stop or "STOP"))

    def _parts(self, body: Body, model: str, say: Say) -> Iterator[dict[str, Any]]:
        thinking = body.generation_config.thinking_config
        thinks = _is_from(model, 2.5) and thinking.thinking_budget != 0
        if say.reasoning and thinks and thinking.include_thoughts:
            yield {"text": say.reasoning, "thought": True}
        signs = thinks and (say.reasoning != "" or _is_from(model, 3))
        if say.text:
            yield {"text": say.text, **(self._signature("text") if signs and not say.uses else {})}
        for n, use in enumerate(say.uses):
            called = {"name": use.name, "args": use.arguments}
            signature = self._signature("call", use.name, json.dumps(use.arguments)) if signs and not n else {}
            yield {"functionCall": called, **signature}

    def _signature(self, *shape: Any) -> dict[str, str]:
        made = hashlib.sha256(f"{next(self._numbers)}".encode()).digest()
        self._signed[made] = shape
        return {"thoughtSignature": base64.b64encode(made).decode()}

    def _count(self, prompt: str, say: Say) -> Tokens:
        """The tokens of the prompt; what an earlier prompt began with, too, is cached."""
        same = max((_common(prompt, earlier) for earlier in self._prompts), default=0) // CHARS_PER_TOKEN
        cached = same if same >= CACHED_MIN else 0
        return Tokens(input=len(prompt) // CHARS_PER_TOKEN, cache_read=cached, output=say.tokens.output)


def _chunks(parts: list[dict[str, Any]], model: str, usage: dict[str, int], stop: str) -> Iterator[dict[str, Any]]:
    """Texts come in pieces, the signature with the last of them; the last chunk has the counts and the reason."""
    pieces = [piece for part in parts for piece in _pieces(part)]
    for n, part in enumerate(pieces or [{"text": ""}]):
        last = {"finishReason": stop} if n == len(pieces) - 1 or not pieces else {}
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **last}
        yield {
            "candidates": [candidate], "modelVersion": model, "responseId": "r1",
            "usageMetadata": usage if last else {"promptTokenCount": usage["promptTokenCount"]},
        }  # fmt: skip


def _pieces(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    texts = pieces_of(part["text"]) if "text" in part else []
    for text in texts[:-1]:
        yield {name: value for name, value in {**part, "text": text}.items() if name != "thoughtSignature"}
    yield {**part, "text": texts[-1]} if texts else part


def _turn_start(body: Body, said: list[int]) -> int:
    """The content that the current turn began with: the last text of the user that answers no function call.

    Text that came with function responses is sent as content of its own, directly after them.
    """
    starts = [n for n in said if not n or not body.contents[n - 1].responses]
    return starts[-1] if starts else 0


def _shape(part: Part) -> tuple[Any, ...]:
    if part.function_call is not None:
        return ("call", part.function_call.name, json.dumps(part.function_call.args))
    return ("text",)


def _model_of(call: Call) -> str:
    return call.path.rpartition("/")[2].partition(":")[0]


def _is_from(model: str, generation: float) -> bool:
    """True if a model is of a generation or a later one: `gemini-2.5-flash` is of 2.5."""
    return float(model.split("-")[1]) >= generation


def _common(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _camel(value: Any) -> Any:
    """The names in one spelling: the API takes `thinking_level` and `thinkingLevel`."""
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    written = {}
    for name, inner in value.items():
        first, *rest = name.split("_")
        name = first + "".join(word.capitalize() for word in rest)
        written[name] = inner if name in _OPAQUE else _camel(inner)
    return written
