"""Random messages between agents: mostly valid, so that conversations make progress before they fail."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from interlock.engine.events import ToolRequest
from interlock.ports import ModelRequest, ToolSchema

WORDS = ("", "one", "[END]", "so it is", "tiếng Việt", "yes")


def _task(schema: ToolSchema, chance: Random) -> dict[str, Any]:
    to = schema.parameters["properties"]["to"].get("enum") or ["nobody"]
    context = {"n": chance.randint(0, 9)} if chance.random() < 0.3 else {}
    return {
        "to": chance.choice([*to, *to, "stranger"]),
        "task": chance.choice(["look", "think [STOP]"]),
        "context": context,
    }


def _report(_: ToolSchema, chance: Random) -> dict[str, Any]:
    return {
        "result": chance.choice(WORDS),
        "status": chance.choice(["completed", "completed", "partial", "needs_help"]),
    }


def _query(_: ToolSchema, chance: Random) -> dict[str, Any]:
    return {"question": chance.choice(["how?", "why?", " "])}


def _answer(_: ToolSchema, chance: Random) -> dict[str, Any]:
    return {"answer": chance.choice(WORDS), **({"message_id": "1.1"} if chance.random() < 0.1 else {})}


def _question(_: ToolSchema, chance: Random) -> dict[str, Any]:
    rules: dict[str, Any] = chance.choice(
        [
            {},
            {},
            {"choices": ["yes", "no"]},
            {"pattern": "[a-z]+"},
            {"answer_schema": {"type": "integer"}},
            {"pattern": "("},
        ]
    )
    deadline = {"deadline_seconds": chance.choice([1, 60])} if chance.random() < 0.4 else {}
    default = {"default": "yes"} if deadline and chance.random() < 0.5 else {}
    return {"question": "What now?", **rules, **deadline, **default}


_ARGUMENTS: dict[str, Callable[[ToolSchema, Random], dict[str, Any]]] = {
    "delegate": _task,
    "report": _report,
    "query_parent": _query,
    "answer_child": _answer,
    "ask_user": _question,
}
_EAGERNESS = {"delegate": 4, "answer_child": 1, "report": 2, "query_parent": 1, "ask_user": 1}


def mail_calls(request: ModelRequest, chance: Random) -> tuple[ToolRequest, ...]:
    """The messages of an agent in one reply; often none."""
    tools = [schema for schema in request.tools if schema.name in _ARGUMENTS]
    if not tools or chance.random() < 0.35:
        return ()
    asked = any("answer_child" in message.text for message in request.messages[-1:])
    eagerness = [8 if asked and tool.name == "answer_child" else _EAGERNESS[tool.name] for tool in tools]
    first = chance.choices(tools, eagerness)[0]
    many = chance.randint(1, 3) if first.name == "delegate" else 1
    return tuple(_call(request, first, chance, number) for number in range(many))


def _call(request: ModelRequest, schema: ToolSchema, chance: Random, number: int) -> ToolRequest:
    arguments = msgspec.json.encode(_ARGUMENTS[schema.name](schema, chance)).decode()
    return ToolRequest(id=f"{request.key}/{number}", name=schema.name, arguments=arguments)
