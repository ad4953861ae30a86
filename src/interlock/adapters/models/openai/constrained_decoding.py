"""Request fields that constrain a reply to end in one of its signals.

Rule 1: the form depends on the server: a grammar or a JSON schema. A server that supports neither gets no fields.
Rule 2: with tools a reply is constrained only if the server supports both: the schema applies unless the reply calls
tools. With a grammar most servers cannot call tools; `check` reports that before a run.
"""

from collections.abc import Mapping
from typing import Any

from interlock.adapters.models.typed_output import JSON_OBJECT, OutputPlan
from interlock.adapters.models.typed_output import SCHEMA as BY_SCHEMA
from interlock.adapters.models.wire_schemas import with_brief_bounds
from interlock.engine.prompt.grammar import ReplyEnding
from interlock.ports import ModelRequest

GRAMMAR, GUIDED_GRAMMAR, SCHEMA = "grammar", "guided_grammar", "schema"

# The values of `constrains` in [providers.<id>]; empty means that the server cannot.
WAYS = ("", GRAMMAR, GUIDED_GRAMMAR, SCHEMA)


def ending_for(request: ModelRequest, way: str, *, with_tools: bool = False) -> ReplyEnding | None:
    """The ending that the reply is constrained to."""
    return request.ending if way and (with_tools or not request.tools) else None


def advice_for(ending: ReplyEnding | None, *, has_tools: bool) -> str:
    """Advice if a server refuses a constrained call."""
    if ending is None:
        return ""
    if has_tools:
        return (
            "; this call has tools and a reply constrained to its signals: if the server cannot do both, remove "
            "constrains_with_tools under its [providers.<id>] in interlock.toml, or write 'signal_mode: text'"
        )
    return (
        "; this call constrains the reply to its signals: if the server cannot, correct constrains under its "
        "[providers.<id>] in interlock.toml, or write 'signal_mode: text'"
    )


def fields_for(ending: ReplyEnding, way: str, sentences: int) -> Mapping[str, Any]:
    """The fields of the body; `sentences` also limits the length, for small models."""
    if way == SCHEMA:
        schema = {"name": "reply", "strict": True, "schema": ending.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {way: ending.brief(sentences) if sentences else ending.grammar}


def output_fields(plan: OutputPlan, *, brief: bool) -> Mapping[str, Any]:
    """The fields that hold a reply to its value; `brief` bounds texts and lists, for models that do not stop."""
    if plan.way == BY_SCHEMA:
        envelope = with_brief_bounds(plan.envelope) if brief else plan.envelope
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": envelope},
            }
        }
    return {"response_format": {"type": "json_object"}} if plan.way == JSON_OBJECT else {}
