"""Crews that ask people in every way there is: for words, for a choice, for a form, and for an approval."""

import json
from pathlib import Path
from typing import Any

from tests.server.process import PATIENT

TOOLS = '''\
from typing import Annotated

from interlock import tool


@tool(needs_approval=True)
def pay(
    amount: Annotated[int, "In whole dollars."], to: str, note: str = "", urgent: bool = False, tags: list[str] = []
) -> str:
    """Pays somebody."""
    return f"paid {amount} to {to} ({note or 'no note'}{', urgent' if urgent else ''}) {' '.join(tags)}"
'''
TOML = PATIENT + '[tools]\nmodules = ["till"]\n'
ONE_AGENT = """\
version: "2.0"
name: {crew}
entry_point: {agent}
agents: [{{id: {agent}, tools: [pay, ask_user]}}]
routing: {{signals: {{{agent}: [{{signal: "[WAIT]"}}, {{signal: "[DONE]"}}]}}}}
"""
FORM = {
    "type": "object",
    "required": ["city", "nights", "window", "when", "guests"],
    "properties": {
        "city": {"type": "string", "title": "City", "minLength": 2, "maxLength": 30, "description": "Where to stay."},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "window": {"type": "boolean", "title": "Window seat"},
        "when": {"type": "string", "format": "date", "title": "First day"},
        "class": {"type": "string", "enum": ["economy", "business"]},
        "code": {"type": "string", "pattern": "[A-Z]{3}[0-9]", "title": "Code"},
        "guests": {
            "type": "array",
            "title": "Guest",
            "minItems": 1,
            "maxItems": 3,
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
    },
}
PROPOSED = {"amount": 24, "to": "Ada", "tags": ["fees"]}


def asking(question: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "ask_user", "arguments": {"question": question, **more}}]}


REPLIES: dict[str, list[Any]] = {
    "clerk": ["Which **colour**? [WAIT]", "So. [DONE]"],
    "chooser": [asking("Red or blue?", choices=["red", "blue"], context="The customer is waiting."), "So. [DONE]"],
    "planner": [
        asking("Your trip, please.", answer_schema=FORM, context="To book it.", deadline_seconds=3600),
        "So. [DONE]",
    ],
    "cashier": [
        {"tool_calls": [{"name": "pay", "arguments": PROPOSED}], "text": "I pay the fees."},
        "So. [DONE]",
    ],
}
CREWS = {"words": "clerk", "choices": "chooser", "forms": "planner", "approvals": "cashier"}


def write_crews(folder: Path) -> tuple[str, ...]:
    """The files beside `crew.yaml`, to be served as well; `words` is the crew of that file."""
    folder.mkdir(exist_ok=True)
    (folder / "till.py").write_text(TOOLS, "utf-8")
    others = [crew for crew in CREWS if crew != "words"]
    for crew in others:
        (folder / f"{crew}.yaml").write_text(crew_text(crew), "utf-8")
    return tuple(f"{crew}.yaml" for crew in others)


def crew_text(crew: str) -> str:
    return ONE_AGENT.format(crew=crew, agent=CREWS[crew])


def script() -> str:
    return json.dumps({"replies": REPLIES})
