"""OpenAI's Responses API without storage, as strict as the real one. The errors are worded as OpenAI words them."""

import json
from hashlib import sha256
from typing import Any, ClassVar, Literal, NoReturn

import msgspec

from tests.adapters.strict_schemas import refusals_of_openai
from tests.fakes.dialects.openai_chat import KEY, REASONING_MODEL, TOOL_NAME, ChatServer, Strict
from tests.fakes.dialects.server import Call, Say, Use, event_lines, pieces_of

CALL_ID_CHARS_MAX = 64
Item = dict[str, Any]


class Tool(Strict):
    type: Literal["function"]
    name: str
    parameters: dict[str, Any]
    description: str = ""
    strict: bool = True  # as with the real one


class Format(Strict):
    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    schema: dict[str, Any] = msgspec.field(default_factory=dict)
    strict: bool = False


class Text(Strict):
    format: Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class Reasoning(Strict):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class ResponsesRequest(Strict):
    model: str
    input: list[dict[str, Any]]
    stream: bool = False
    store: bool = True
    include: list[Literal["reasoning.encrypted_content"]] = msgspec.field(default_factory=list)
    instructions: str | None = None
    tools: list[Tool] = msgspec.field(default_factory=list)
    text: Text | None = None
    reasoning: Reasoning | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    prompt_cache_key: str | None = None


class ContentPart(Strict):
    type: Literal["input_text", "output_text"]
    text: str
    annotations: list[Any] = msgspec.field(default_factory=list)


class EasyMessage(Strict):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[ContentPart]


class OutputMessage(Strict):
    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: Literal["completed", "incomplete"]
    content: list[ContentPart]
    phase: str = ""


class FunctionCall(Strict):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str = ""


class FunctionOutput(Strict):
    type: Literal["function_call_output"]
    call_id: str
    output: str


class ReasoningItem(Strict):
    type: Literal["reasoning"]
    id: str
    summary: list[dict[str, Any]]
    encrypted_content: str = ""


_FORMS: dict[str, type[Strict]] = {
    "message": OutputMessage,
    "function_call": FunctionCall,
    "function_call_output": FunctionOutput,
    "reasoning": ReasoningItem,
}


class OpenAIResponses(ChatServer):
    """Responses with `store: false`. Of every reply that reasoned it remembers what must come back with it."""

    root: ClassVar[str] = "/v1"

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self._sealed: dict[str, str] = {}  # by id of a reasoning item: its encrypted content
        self._reasoned: dict[str, str] = {}  # by id of a call: its reasoning item

    def check(self, call: Call) -> None:
        if (call.method, call.path) != ("POST", f"{self.root}/responses"):
            self.refuse(404, f"Unknown request URL: {call.method} {call.path}.", "invalid_request_error")
        if call.headers.get("authorization") != f"Bearer {KEY}":
            self.refuse(401, "Incorrect API key provided.", "invalid_request_error", code="invalid_api_key")
        request = self.read(call.body, ResponsesRequest)
        if request.store:
            self.refuse_value("store", "the tests store nothing")
        if request.include and not REASONING_MODEL.fullmatch(request.model):
            self.refuse(400, "Encrypted content is not supported with this model.", param="include")
        self._check_schemas(request)
        self._check_items([self._item(n, item) for n, item in enumerate(request.input)])

    def _check_schemas(self, request: ResponsesRequest) -> None:
        for tool in request.tools:
            if not TOOL_NAME.fullmatch(tool.name):
                self.refuse_value("tools[0].name", "string does not match pattern '^[a-zA-Z0-9_-]+$'")
            if tool.strict and (faults := refusals_of_openai(tool.parameters)):
                self.refuse(
                    400, f"Invalid schema for function '{tool.name}': {faults[0]}.", param="tools[0].parameters"
                )
        form = request.text.format if request.text is not None else None
        faults = refusals_of_openai(form.schema) if form is not None and form.strict else []
        if form is not None and faults:
            words = f"Invalid schema for response_format '{form.name}': {faults[0]}."
            self.refuse(400, words, param="text.format.schema")

    def _item(self, n: int, item: Item) -> Strict:
        form = _FORMS.get(item["type"]) if "type" in item else EasyMessage
        if form is None:
            self.refuse_value(f"input[{n}].type", f"unknown value {item['type']!r}")
        return self.read(item, form)

    def _check_items(self, items: list[Strict]) -> None:
        calls = [item for item in items if isinstance(item, FunctionCall)]
        answered = [item.call_id for item in items if isinstance(item, FunctionOutput)]
        for item in items:
            if isinstance(item, FunctionOutput) and item.call_id not in {call.call_id for call in calls}:
                self.refuse_item(f"No tool call found for function call output with call_id {item.call_id}.")
            if isinstance(item, FunctionCall):
                self._check_call(item, items, answered)
        for item, following in zip(items, [*items[1:], None], strict=True):
            if isinstance(item, ReasoningItem):
                self._check_reasoning(item, following)

    def _check_call(self, call: FunctionCall, items: list[Strict], answered: list[str]) -> None:
        if len(call.call_id) > CALL_ID_CHARS_MAX:
            self.refuse_value("input.call_id", "string too long", "string_above_max_length")
        if call.call_id not in answered:
            self.refuse_item(f"No tool output found for function call {call.call_id}.")
        if not isinstance(json.loads(call.arguments), dict):
            self.refuse_value("input.arguments", "it must be a JSON object")
        wanted = self._reasoned.get(call.call_id)
        before = items[: items.index(call)]
        if wanted and not any(isinstance(item, ReasoningItem) and item.id == wanted for item in before):
            self.refuse_item(
                f"Item '{call.id or call.call_id}' of type 'function_call' was provided without its required "
                f"'reasoning' item: '{wanted}'."
            )

    def _check_reasoning(self, item: ReasoningItem, following: Strict | None) -> None:
        if not item.encrypted_content:
            words = f"Item with id '{item.id}' not found. Items are not persisted when `store` is set to false."
            self.refuse(404, words, param="input")
        if self._sealed.get(item.id) != item.encrypted_content:
            words = f"The encrypted content for item {item.id} could not be verified."
            self.refuse(400, words, code="invalid_encrypted_content")
        if following is None or not isinstance(following, FunctionCall | OutputMessage | ReasoningItem | EasyMessage):
            self.refuse_item(f"Item '{item.id}' of type 'reasoning' was provided without its required following item.")
        if isinstance(following, EasyMessage) and following.role != "assistant":
            self.refuse_item(f"Item '{item.id}' of type 'reasoning' was provided without its required following item.")

    def refuse_item(self, words: str) -> NoReturn:
        self.refuse(400, words, "invalid_request_error", param="input")

    def write(self, call: Call, say: Say) -> tuple[str, bytes]:
        items = list(self._output(call, say))
        events: list[Item] = [{"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}]
        for n, item in enumerate(items):
            events += [{"output_index": n, **event} for event in _events_of(item)]
        events.append(self._end(say, items))
        numbered = [{"sequence_number": n, **event} for n, event in enumerate(events)]
        return "text/event-stream", event_lines(*numbered, named=True)

    def _output(self, call: Call, say: Say) -> list[Item]:
        number, items = len(self.calls), []
        if REASONING_MODEL.fullmatch(call.body["model"]) and say.reasoning:
            items.append(self._reasoning_item(f"rs_{number}", say, call.body))
        if say.text:
            part = {"type": "output_text", "text": say.text, "annotations": []}
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
            items.append({**message, "content": [part], **say.extra})
        for n, use in enumerate(say.uses):
            items.append(_call_item(f"fc_{number}_{n}", use.id or self.call_id(n), use))
            if items[0]["type"] == "reasoning":
                self._reasoned[items[-1]["call_id"]] = items[0]["id"]
        return items

    def _reasoning_item(self, id_: str, say: Say, body: dict[str, Any]) -> Item:
        """The item, with a summary only for those who ask for one."""
        is_summed = bool((body.get("reasoning") or {}).get("summary"))
        summary = [{"type": "summary_text", "text": say.reasoning}] if is_summed else []
        item: Item = {"type": "reasoning", "id": id_, "summary": summary}
        if body.get("include"):
            # It can be read here, so that tests see where it goes.
            self._sealed[id_] = f"{say.reasoning} {sha256(f'{id_} {say.reasoning}'.encode()).hexdigest()}"
            item["encrypted_content"] = self._sealed[id_]
        return item

    def _end(self, say: Say, items: list[Item]) -> Item:
        took = say.tokens
        usage = {
            "input_tokens": took.input,
            "input_tokens_details": {"cached_tokens": took.cache_read},
            "output_tokens": took.output,
            "output_tokens_details": {"reasoning_tokens": took.reasoning},
            "total_tokens": took.input + took.output,
        }
        response: Item = {"id": "resp_1", "status": "completed", "output": items, "usage": usage, "error": None}
        if say.stop == "failed":
            error = {"code": "server_error", "message": "The server had an error."}
            return {"type": "response.failed", "response": {**response, "status": "failed", "error": error}}
        if say.stop:
            cut = {**response, "status": "incomplete", "incomplete_details": {"reason": say.stop}}
            return {"type": "response.incomplete", "response": cut}
        return {"type": "response.completed", "response": response}


def _call_item(id_: str, call_id: str, use: Use) -> Item:
    return {
        "type": "function_call",
        "id": id_,
        "call_id": call_id,
        "name": use.name,
        "arguments": json.dumps(use.arguments),
        "status": "completed",
    }


def _events_of(item: Item) -> list[Item]:
    id_, begun = item["id"], {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}}
    if item["type"] == "reasoning":
        part = {"type": "response.reasoning_summary_part.added", "item_id": id_, "summary_index": 0}
        deltas = []
        for summary in item["summary"]:
            deltas += [part, *_deltas("response.reasoning_summary_text.delta", id_, summary["text"])]
    elif item["type"] == "message":
        deltas = _deltas("response.output_text.delta", id_, item["content"][0]["text"])
    else:
        deltas = _deltas("response.function_call_arguments.delta", id_, item["arguments"])
    return [begun, *deltas, {"type": "response.output_item.done", "item": item}]


def _deltas(kind: str, id_: str, text: str) -> list[Item]:
    return [{"type": kind, "item_id": id_, "delta": piece} for piece in pieces_of(text)]
