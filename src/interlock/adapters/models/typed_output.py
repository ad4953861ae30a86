"""How a client asks for a typed value: by a schema, as any JSON object, by a tool call, or in the prompt alone.

Rule 1: the ways are tried in this order, as far as the provider takes them and the schema can be said in them.
Rule 2: in each way the answer is the envelope of `TypedReply`, and becomes the reply that a prompt alone leads to.
Rule 3: a call of the output tool ends the turn. Beside calls of other tools it is dropped: those come first.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from interlock.adapters.models.wire_schemas import SchemaDialect, WireForm, wire_form, without_added_nulls
from interlock.engine.events import ReasoningBlock
from interlock.engine.prompt.typed_reply import TypedReply
from interlock.ports import ModelReply, ModelRequest, ToolSchema
from interlock.signals.reasoning_tags import TAG_BEGIN, split_reasoning

SCHEMA, JSON_OBJECT, TOOL, PROMPT = "schema", "json_object", "tool", "prompt"

# The values of `outputs` in [providers.<id>].
OUTPUT_WAYS = (SCHEMA, JSON_OBJECT, TOOL, PROMPT)

OUTPUT_TOOL = "give_output"
_DESCRIPTION = "Give your output. Call it once, when you are done, and no other tool with it."


class OutputPlan(msgspec.Struct, frozen=True):
    """How one call is asked for its value. `request` has the note about the envelope, and the tool if there is one."""

    way: str
    typed: TypedReply
    request: ModelRequest
    envelope: dict[str, Any]
    tool: str = ""

    @property
    def is_json(self) -> bool:
        """True if the text is the envelope, so that its pieces are not text of the reply."""
        return self.way in (SCHEMA, JSON_OBJECT)

    def reply_of(self, reply: ModelReply) -> ModelReply:
        """The reply, with the value in place of the envelope."""
        calls = tuple(call for call in reply.tool_calls if call.name != self.tool)
        if self.tool and not calls and reply.tool_calls:
            return msgspec.structs.replace(reply, text=self._text_of(reply.tool_calls[0].arguments), tool_calls=())
        if calls or not self.is_json:
            return msgspec.structs.replace(reply, tool_calls=calls) if calls != reply.tool_calls else reply
        reply = without_thoughts(reply)
        return msgspec.structs.replace(reply, text=self._text_of(reply.text), constrained=True)

    def _text_of(self, answer: str) -> str:
        return self.typed.reply_of(answer, partial(without_added_nulls, self.typed.schema))


def without_thoughts(reply: ModelReply) -> ModelReply:
    """The reply without what the model thought between tags before it wrote the JSON."""
    if TAG_BEGIN not in reply.text or reply.text.lstrip().startswith("{"):
        return reply
    text, thoughts, _ = split_reasoning(reply.text)
    blocks = (*reply.reasoning, ReasoningBlock(text=thoughts)) if thoughts else reply.reasoning
    return msgspec.structs.replace(reply, text=text, reasoning=blocks)


def plan_output(
    request: ModelRequest, way: str, dialect: SchemaDialect, *, with_tools: bool = True
) -> OutputPlan | None:
    """The plan for a request; None if no value is asked for, or the prompt alone asks for it."""
    typed = request.typed
    if typed is None or way in ("", PROMPT):
        return None
    form = wire_form(typed.schema, dialect) if way == SCHEMA else None
    if way == SCHEMA and (form is None or (request.tools and not with_tools)):
        way = TOOL
    if way == TOOL:
        return _plan_tool(request, typed)
    envelope = _envelope(typed, form)
    note = typed.note if form is not None else f"{typed.note}\n{msgspec.json.encode(envelope).decode()}"
    return OutputPlan(way, typed, _with_note(request, note), envelope)


def _plan_tool(request: ModelRequest, typed: TypedReply) -> OutputPlan:
    names = {schema.name for schema in request.tools}
    name = next(name for name in (OUTPUT_TOOL, *(f"{OUTPUT_TOOL}_{n}" for n in range(2, 1_000))) if name not in names)
    envelope = _envelope(typed, None)
    tool = ToolSchema(name=name, description=_DESCRIPTION, parameters=envelope)
    asked = msgspec.structs.replace(request, tools=(*request.tools, tool))
    return OutputPlan(TOOL, typed, asked, envelope, name)


def _envelope(typed: TypedReply, form: WireForm | None) -> dict[str, Any]:
    """The schema of the envelope; definitions stand at its top, where references look for them."""
    if form is not None:
        found = typed.envelope(form.schema)
        return {**found, "$defs": form.definitions} if form.definitions else found
    schema = {name: value for name, value in typed.schema.items() if name not in ("$defs", "definitions", "$schema")}
    definitions = {name: value for name, value in typed.schema.items() if name in ("$defs", "definitions")}
    return {**typed.envelope(_without_root_references(schema)), **definitions}


def _without_root_references(schema: Any) -> Any:
    """The schema with references to its own top led to where it is in the envelope."""
    if isinstance(schema, Mapping):
        moved = {name: _without_root_references(value) for name, value in schema.items()}
        return {**moved, "$ref": "#/properties/value"} if moved.get("$ref") == "#" else moved
    return [_without_root_references(each) for each in schema] if isinstance(schema, list) else schema


def _with_note(request: ModelRequest, note: str) -> ModelRequest:
    return msgspec.structs.replace(request, system=f"{request.system}\n\n{note}".strip())
