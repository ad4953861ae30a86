"""Anthropic's Messages API, as strict as the real one.

From Anthropic's pages and error messages, in our own words. It refuses:
- a missing `max_tokens`, an unknown field, empty or blank text, a conversation that does not begin with the user, or
  ends with the assistant (prefill);
- a `tool_use` whose `tool_result` is not at the start of the next message, a `tool_result` without its `tool_use`, tool
  blocks without `tools`;
- in a tool loop with thinking: a reply that does not begin with its thinking, and thinking that is altered, missing or
  moved; anywhere: a signature that it did not give; for models that bind it: thinking after another beginning;
- a budget below 1024 or not below `max_tokens`, a budget or sampling settings for models that take none, `disabled` for
  models that cannot, a temperature other than 1 or a forced tool with a budget;
- more than four cache marks, one on thinking or on nothing, a longer one after a shorter one;
- a schema that structured outputs do not take.
"""

import base64
import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any, Literal, NoReturn

import msgspec

from tests.adapters.strict_schemas import refusals_of_anthropic
from tests.fakes.dialects.anthropic_cache import PromptCache
from tests.fakes.dialects.server import Call, DialectServer, Refusal, Reply, Say, Tokens, event_lines, pieces_of

# Models by the beginnings of their names, from Anthropic's pages about thinking.
ADAPTIVE_ONLY = ("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5")
ALWAYS_THINKS = ("claude-opus-5-5",)
THINKS_BY_ITSELF = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5")
BINDS_THINKING = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")
ADAPTIVE = (*ADAPTIVE_ONLY, "claude-opus-4-6", "claude-sonnet-4-6")

BUDGET_MIN = 1_024
CACHE_MARKS_MAX = 4


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of a request; an unknown field is refused."""


class CacheControl(Strict):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class Text(Strict, tag="text", tag_field="type"):
    text: str
    cache_control: CacheControl | None = None


class Thinking(Strict, tag="thinking", tag_field="type"):
    thinking: str
    signature: str


class RedactedThinking(Strict, tag="redacted_thinking", tag_field="type"):
    data: str


class ToolUse(Strict, tag="tool_use", tag_field="type"):
    id: str
    name: str
    input: dict[str, Any]
    cache_control: CacheControl | None = None


class ToolResult(Strict, tag="tool_result", tag_field="type"):
    tool_use_id: str
    content: str | list[Text] = ""
    is_error: bool = False
    cache_control: CacheControl | None = None


Block = Text | Thinking | RedactedThinking | ToolUse | ToolResult


class Message(Strict):
    role: Literal["user", "assistant"]
    content: str | list[Block]

    def blocks(self) -> list[Block]:
        return [Text(text=self.content)] if isinstance(self.content, str) else self.content


class InputSchema(msgspec.Struct):
    type: Literal["object"]


class Tool(Strict):
    name: str
    input_schema: InputSchema
    description: str = ""
    cache_control: CacheControl | None = None
    strict: bool = False


class ToolChoice(Strict):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool = False


class ThinkingConfig(Strict):
    type: Literal["enabled", "adaptive", "disabled", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(Strict):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(Strict):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class Body(Strict):
    model: str
    max_tokens: int
    messages: list[Message]
    system: str | list[Text] = ""
    tools: list[Tool] = []
    tool_choice: ToolChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] = []
    service_tier: Literal["auto", "standard_only"] = "auto"
    metadata: dict[str, str] = {}
    stream: bool = False

    @property
    def thinks(self) -> bool:
        if self.thinking is None:
            return self.model.startswith(THINKS_BY_ITSELF)
        return self.thinking.type in ("enabled", "adaptive")

    @property
    def shows_thinking(self) -> bool:
        """Newer models leave the text of their thinking out unless they are asked for it."""
        display = None if self.thinking is None else self.thinking.display
        return display == "summarized" if self.model.startswith(ADAPTIVE_ONLY) else display != "omitted"


class AnthropicServer(DialectServer):
    """Answers `/v1/messages`. With `has_cache` the tokens of a prompt are counted as the cache has it, not as said."""

    def __init__(self, *replies: Reply, has_cache: bool = False) -> None:
        super().__init__(*replies)
        self.cache = PromptCache() if has_cache else None
        self._numbers = itertools.count(1)
        self._signed: dict[str, tuple[str, str]] = {}  # the text and the beginning that a signature was made for
        self._replies: list[list[Any]] = []  # the shapes of the replies with thinking

    # Requests

    def check(self, call: Call) -> None:
        if call.path.partition("?")[0] != "/v1/messages":
            self.refuse(404, "Not found", "not_found_error")
        if not {"x-api-key", "authorization"} & set(call.headers):
            self.refuse(401, "x-api-key header is required", "authentication_error")
        if "anthropic-version" not in call.headers:
            self._wrong("anthropic-version: header is required")
        body = self.read(call.body, Body)
        self._check_settings(body)
        self._check_thinking_setting(body)
        self._check_texts(body)
        self._check_tool_blocks(body)
        self._check_thinking_blocks(call.body, body)
        self._check_cache_marks(call.body)
        self._check_schemas(call.body, body)

    def refuse_shape(self, fault: str) -> NoReturn:
        words = fault.replace("Object missing required field", "Field required:")
        self._wrong(words.replace("Object contains unknown field", "Extra inputs are not permitted:"))

    def _wrong(self, message: str) -> NoReturn:
        self.refuse(400, message, "invalid_request_error")

    def _check_settings(self, body: Body) -> None:
        if body.max_tokens < 1:
            self._wrong("max_tokens: must be greater than or equal to 1")
        if body.temperature is not None and not 0 <= body.temperature <= 1:
            self._wrong("temperature: range: 0..1")
        if any(not text.strip() for text in body.stop_sequences):
            self._wrong("stop_sequences: each stop sequence must contain non-whitespace")
        sampling = [name for name in ("temperature", "top_p", "top_k") if getattr(body, name) is not None]
        if sampling and body.model.startswith(ADAPTIVE_ONLY):
            self._wrong(f"`{sampling[0]}` is not supported for this model")
        if body.tool_choice is not None and not body.tools:
            self._wrong("tool_choice may only be specified while providing tools")

    def _check_thinking_setting(self, body: Body) -> None:
        if body.output_config is not None and body.output_config.effort and not body.model.startswith(ADAPTIVE):
            self._wrong("This model does not support the effort parameter.")
        if body.thinking is None:
            return
        kind, budget = body.thinking.type, body.thinking.budget_tokens
        refused = {
            "enabled": body.model.startswith(ADAPTIVE_ONLY),
            "adaptive": not body.model.startswith(ADAPTIVE),
            "disabled": body.model.startswith((*ALWAYS_THINKS, "claude-sonnet-5-5")),
            "between_tools": not body.model.startswith("claude-sonnet-5-5"),
        }
        if refused[kind]:
            self._wrong(f'"thinking.type.{kind}" is not supported for this model')
        if kind != "enabled":
            return
        if budget is None or budget < BUDGET_MIN:
            self._wrong("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= body.max_tokens:
            self._wrong("`max_tokens` must be greater than `thinking.budget_tokens`")
        if body.temperature not in (None, 1):
            self._wrong("`temperature` may only be set to 1 when thinking is enabled")
        if body.top_k is not None:
            self._wrong("`top_k` must be unset when thinking is enabled")
        if body.tool_choice is not None and body.tool_choice.type in ("any", "tool"):
            self._wrong("Thinking may not be enabled when tool_choice forces tool use")

    def _check_texts(self, body: Body) -> None:
        if not body.messages:
            self._wrong("messages: at least one message is required")
        if body.messages[0].role != "user":
            self._wrong('messages: first message must use the "user" role')
        if body.messages[-1].role == "assistant":
            self._wrong("This model does not support assistant message prefill. It must end with a user message.")
        system = [Text(text=body.system)] if isinstance(body.system, str) and body.system else body.system
        for message in body.messages:
            if not message.blocks():
                self._wrong("messages: all messages must have non-empty content")
        blocks = [block for message in body.messages for block in message.blocks()]
        for block in [*system, *blocks]:
            if isinstance(block, Text) and not block.text:
                self._wrong("messages: text content blocks must be non-empty")
            if isinstance(block, Text) and not block.text.strip():
                self._wrong("messages: text content blocks must contain non-whitespace text")

    def _check_tool_blocks(self, body: Body) -> None:
        turns, open_uses = _turns(body), set[str]()
        for n, (role, blocks) in enumerate(turns):
            uses = [block.id for block in blocks if isinstance(block, ToolUse)]
            results = [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]
            if (uses and role != "assistant") or (results and role != "user"):
                self._wrong(f"messages.{n}: tool blocks of the wrong role")
            for id_ in results:
                if id_ not in open_uses or results.count(id_) > 1:
                    self._wrong(f"messages.{n}: unexpected `tool_use_id` found in `tool_result` blocks: {id_}")
            first = [block.tool_use_id for block in blocks[: len(results)] if isinstance(block, ToolResult)]
            if missing := open_uses - set(first):
                self._wrong(
                    f"messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                    + ", ".join(sorted(missing))
                )
            if len(set(uses)) < len(uses):
                self._wrong(f"messages.{n}: `tool_use` ids must be unique")
            if (uses or results) and not body.tools:
                self._wrong("Requests which include `tool_use` or `tool_result` blocks must define tools")
            open_uses = set(uses)

    def _check_thinking_blocks(self, raw: dict[str, Any], body: Body) -> None:
        turns, loop = _turns(body), _loop_start(body)
        for n, (role, blocks) in enumerate(turns):
            for block in blocks:
                if isinstance(block, Thinking | RedactedThinking):
                    self._check_signature(n, block, raw, body)
            is_open = role == "assistant" and n >= loop and any(isinstance(block, ToolUse) for block in blocks)
            if not is_open or not body.thinks:
                continue
            shape = [_shape(block) for block in blocks]
            if any(_keeps_thinking(shape, given) for given in self._replies):
                continue
            if self._replies and not isinstance(blocks[0], Thinking | RedactedThinking):
                found = shape[0][0]
                self._wrong(
                    f"messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. "
                    "When `thinking` is enabled, a final `assistant` message must start with a thinking block"
                )
            if any(isinstance(block, Thinking | RedactedThinking) for block in blocks):
                self._wrong(
                    f"messages.{n}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
                    "modified. These blocks must remain as they were in the original response."
                )

    def _check_signature(self, n: int, block: Thinking | RedactedThinking, raw: dict[str, Any], body: Body) -> None:
        kind = "data" if isinstance(block, RedactedThinking) else "signature"
        text, signature = ("", block.data) if isinstance(block, RedactedThinking) else (block.thinking, block.signature)
        given = self._signed.get(signature)
        if given is None or given[0] != text:
            self._wrong(f"messages.{n}: Invalid `{kind}` in `{_shape(block)[0]}` block")
        if body.model.startswith(BINDS_THINKING) and not _begins_with(raw, given[1]):
            self._wrong(f"messages.{n}: Invalid thinking. The block is bound to a different conversation")

    def _check_cache_marks(self, raw: dict[str, Any]) -> None:
        marks = [part["cache_control"] for part in prompt_parts(raw) if part.get("cache_control")]
        if len(marks) > CACHE_MARKS_MAX:
            self._wrong(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.")
        lives = [mark.get("ttl", "5m") for mark in marks]
        if "1h" in lives[lives.index("5m") :] if "5m" in lives else False:
            self._wrong("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")

    def _check_schemas(self, raw: dict[str, Any], body: Body) -> None:
        if body.output_config is not None and body.output_config.format is not None:
            for fault in refusals_of_anthropic(body.output_config.format.schema):
                self._wrong(f"output_config.format.schema: {fault}")
        for n, tool in enumerate(raw.get("tools", ())):
            if tool.get("strict") and (faults := refusals_of_anthropic(tool["input_schema"])):
                self._wrong(f"tools.{n}.custom.input_schema: {faults[0]}")

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        kind = refusal.type or "api_error"
        return {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": "req_1"}

    # Replies

    def write(self, call: Call, say: Say) -> tuple[str, bytes]:
        body = self.read(call.body, Body)
        assert body.stream, "only streams are written"
        content = list(self._content(call.body, body, say))
        shape = [_shape(block) for block in msgspec.convert(content, list[Block]) if _is_sent_back(block)]
        if any(block["type"].endswith("thinking") for block in content):
            self._replies.append(shape)
        tokens = say.tokens if self.cache is None else self.cache.count(call.body, say.tokens.output)
        return "text/event-stream", event_lines(*self._events(call.body, content, say, tokens), named=True)

    def _content(self, raw: dict[str, Any], body: Body, say: Say) -> Iterator[dict[str, Any]]:
        """The blocks of the reply. `extra: {"blocks": […]}` gives them one by one, such as thinking between texts."""
        for block in say.extra.get("blocks") or _usual_blocks(say):
            kind = block["type"]
            if kind.endswith("thinking") and not body.thinks:
                continue
            if kind == "thinking":
                text = block["thinking"] if body.shows_thinking else ""
                yield {"type": kind, "thinking": text, "signature": self._sign(text, raw)}
            elif kind == "redacted_thinking":
                yield {"type": kind, "data": self._sign("", raw)}
            elif kind == "tool_use":
                yield {**block, "id": block.get("id") or f"toolu_{next(self._numbers):04}"}
            else:
                yield block

    def _sign(self, text: str, raw: dict[str, Any]) -> str:
        made = hashlib.sha256(f"{next(self._numbers)} {text}".encode()).digest()
        signature = base64.b64encode(made).decode()
        self._signed[signature] = (text, _beginning(raw, len(raw["messages"])))
        return signature

    def _events(
        self, raw: dict[str, Any], content: list[dict[str, Any]], say: Say, tokens: Tokens
    ) -> Iterator[dict[str, Any]]:
        usage = {
            "input_tokens": tokens.input - tokens.cache_read - tokens.cache_write,
            "cache_read_input_tokens": tokens.cache_read,
            "cache_creation_input_tokens": tokens.cache_write,
        }
        hour = any((part.get("cache_control") or {}).get("ttl") == "1h" for part in prompt_parts(raw))
        split = {
            "ephemeral_5m_input_tokens": 0 if hour else tokens.cache_write,
            "ephemeral_1h_input_tokens": tokens.cache_write if hour else 0,
        }
        start = {
            "id": f"msg_{next(self._numbers):04}", "type": "message", "role": "assistant", "model": raw["model"],
            "content": [], "stop_reason": None, "stop_sequence": None,
            "usage": {**usage, "cache_creation": split, "output_tokens": 1, "service_tier": "standard"},
        }  # fmt: skip
        yield {"type": "message_start", "message": start}
        yield {"type": "ping"}
        for n, block in enumerate(content):
            yield from _block_events(n, block)
        reason = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
        details = {"output_tokens_details": {"thinking_tokens": tokens.reasoning}} if tokens.reasoning else {}
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": say.stop or reason, "stop_sequence": None},
            "usage": {**usage, "output_tokens": tokens.output, **details},
        }
        yield {"type": "message_stop"}


def _usual_blocks(say: Say) -> Iterator[dict[str, Any]]:
    if say.reasoning:
        yield {"type": "thinking", "thinking": say.reasoning}
    if say.extra.get("redacted"):
        yield {"type": "redacted_thinking"}
    if say.text:
        yield {"type": "text", "text": say.text}
    for use in say.uses:
        yield {"type": "tool_use", "id": use.id, "name": use.name, "input": use.arguments}


def _block_events(n: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    empty: dict[str, dict[str, Any]] = {
        "thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}},
    }  # fmt: skip
    yield {"type": "content_block_start", "index": n, "content_block": {**block, **empty.get(block["type"], {})}}
    deltas: list[dict[str, Any]] = []
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces_of(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces_of(block["text"])]
    elif block["type"] == "tool_use":
        pieces = pieces_of(json.dumps(block["input"]))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    for delta in deltas:
        yield {"type": "content_block_delta", "index": n, "delta": delta}
    yield {"type": "content_block_stop", "index": n}


def _turns(body: Body) -> list[tuple[str, list[Block]]]:
    """The messages, with those of one role in a row as one, as the API reads them."""
    turns: list[tuple[str, list[Block]]] = []
    for message in body.messages:
        if turns and turns[-1][0] == message.role:
            turns[-1][1].extend(message.blocks())
        else:
            turns.append((message.role, list(message.blocks())))
    return turns


def _loop_start(body: Body) -> int:
    """The number of the first turn of the tool loop that is still open: after the last message without results."""
    turns = _turns(body)
    said = [
        n
        for n, (role, blocks) in enumerate(turns)
        if role == "user" and not any(isinstance(block, ToolResult) for block in blocks)
    ]
    return said[-1] if said else 0


def _shape(block: Block) -> tuple[Any, ...]:
    """What must stay as it was. The text may change, ids too, thinking not."""
    match block:
        case Thinking(thinking=text, signature=signature):
            return ("thinking", text, signature)
        case RedactedThinking(data=data):
            return ("redacted_thinking", data)
        case ToolUse(name=name, input=arguments):
            return ("tool_use", name, json.dumps(arguments, sort_keys=True))
        case Text():
            return ("text",)
        case ToolResult(tool_use_id=id_):
            return ("tool_result", id_)


def _keeps_thinking(shape: list[Any], given: list[Any]) -> bool:
    """True if a reply has all of its thinking in its place; of the rest something may be missing."""
    rest = iter(given)
    is_in_order = all(any(part == other for other in rest) for part in shape)
    return is_in_order and all(part in shape for part in given if part[0].endswith("thinking"))


def _is_sent_back(block: Block) -> bool:
    return not isinstance(block, Text) or bool(block.text.strip())


def prompt_parts(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Everything that may have a cache mark, in the order of the cache: tools, system, messages."""
    yield from raw.get("tools", ())
    if not isinstance(raw.get("system", ""), str):
        yield from raw["system"]
    for message in raw["messages"]:
        if isinstance(message["content"], list):
            yield from message["content"]


def _beginning(raw: dict[str, Any], messages: int) -> str:
    """What thinking is bound to: the tools, the system prompt and so many messages, without cache marks."""
    bound = {name: raw.get(name) for name in ("tools", "system")} | {"messages": raw["messages"][:messages]}
    return _without_marks(bound)


def _without_marks(value: Any) -> str:
    def bare(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: bare(each) for name, each in part.items() if name != "cache_control"}
        return [bare(each) for each in part] if isinstance(part, list) else part

    return json.dumps(bare(value), sort_keys=True)


def _begins_with(raw: dict[str, Any], beginning: str) -> bool:
    return any(_beginning(raw, n) == beginning for n in range(len(raw["messages"]) + 1))
