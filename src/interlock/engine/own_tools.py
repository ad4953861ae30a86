"""Tools that Interlock itself carries out, within the transition that ordered them.

Rule 1: nobody outside is asked, so there is nothing to wait for, to lose in a crash or to decide again on a replay.
Rule 2: an agent has such a tool if its file names it; what is wrong with a call is told to the model.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from interlock.engine.announcing import GenerateSignal, generate_signal
from interlock.engine.events import ToolReturned
from interlock.engine.phrases import cut
from interlock.engine.remembering import MemoryRead, MemoryWrite, memory_read, memory_write
from interlock.engine.state import OpenTool, Turn
from interlock.engine.transition import Refusal, Transition


class OwnTool(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is told of the tool, the shape of what it takes, and who carries it out."""

    name: str
    description: str
    takes: type[msgspec.Struct]
    carry_out: Callable[[Transition, Turn, Any], str]

    @property
    def parameters(self) -> dict[str, Any]:
        """What the tool takes, as JSON schema."""
        return schema_of(self.takes)


@cache
def schema_of(takes: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON schema of what a tool takes."""
    _, definitions = msgspec.json.schema_components([takes])
    schema = definitions[takes.__name__]
    shape = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
    return {**shape, "additionalProperties": False}


OWN_TOOLS = {
    tool.name: tool
    for tool in (
        OwnTool(
            name="generate_signal",
            description="Announces something to whoever listens: fire and forget, nobody answers. Use it when several "
            "may react, and a message when you need one of them to.",
            takes=GenerateSignal,
            carry_out=generate_signal,
        ),
        OwnTool(
            name="memory_read",
            description="Reads what the crews of this task keep in their shared memory; without a key it lists the "
            "keys.",
            takes=MemoryRead,
            carry_out=memory_read,
        ),
        OwnTool(
            name="memory_write",
            description="Keeps a value in the memory that the crews of this task share, in place of an older one "
            "under the same key.",
            takes=MemoryWrite,
            carry_out=memory_write,
        ),
    )
}


def own_tool(t: Transition, agent: str, name: str) -> OwnTool | None:
    """The tool of this name, if Interlock itself carries it out and the agent has it."""
    tool = OWN_TOOLS.get(name)
    return tool if tool is not None and name in t.budgets.of(agent).agent.tools else None


def carry_out(t: Transition, turn: Turn, call: OpenTool, tool: OwnTool) -> None:
    """The call has its output when this returns."""
    try:
        given = msgspec.json.decode(call.request.arguments or "{}", type=tool.takes)
        output, ok = tool.carry_out(t, turn, given), True
    except Refusal as refusal:
        output, ok = str(refusal), False
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        output, ok = f"{tool.name} cannot take that: {error}", False
    output = cut(output, t.settings.max_tool_output_chars)
    t.conclude(ToolReturned(call=call.key, ok=ok, output=output))
    call.output = output if ok else f"error: {output}"
