"""Built-in tools: Interlock carries them out within the transition of the reply.

Rule 1: they do no I/O, so there is nothing to wait for, to lose in a crash, or to repeat in a replay.
Rule 2: an agent has such a tool if its file names it, or by its place in the delegation tree. A bad call is answered
with an error to the model.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.engine.delegation.host_messages import (
    ANSWER_MESSAGE,
    SEND_MESSAGE,
    AnswerMessageArguments,
    SendMessageArguments,
    answer_message,
    describe_message_types,
    send_message,
)
from interlock.engine.delegation.tools import (
    ANSWER_CHILD,
    DELEGATE,
    QUERY_PARENT,
    REPORT,
    AnswerChildArguments,
    DelegateArguments,
    QueryParentArguments,
    ReportArguments,
    answer_child,
    delegate,
    describe_children,
    query_parent,
    report,
)
from interlock.engine.events import ToolReturned
from interlock.engine.kinds import ADVISORY_KINDS, ASK_USER, TurnKind
from interlock.engine.prompt.phrases import truncate
from interlock.engine.publish import GenerateSignalArguments, generate_signal
from interlock.engine.shared_memory import MemoryReadArguments, MemoryWriteArguments, memory_read, memory_write
from interlock.engine.state import OpenTool, RunState, Turn
from interlock.engine.transition import ToolRefusal, Transition
from interlock.engine.turns.questions import AskUserArguments, ask_user
from interlock.messages.reading import read_json


class BuiltinTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: its description for the model, the type of its arguments, and its function."""

    name: str
    description: str
    takes: type[msgspec.Struct]
    carry_out: Callable[[Transition, Turn, Any], str]

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments as JSON schema."""
        return schema_of(self.takes)


@cache
def schema_of(takes: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    _, definitions = msgspec.json.schema_components([takes])
    schema = definitions[takes.__name__]
    shape = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
    return {**shape, "additionalProperties": False}


BUILTIN_TOOLS = {
    tool.name: tool
    for tool in (
        BuiltinTool(
            name="generate_signal",
            description="Publishes a broadcast to all subscribers, without an answer. Use it if several agents may "
            "react; use a message if you need an answer from one of them.",
            takes=GenerateSignalArguments,
            carry_out=generate_signal,
        ),
        BuiltinTool(
            name="memory_read",
            description="Reads what the crews of this task keep in their shared memory; without a key it lists the "
            "keys.",
            takes=MemoryReadArguments,
            carry_out=memory_read,
        ),
        BuiltinTool(
            name="memory_write",
            description="Keeps a value in the memory that the crews of this task share, in place of an older one "
            "under the same key.",
            takes=MemoryWriteArguments,
            carry_out=memory_write,
        ),
        BuiltinTool(
            name=ASK_USER,
            description="Asks a person. You get the answer once it is there; call nothing else to wait for it.",
            takes=AskUserArguments,
            carry_out=ask_user,
        ),
        BuiltinTool(
            name=DELEGATE,
            description="Gives a task to one of those below. Several may work at the same time. You get their reports; "
            "call nothing else to wait for them.",
            takes=DelegateArguments,
            carry_out=delegate,
        ),
        BuiltinTool(
            name=ANSWER_CHILD,
            description="Answers a question of a child that works on your task.",
            takes=AnswerChildArguments,
            carry_out=answer_child,
        ),
        BuiltinTool(
            name=REPORT,
            description="Reports what came of your task, and ends it. Call it alone.",
            takes=ReportArguments,
            carry_out=report,
        ),
        BuiltinTool(
            name=QUERY_PARENT,
            description="Asks the agent that gave you the task. You get the answer once it is there.",
            takes=QueryParentArguments,
            carry_out=query_parent,
        ),
        BuiltinTool(
            name=SEND_MESSAGE,
            description="Sends a message of one of the types below to another agent.",
            takes=SendMessageArguments,
            carry_out=send_message,
        ),
        BuiltinTool(
            name=ANSWER_MESSAGE,
            description="Answers a message that needs an answer.",
            takes=AnswerMessageArguments,
            carry_out=answer_message,
        ),
    )
}


# These depend on the place in the delegation tree or on open messages, not on the agent's file.
DELEGATION_TOOLS = (DELEGATE, ANSWER_CHILD, REPORT, QUERY_PARENT, ANSWER_MESSAGE)

# After a reply that calls only these, the turn has to wait.
WAITING_TOOLS = (*DELEGATION_TOOLS, ASK_USER, SEND_MESSAGE)


def builtin_names_for(agent: AgentDefinition, turn: Turn) -> tuple[str, ...]:
    """The names of the built-in tools of this turn."""
    if turn.kind in ADVISORY_KINDS:
        return ()
    named = tuple(name for name in agent.tools if name in BUILTIN_TOOLS and name not in DELEGATION_TOOLS)
    as_parent = (DELEGATE, ANSWER_CHILD) if turn.children else ()
    as_child = (REPORT, QUERY_PARENT) if turn.kind is TurnKind.TASK else ()
    as_asked = (ANSWER_MESSAGE,) if turn.owes else ()
    return (*named, *as_parent, *as_child, *as_asked)


def builtin_tool(t: Transition, turn: Turn, name: str) -> BuiltinTool | None:
    """The built-in tool of this name, if the agent has it in this turn."""
    return BUILTIN_TOOLS[name] if name in builtin_names_for(t.budgets[turn.agent].agent, turn) else None


def builtin_schemas_for(
    crew: CrewDefinition, agent: AgentDefinition, turn: Turn, state: RunState
) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and parameters of each built-in tool, as the turn's model sees them."""
    return [_schema_for(crew, turn, state, BUILTIN_TOOLS[name]) for name in builtin_names_for(agent, turn)]


def _schema_for(
    crew: CrewDefinition, turn: Turn, state: RunState, tool: BuiltinTool
) -> tuple[str, str, dict[str, Any]]:
    if tool.name == SEND_MESSAGE:
        return tool.name, f"{tool.description}\n{describe_message_types(state, turn.agent)}", tool.parameters
    if tool.name != DELEGATE:
        return tool.name, tool.description, tool.parameters
    children, to = describe_children(crew, turn)
    parameters = {**tool.parameters, "properties": {**tool.parameters["properties"], "to": to}}
    return tool.name, f"{tool.description}\n{children}", parameters


def is_waiting_call(call: OpenTool) -> bool:
    """Whether the call succeeded and waits for a message."""
    is_taken = call.output is not None and not call.output.startswith("error: ")
    return is_taken and call.request.name in WAITING_TOOLS


def run_builtin_tool(t: Transition, turn: Turn, call: OpenTool, tool: BuiltinTool) -> None:
    """Runs the tool and sets its output."""
    try:
        given = read_json(call.request.arguments or "{}", tool.takes)
        output, ok = tool.carry_out(t, turn, given), True
    except ToolRefusal as refusal:
        output, ok = str(refusal), False
    except (msgspec.DecodeError, UnicodeError) as error:
        output, ok = f"{tool.name} cannot take that: {error}", False
    output = truncate(output, t.settings.max_tool_output_chars)
    t.record(ToolReturned(call=call.key, ok=ok, output=output))
    call.output = output if ok else f"error: {output}"
