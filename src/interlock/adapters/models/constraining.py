"""How servers are told that a reply must end in one of its marks.

Rule 1: a server is asked for what it can do: a grammar, or a JSON schema. One that can do neither is not asked.
Rule 2: with tools a reply is constrained only where the server can do both: it holds a reply to the schema unless the
reply calls tools. Under a grammar most servers cannot call any; `check` says so before a run.
"""

from collections.abc import Mapping
from typing import Any

from interlock.engine.grammar import Ending
from interlock.ports import ModelRequest

GRAMMAR, GUIDED_GRAMMAR, SCHEMA = "grammar", "guided_grammar", "schema"

# What [providers.<id>] may say under `constrains`; nothing means that the server cannot.
WAYS = ("", GRAMMAR, GUIDED_GRAMMAR, SCHEMA)


def ending_for(request: ModelRequest, way: str, *, with_tools: bool = False) -> Ending | None:
    """The ending that the server will be held to."""
    return request.ending if way and (with_tools or not request.tools) else None


def advice_for(ending: Ending | None, *, has_tools: bool) -> str:
    """What to do if a server refuses a call because of what it was asked to constrain."""
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


def fields_for(ending: Ending, way: str, sentences: int) -> Mapping[str, Any]:
    """The fields of the body that say so; with `sentences` a small model is kept short as well."""
    if way == SCHEMA:
        schema = {"name": "reply", "strict": True, "schema": ending.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {way: ending.brief(sentences) if sentences else ending.grammar}
