"""Ends of calls without an answer: each `model.called` and `tool.called` has an event that ends it.

Rule 1: under rules before 3 such calls have no end event, and their journals replay so.
"""

from interlock.engine.events import ModelCancelled, ToolReturned
from interlock.engine.state import OpenTool, Turn
from interlock.engine.transition import Transition

GIVEN_UP = "given up before it gave a result"


def record_tool_end(t: Transition, tool: OpenTool, output: str, *, ok: bool = False) -> None:
    """Records the end of a tool call that did not return by itself."""
    if t.state.rules >= 3:
        t.record(ToolReturned(call=tool.key, ok=ok, output=output))


def cancel_tools(t: Transition, turn: Turn) -> None:
    """Cancels the tools of a turn that have no output yet."""
    for tool in turn.tools:
        if tool.output is None:
            t.cancel(tool.key)
            record_tool_end(t, tool, GIVEN_UP)
            if t.state.rules >= 3:
                tool.output = GIVEN_UP  # a turn may be cancelled twice, but its tools end once


def cancel_model_call(t: Transition, turn: Turn) -> None:
    """Cancels the model call of a turn."""
    t.cancel(turn.call)
    if turn.call and t.state.rules >= 3:
        t.record(ModelCancelled(agent=turn.agent, call=turn.call))
        turn.call = ""
