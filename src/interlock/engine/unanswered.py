"""Endings of what was begun and never answered: each `model.called` and `tool.called` has an event that ends it.

Rule 1: under rules before 3 such calls end in silence; journals of that time replay so.
"""

from interlock.engine.events import ModelCancelled, ToolReturned
from interlock.engine.state import OpenTool, Turn
from interlock.engine.transition import Transition

GIVEN_UP = "given up before it gave a result"


def end_tool(t: Transition, tool: OpenTool, output: str, *, ok: bool = False) -> None:
    """Records how a tool call ended that did not return by itself."""
    if t.state.rules >= 3:
        t.conclude(ToolReturned(call=tool.key, ok=ok, output=output))


def give_up_tools(t: Transition, turn: Turn) -> None:
    """Cancels the tools of a turn that have no output yet."""
    for tool in turn.tools:
        if tool.output is None:
            t.give_up(tool.key)
            end_tool(t, tool, GIVEN_UP)
            if t.state.rules >= 3:
                tool.output = GIVEN_UP  # a turn may be given up twice, and its tools end once


def give_up_call(t: Transition, turn: Turn) -> None:
    """Cancels the model call of a turn."""
    t.give_up(turn.call)
    if turn.call and t.state.rules >= 3:
        t.conclude(ModelCancelled(agent=turn.agent, call=turn.call))
        turn.call = ""
