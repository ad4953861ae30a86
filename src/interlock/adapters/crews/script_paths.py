"""The paths of scripts in a crew: relative to the crew's folder while it is read, absolute afterwards."""

import msgspec

from interlock.adapters.files.contained_folder import ContainedFolder, UnreadablePath
from interlock.crew.definition import AgentDefinition, CrewDefinition, ModelRef
from interlock.crew.nodes import Mapping
from interlock.crew.problem import Problems
from interlock.crew.source import CrewSource


def with_script_paths(
    crew: CrewDefinition, source: CrewSource, folder: ContainedFolder, problems: Problems
) -> CrewDefinition:
    """Resolves the paths of scripts, which are relative to the crew's folder; later the folder is unknown."""
    agents = []
    for agent in crew.agents:
        found = {key: _script(model, agent.id, key, source, folder, problems) for key, model in _scripts(agent)}
        agents.append(msgspec.structs.replace(agent, **found))
    return msgspec.structs.replace(crew, agents=tuple(agents))


def _script(
    model: ModelRef, agent: str, key: str, source: CrewSource, folder: ContainedFolder, problems: Problems
) -> ModelRef:
    try:
        folder.read(model.model)
        return msgspec.structs.replace(model, model=str(folder.resolve(model.model)))
    except UnreadablePath as refusal:
        node = source.agent_node(agent)
        flat = not isinstance(node, Mapping) or node.get(key) is None
        place, path = source.agent_location(agent, ("model",) if flat else (key, "model"))
        message, fix = f"script '{model.model}' {refusal}", "name a script inside the crew's folder"
        problems.add("bad-path", message, place=place, path=path, fix=fix)
        return model


def _scripts(agent: AgentDefinition) -> list[tuple[str, ModelRef]]:
    named = (("primary", agent.primary), ("backup", agent.backup))
    return [(key, model) for key, model in named if model is not None and model.provider == "scripted"]
