"""A model that says anything an agent could say: legal marks, none, several, wrong ones, calls of tools.

Rule 1: what it says follows from the seed, the call and how often the call was made; not from the order of calls.
"""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.events import ToolRequest, Usage
from interlock.ids import unnumbered
from interlock.ports import Delta, ModelReply, ModelRequest, ToolSchema
from interlock.testing.random_mail import mail_calls
from interlock.testing.seeds import chance_of

WORDS = ("so", "well", "then", "yes", "no", "two and two", "một hai", "as you said", "the report", "42")
STRANGE_MARKS = ("[NOPE]", "[]", "[end", "`[END]`", "> [END]", "[STOP]", "[x](y)", "\\[END]")


class RandomModel:
    """Shakes any crew without a script."""

    def __init__(self, crew: Crew, seed: int | str) -> None:
        self._crew, self._seed = crew, seed
        self._times: dict[str, int] = {}

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        times = self._times[request.key] = self._times.get(request.key, 0) + 1
        chance = chance_of(self._seed, f"{request.key}:{times}")
        crew = self._crew_at(request.path)
        text = self._judged(crew, request, chance) if request.purpose else self._said(crew, request.agent, chance)
        yield Delta(text)
        yield ModelReply(
            text=text, usage=_usage(chance), tool_calls=mail_calls(request, chance) or _calls(request, chance)
        )

    def _judged(self, crew: Crew, request: ModelRequest, chance: Random) -> str:
        """JSON mostly, as an errand asks for it."""
        if chance.random() < 0.2:
            return chance.choice(["", "everybody", '["nobody"]', "{", '{"completed": 1}', "[1]"])
        if request.purpose == "check":
            return msgspec.json.encode({"completed": chance.random() < 0.6, "reason": "so it seems [END]"}).decode()
        tree = crew.delegation
        children = tree.children.get(request.agent, ()) if tree is not None else ()
        return msgspec.json.encode([child for child in children if chance.random() < 0.7]).decode()

    def _crew_at(self, path: tuple[str, ...]) -> Crew:
        crew = self._crew
        for name in path:
            inner = crew.sub_crews[unnumbered(name)].crew
            assert inner is not None, "a sound crew has its sub-crews"
            crew = inner
        return crew

    def _said(self, crew: Crew, agent: str, chance: Random) -> str:
        words = " ".join(chance.choices(WORDS, k=chance.randint(0, 4)))
        return f"{words}\n{' '.join(self._marks(crew, agent, chance))}"

    def _marks(self, crew: Crew, agent: str, chance: Random) -> list[str]:
        own = [route.signal for route in crew.routes.get(agent, ())]
        luck = chance.random()
        if luck < 0.1 or not own:
            return []
        if luck < 0.2:
            return chance.choices(own, k=2)
        if luck < 0.3:
            others = [route.signal for routes in crew.routes.values() for route in routes]
            return chance.choices([*STRANGE_MARKS, *others], k=2)
        mark = chance.choice(own)
        return [chance.choice([mark, mark, mark.lower(), mark.replace("_", " ")])]


def _usage(chance: Random) -> Usage:
    return Usage(input_tokens=chance.randint(1, 500), output_tokens=chance.randint(1, 200))


def _calls(request: ModelRequest, chance: Random) -> tuple[ToolRequest, ...]:
    if chance.random() > (0.4 if request.tools else 0.02):
        return ()
    return tuple(_call(request, chance, n) for n in range(chance.randint(1, 3)))


def _call(request: ModelRequest, chance: Random, number: int) -> ToolRequest:
    id_ = f"{request.key}/{number}"
    if not request.tools or chance.random() < 0.05:
        return ToolRequest(id=id_, name="no_such_tool", arguments=chance.choice(["{}", "{", "[]"]))
    schema = chance.choice(request.tools)
    return ToolRequest(id=id_, name=schema.name, arguments=_arguments(schema, chance))


def _arguments(schema: ToolSchema, chance: Random) -> str:
    if chance.random() < 0.05:
        return chance.choice(["", "{", '{"unknown": 1}'])
    properties: dict[str, Any] = schema.parameters.get("properties", {})
    return msgspec.json.encode({name: _value(body, chance) for name, body in properties.items()}).decode()


def _value(body: dict[str, Any], chance: Random) -> object:
    values: dict[str, object] = {
        "integer": chance.randint(-3, 100),
        "number": chance.randint(0, 100) / 4,
        "boolean": chance.random() < 0.5,
        "array": [],
        "object": {},
        "null": None,
    }
    if "enum" in body:
        return chance.choice(body["enum"])
    return values.get(str(body.get("type")), chance.choice(["", "one", "[END]", "tiếng Việt"]))
