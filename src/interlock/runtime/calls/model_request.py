"""The request of a model call, built by one pure function."""

from collections.abc import Sequence

import msgspec

from interlock.crew.definition import NO_MODEL_SETTINGS, AgentDefinition, CrewDefinition
from interlock.crew.tokens import BYTES_PER_TOKEN
from interlock.engine.builtin_tools import builtin_schemas_for
from interlock.engine.effects import CallModel, Reserve
from interlock.engine.kinds import ADVISORY_KINDS, TurnKind
from interlock.engine.prompt.contract import usable_marks
from interlock.engine.routing.emit_signal import DESCRIPTION, EMIT_SIGNAL, emit_signal_schema
from interlock.engine.state import RunState, Turn, turns_by
from interlock.ports import ModelRequest, Toolbox, ToolSchema
from interlock.runtime.calls.bus_tools import BUS_TOOLS
from interlock.runtime.live_run import LiveRun


def build_model_request(
    live: LiveRun, agent: AgentDefinition, effect: CallModel, scale: int, toolbox: Toolbox
) -> ModelRequest:
    """The request for the turn that has just ordered a call. Its key is unique over all runs."""
    state, turn = live.run.state, ordering_turn(live.run.state, effect)
    group = _group_of(state, turn) if state.group is not None else ""
    place = effect.agent, group, turn.kind, state.aside is not None
    same = live.requests.get(place)
    if same is None:
        same = live.requests[place] = _request_without_messages(live, agent, *place)
    return msgspec.structs.replace(
        same,
        key=live.key(effect.key),
        number=effect.number,
        purpose=effect.purpose,
        purpose_number=effect.purpose_number,
        messages=live.conversation.messages(state.history, turn, scale),
        tools=tool_schemas(live, agent, turn, toolbox),
    )


def _request_without_messages(
    live: LiveRun, agent: AgentDefinition, agent_id: str, group: str, kind: TurnKind, is_side: bool
) -> ModelRequest:
    """What is the same in all requests of an agent in this run, for its own turns, as a member, or for a task."""
    conversation, state = live.conversation, live.run.state
    is_typed = live.run.table.outputs and not is_side
    return ModelRequest(
        key="",
        agent=agent_id,
        number=0,
        system=conversation.instructions(agent_id, group, kind, is_side),
        messages=(),
        temperature=agent.temperature,
        top_p=agent.top_p,
        top_k=agent.top_k,
        settings=agent.model_settings or NO_MODEL_SETTINGS,
        ending=conversation.ending(agent_id, group, kind),
        typed=conversation.typed_reply(agent_id, group, kind) if is_typed else None,
        path=state.way or state.path,
    )


def ordering_turn(state: RunState, effect: CallModel | Reserve) -> Turn:
    """The turn that has just ordered the effect."""
    foreground = state.turn
    if foreground is not None and foreground.number == effect.turn:  # nearly always
        return foreground
    return next(turn for turn in turns_by(state, effect.agent) if turn.number == effect.turn)


def tool_schemas(live: LiveRun, agent: AgentDefinition, turn: Turn, toolbox: Toolbox) -> tuple[ToolSchema, ...]:
    """The tools of the host, then Interlock's, then `emit_signal` where agents route by a tool."""
    run = live.run
    if turn.kind in ADVISORY_KINDS:
        return ()
    schemas: tuple[ToolSchema, ...] = ()
    if agent.tools or turn.children or turn.kind or turn.owes:  # without any of these, no tool is for the turn
        of_host = toolbox.schemas(agent.tools, crew=live.crew_ref)
        schemas = (*of_host, *builtin_tool_schemas(run.crew, agent, turn, run.state))
    if run.settings.signal_mode != "tool" or turn.kind:
        return schemas
    names = [route.signal for route in usable_marks(run.crew, agent.id, _group_of(run.state, turn)).routes]
    emit = ToolSchema(name=EMIT_SIGNAL, description=DESCRIPTION, parameters=emit_signal_schema(names))
    return (*schemas, emit) if names else schemas


def builtin_tool_schemas(
    crew: CrewDefinition, agent: AgentDefinition, turn: Turn, state: RunState
) -> tuple[ToolSchema, ...]:
    """The schemas of the tools that Interlock itself runs."""
    inside = tuple(
        ToolSchema(name=name, description=description, parameters=parameters)
        for name, description, parameters in builtin_schemas_for(crew, agent, turn, state)
    )
    return (*inside, *(BUS_TOOLS[name].schema for name in agent.tools if name in BUS_TOOLS))


def tokens_of_tools(tools: Sequence[ToolSchema]) -> int:
    """An estimate of the tokens that the schemas take."""
    return len(msgspec.json.encode(tools)) // BYTES_PER_TOKEN


def _group_of(state: RunState, turn: Turn) -> str:
    """The name of the group that the turn belongs to, if any."""
    group = state.group
    if group is None:
        return ""
    return group.name if any(branch.turn is turn for branch in group.branches) else ""
