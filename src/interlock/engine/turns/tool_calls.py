"""Tool calls of a turn: a reply orders them, and the model is asked again when all of them have an output."""

from collections.abc import Mapping
from typing import Any

from interlock.engine.builtin_tools import builtin_tool, is_waiting_call, run_builtin_tool
from interlock.engine.effects import RunTool
from interlock.engine.events import (
    ModelReplied,
    ReasoningBlock,
    ToolCalled,
    ToolReturned,
)
from interlock.engine.kinds import TimerKind
from interlock.engine.prompt.phrases import EMITTED_TOO_EARLY, truncate
from interlock.engine.routing.emit_signal import is_emission
from interlock.engine.shared_memory import store_if_room
from interlock.engine.stages import (
    AskModel,
    Stage,
    SuspendTurn,
)
from interlock.engine.state import OpenTool, Turn, TurnMessage, turns_by
from interlock.engine.timers import drop_timer, start_timer
from interlock.engine.transition import Transition
from interlock.engine.turns.hook_questions import ask_for_hook
from interlock.engine.turns.unanswered import record_tool_end


def run_tools(t: Transition, turn: Turn, event: ModelReplied) -> Stage | None:
    reasoning = reasoning_to_return(event)
    turn.said.append(TurnMessage(role="assistant", text=event.text, tool_calls=event.tool_calls, reasoning=reasoning))
    turn.tools = [OpenTool(request=request, key=t.new_key()) for request in event.tool_calls]
    for tool in turn.tools:
        request = tool.request
        if is_emission(t.crew, request):
            tool.output = EMITTED_TOO_EARLY
            continue
        t.record(ToolCalled(agent=turn.agent, call=tool.key, name=request.name, arguments=request.arguments))
        if own := builtin_tool(t, turn, request.name):
            run_builtin_tool(t, turn, tool, own)
        else:
            t.index.tools[tool.key] = turn.agent
            t.emit(run_tool_effect(turn, tool))
    turn.rests = all(is_waiting_call(tool) for tool in turn.tools)
    start_timer(t, TimerKind.TOOLS.of(turn.number), int(t.settings.tool_result_timeout_seconds * 1000))
    return _move_after_tools(t, turn)


def reasoning_to_return(event: ModelReplied) -> tuple[ReasoningBlock, ...]:
    """The blocks that the provider of the model wants back with the outputs of the tools."""
    return tuple(block for block in event.reasoning if block.provider)


def run_tool_effect(turn: Turn, tool: OpenTool) -> RunTool:
    """The effect that runs a tool of a turn."""
    return RunTool(
        key=tool.key,
        agent=turn.agent,
        name=tool.request.name,
        arguments=tool.arguments,
        approved=tool.approved,
        hooked=tool.hooked,
        edited=bool(tool.edited),
        idempotency_key=tool.first_key,
    )


def on_tool_returned(t: Transition, event: ToolReturned) -> Stage | None:
    turn, tool = find_open_tool(t, event.call)
    store_memory_of_tool(t, turn, event.memory)
    output = event.output if event.ok else f"error: {event.output}"
    if tool.edited:
        output = f"(a person changed the arguments to {tool.edited})\n{output}"
    if event.verdict is not None and event.verdict.question:
        tool.held, tool.held_memory = output, event.held_memory
        ask_for_hook(t, event.verdict, turn.agent, turn=turn.number, tool=tool.key)
        return None
    return finish_tool(t, turn, tool, output)


def store_memory_of_tool(t: Transition, turn: Turn, written: Mapping[str, Any]) -> None:
    """Stores what a tool of the host wrote to the shared memory."""
    for key in sorted(written):  # the journal keeps no order of keys
        store_if_room(t, key, written[key], by=turn.agent)


def finish_tool(t: Transition, turn: Turn, tool: OpenTool, output: str) -> Stage | None:
    tool.output = output
    t.index.tools.pop(tool.key, None)
    return _move_after_tools(t, turn)


def _move_after_tools(t: Transition, turn: Turn) -> Stage | None:
    """Continues the turn when the last tool of its reply has an output."""
    if any(other.output is None for other in turn.tools):
        return None
    drop_timer(t, TimerKind.TOOLS.of(turn.number))
    left = t.settings.max_total_tool_output_chars
    for done in turn.tools:
        text = truncate(done.output or "", left)
        left = max(0, left - len(done.output or ""))
        turn.said.append(TurnMessage(role="tool", text=text, tool_call=done.request.id))
    turn.tools = []
    return SuspendTurn(turn) if turn.rests else AskModel(turn)


def on_tools_timeout(t: Transition, number: int) -> Stage | None:
    """Cancels tools without an output; the model gets an error instead."""
    turn = next(turn for turn in t.turns() if turn.number == number)
    seconds = t.settings.tool_result_timeout_seconds
    stage = None
    for tool in turn.tools:
        if tool.output is None:
            t.cancel(tool.key)
            output = f"the tools of this reply took longer than {seconds:g} s"
            record_tool_end(t, tool, output)
            stage = finish_tool(t, turn, tool, f"error: {output}")
    return stage


def find_open_tool(t: Transition, key: str) -> tuple[Turn, OpenTool]:
    """The open tool of this key, with its turn."""
    turns = turns_by(t.state, t.index.tools[key])
    return next((turn, tool) for turn in turns for tool in turn.tools if tool.key == key)


def is_tool_open(t: Transition, key: str) -> bool:
    """Whether a tool was started and has no output yet."""
    return key in t.index.tools


def rerun_tool(t: Transition, turn: Turn, tool: OpenTool) -> None:
    """Runs a tool again under a new key, so that an answer for the old key is stale; the tool gets its first key.

    Before rules 3 the tool got the new key.
    """
    del t.index.tools[tool.key]
    if t.state.rules >= 3:
        tool.first_key = tool.first_key or tool.key
    tool.key = t.new_key()
    t.index.tools[tool.key] = turn.agent
    order = run_tool_effect(turn, tool)
    t.record(ToolCalled(agent=turn.agent, call=tool.key, name=order.name, arguments=order.arguments))
    t.emit(order)
