"""A model with random replies: legal signals, none, several, wrong ones, tool calls, and reasoning.

Rule 1: a reply depends on the seed, the call and its number of tries; not on the order of calls.
"""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import ReasoningBlock, ToolRequest, Usage
from interlock.ids import without_number
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta, ToolSchema
from interlock.testing.simulation.random_messages import mail_calls
from interlock.testing.simulation.seeds import chance_of

WORDS = ("so", "well", "then", "yes", "no", "two and two", "một hai", "as you said", "the report", "42")
STRANGE_MARKS = ("[NOPE]", "[]", "[end", "`[END]`", "> [END]", "[STOP]", "[x](y)", "\\[END]")


# In all reasoning, and in nothing else.
THOUGHT = "§thought§"


class RandomModel:
    """Replies at random for the agents of any crew."""

    def __init__(self, crew: CrewDefinition, seed: int | str) -> None:
        self._crew, self._seed = crew, seed
        self._times: dict[str, int] = {}

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        times = self._times[request.key] = self._times.get(request.key, 0) + 1
        chance = chance_of(self._seed, f"{request.key}:{times}")
        crew = self._crew_at(request.path)
        text = (
            self._advisory_reply(crew, request, chance)
            if request.purpose
            else self._turn_reply(crew, request.agent, chance)
        )
        text, reasoning = self._with_reasoning(crew, request, text, times)
        for block in reasoning:
            yield ReasoningDelta(block.text)
        yield Delta(text)
        yield ModelReply(
            text=text,
            usage=_usage(chance),
            tool_calls=mail_calls(request, chance) or _calls(request, chance),
            reasoning=reasoning,
        )

    def _with_reasoning(
        self, crew: CrewDefinition, request: ModelRequest, text: str, times: int
    ) -> tuple[str, tuple[ReasoningBlock, ...]]:
        """The reply with a block of reasoning that holds a mark: between tags, closed or not, or as a provider's."""
        chance = chance_of(self._seed, f"{request.key}:{times}:reasoning")
        luck = chance.random()
        if luck > 0.4:
            return text, ()
        thought = f"{owner_of_thought(request)} {' '.join(self._marks(crew, request.agent, chance))}"
        if luck < 0.1:
            return f"<think>\n{thought}\n</think>\n{text}", ()
        if luck < 0.2:
            return f"{text}\n<reasoning>{thought}", ()
        return text, (ReasoningBlock(provider="random", text=thought, data="signed" * (luck < 0.3)),)

    def _advisory_reply(self, crew: CrewDefinition, request: ModelRequest, chance: Random) -> str:
        """Mostly JSON, as an advisory call requires."""
        if chance.random() < 0.2:
            return chance.choice(["", "everybody", '["nobody"]', "{", '{"completed": 1}', "[1]"])
        if request.purpose == "check":
            return msgspec.json.encode({"completed": chance.random() < 0.6, "reason": "so it seems [END]"}).decode()
        tree = crew.delegation
        children = tree.children.get(request.agent, ()) if tree is not None else ()
        return msgspec.json.encode([child for child in children if chance.random() < 0.7]).decode()

    def _crew_at(self, path: tuple[str, ...]) -> CrewDefinition:
        crew = self._crew
        for name in path:
            inner = crew.sub_crews[without_number(name)].crew
            assert inner is not None, "a sound crew has its sub-crews"
            crew = inner
        return crew

    def _turn_reply(self, crew: CrewDefinition, agent: str, chance: Random) -> str:
        words = " ".join(chance.choices(WORDS, k=chance.randint(0, 4)))
        return f"{words}\n{' '.join(self._marks(crew, agent, chance))}"

    def _marks(self, crew: CrewDefinition, agent: str, chance: Random) -> list[str]:
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


def owner_of_thought(request: ModelRequest) -> str:
    """How the reasoning of an agent begins; a law looks for it in all requests."""
    return f"{THOUGHT} of {'/'.join((*request.path, request.agent))}:"


def _usage(chance: Random) -> Usage:
    shown, said = chance.randint(1, 500), chance.randint(1, 200)
    # Parts of these two, without another draw: a seed gives the same run as before.
    return Usage(
        input_tokens=shown,
        cache_read_tokens=shown // 2,
        cache_write_tokens=shown // 4,
        output_tokens=said,
        reasoning_tokens=said // 3,
    )


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
