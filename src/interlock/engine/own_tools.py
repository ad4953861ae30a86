"""Tools that Interlock itself carries out, within the transition that ordered them.

Rule 1: nobody outside is asked, so there is nothing to wait for, to lose in a crash or to decide again on a replay.
Rule 2: an agent has such a tool if its file names it, or by its place in the delegation tree; what is wrong with a
call is told to the model.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from interlock.crew.definition import Agent, Crew
from interlock.engine.announcing import GenerateSignal, generate_signal
from interlock.engine.events import ToolReturned
from interlock.engine.host_mail import (
    ANSWER_MESSAGE,
    SEND_MESSAGE,
    AnswerMessage,
    SendMessage,
    about_types,
    answer_message,
    send_message,
)
from interlock.engine.phrases import cut
from interlock.engine.questions import AskUser, ask_user
from interlock.engine.remembering import MemoryRead, MemoryWrite, memory_read, memory_write
from interlock.engine.standing import ASK_USER
from interlock.engine.state import OpenTool, RunState, Turn
from interlock.engine.talking import (
    ANSWER_CHILD,
    DELEGATE,
    QUERY_PARENT,
    REPORT,
    AnswerQuestion,
    AskParent,
    GiveReport,
    GiveTask,
    about_children,
    answer_child,
    delegate,
    query_parent,
    report,
)
from interlock.engine.transition import CHECK, SELECT, TASK, Refusal, Transition
from interlock.messages.reading import read_json


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
        OwnTool(
            name=ASK_USER,
            description="Asks a person. You get the answer once it is there; call nothing else to wait for it.",
            takes=AskUser,
            carry_out=ask_user,
        ),
        OwnTool(
            name=DELEGATE,
            description="Gives a task to one of those below. Several may work at the same time. You get their reports; "
            "call nothing else to wait for them.",
            takes=GiveTask,
            carry_out=delegate,
        ),
        OwnTool(
            name=ANSWER_CHILD,
            description="Answers a question of somebody who works on a task of yours.",
            takes=AnswerQuestion,
            carry_out=answer_child,
        ),
        OwnTool(
            name=REPORT,
            description="Reports what came of your task, and ends it. Call it alone.",
            takes=GiveReport,
            carry_out=report,
        ),
        OwnTool(
            name=QUERY_PARENT,
            description="Asks whoever gave you the task. You get the answer once it is there.",
            takes=AskParent,
            carry_out=query_parent,
        ),
        OwnTool(
            name=SEND_MESSAGE,
            description="Sends a message of one of the types below to another agent.",
            takes=SendMessage,
            carry_out=send_message,
        ),
        OwnTool(
            name=ANSWER_MESSAGE,
            description="Answers a message that somebody waits for an answer to.",
            takes=AnswerMessage,
            carry_out=answer_message,
        ),
    )
}


# Who has these says their place in the delegation tree, not their file.
OF_PLACE = (DELEGATE, ANSWER_CHILD, REPORT, QUERY_PARENT, ANSWER_MESSAGE)

# A reply that calls nothing else leaves its turn with nothing to do but to wait.
WAITING_TOOLS = (*OF_PLACE, ASK_USER, SEND_MESSAGE)


def names_for(agent: Agent, turn: Turn) -> tuple[str, ...]:
    """The tools that Interlock itself carries out for this turn."""
    if turn.kind in (SELECT, CHECK):
        return ()
    named = tuple(name for name in agent.tools if name in OWN_TOOLS and name not in OF_PLACE)
    as_parent = (DELEGATE, ANSWER_CHILD) if turn.children else ()
    as_child = (REPORT, QUERY_PARENT) if turn.kind == TASK else ()
    as_asked = (ANSWER_MESSAGE,) if turn.owes else ()
    return (*named, *as_parent, *as_child, *as_asked)


def own_tool(t: Transition, turn: Turn, name: str) -> OwnTool | None:
    """The tool of this name, if Interlock itself carries it out and the agent has it in this turn."""
    return OWN_TOOLS[name] if name in names_for(t.budgets.of(turn.agent).agent, turn) else None


def shown_to(crew: Crew, agent: Agent, turn: Turn, state: RunState) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and parameters of each, as the turn's model is told of them."""
    return [_shown(crew, turn, state, OWN_TOOLS[name]) for name in names_for(agent, turn)]


def _shown(crew: Crew, turn: Turn, state: RunState, tool: OwnTool) -> tuple[str, str, dict[str, Any]]:
    if tool.name == SEND_MESSAGE:
        return tool.name, f"{tool.description}\n{about_types(state, turn.agent)}", tool.parameters
    if tool.name != DELEGATE:
        return tool.name, tool.description, tool.parameters
    children, to = about_children(crew, turn)
    parameters = {**tool.parameters, "properties": {**tool.parameters["properties"], "to": to}}
    return tool.name, f"{tool.description}\n{children}", parameters


def rests(call: OpenTool) -> bool:
    """Whether the call was one that waits for mail, and was taken."""
    is_taken = call.output is not None and not call.output.startswith("error: ")
    return is_taken and call.request.name in WAITING_TOOLS


def carry_out(t: Transition, turn: Turn, call: OpenTool, tool: OwnTool) -> None:
    """The call has its output when this returns."""
    try:
        given = read_json(call.request.arguments or "{}", tool.takes)
        output, ok = tool.carry_out(t, turn, given), True
    except Refusal as refusal:
        output, ok = str(refusal), False
    except (msgspec.DecodeError, UnicodeError) as error:
        output, ok = f"{tool.name} cannot take that: {error}", False
    output = cut(output, t.settings.max_tool_output_chars)
    t.conclude(ToolReturned(call=call.key, ok=ok, output=output))
    call.output = output if ok else f"error: {output}"
