"""Checks a crew from any source with the rules for files.

Rule 1: the host's tools, models and servers are not checked here; the process that runs the crew checks them.
Rule 2: the crew that is checked is the crew that runs, not one parsed back from its document.
"""

import msgspec

from interlock.crew.checks import check_crew
from interlock.crew.definition import CrewDefinition, SubCrewDefinition
from interlock.crew.document import document_of
from interlock.crew.host import Host
from interlock.crew.nodes import SourceLocation
from interlock.crew.parse import parse_crew
from interlock.crew.problem import Problem, Problems, is_sound
from interlock.crew.source import CrewSource
from interlock.crew.unsound import UnsoundCrew
from interlock.limits import CREW_DEPTH_MAX


def require_sound_crew(crew: CrewDefinition) -> None:
    """Raises `UnsoundCrew` with all problems if the crew, or one that it calls, has errors."""
    misfit = _type_problem(crew)
    found = [misfit] if misfit else [problem for each in crew.whole_tree() for problem in problems_of(each)]
    if not misfit and levels_of(crew) > CREW_DEPTH_MAX + 1:
        found.append(_problem(crew, "too-deep", f"crews are nested deeper than {CREW_DEPTH_MAX} levels", "nest fewer"))
    if not is_sound(found):
        raise UnsoundCrew(_name_of(crew), found)


def problems_of(crew: CrewDefinition) -> list[Problem]:
    """All problems of one crew, without those of its sub-crews. Their paths are those of its file."""
    problems = Problems()
    source = CrewSource(document_of(crew), crew.name, is_file=False)
    read = parse_crew(source, problems)
    is_readable = is_sound(problems.found)
    check_crew(crew if is_readable else read, source, problems, _host_for(crew))
    for name, sub in crew.sub_crews.items():
        if sub.crew is None:
            place, path = source.location(()), ("sub_crews", name)
            message, fix = f"sub-crew '{name}' holds no crew", "give it one, or load the crew from its file"
            problems.add("bad-path", message, place=place, path=path, fix=fix)
    return problems.found


def _type_problem(crew: CrewDefinition) -> Problem | None:
    """The first value of a wrong type: such a crew can be neither stored nor checked."""
    queue, known = [crew], {id(crew): crew}
    for each in queue:
        try:
            _require_types(each)
        except (TypeError, ValueError, RecursionError) as error:  # a ValidationError is a ValueError
            return _problem(each, "bad-value", f"this is not a crew: {error}", "give its fields values of their types")
        inner = {id(sub.crew): sub.crew for sub in each.sub_crews.values() if sub.crew is not None}
        queue += [found for key, found in inner.items() if key not in known]
        known |= inner
    return None


def _require_types(crew: CrewDefinition) -> None:
    """Checks one crew without its sub-crews, since a shared one would be checked once per use."""
    if not isinstance(crew, CrewDefinition):
        raise TypeError(f"it is of type {type(crew).__name__}; load_crew reads a crew from its file")
    alone = crew
    if isinstance(crew.sub_crews, dict):
        subs = {name: _without_crew(sub) for name, sub in crew.sub_crews.items()}
        alone = msgspec.structs.replace(crew, sub_crews=subs)
    msgspec.convert(msgspec.to_builtins(alone), CrewDefinition)
    msgspec.json.encode(alone)  # a text that is not Unicode cannot be stored


def _without_crew(sub: object) -> object:
    return msgspec.structs.replace(sub, crew=None) if isinstance(sub, SubCrewDefinition) else sub


def _problem(crew: CrewDefinition, code: str, message: str, fix: str) -> Problem:
    problems = Problems()
    problems.add(code, message, place=SourceLocation(f"crew '{_name_of(crew)}'", 0, 0), fix=fix)
    return problems.found[0]


def _name_of(crew: CrewDefinition) -> str:
    """The name of the crew, even if it is not a crew at all."""
    return str(getattr(crew, "name", crew)).encode("utf-8", "backslashreplace").decode()


def levels_of(crew: CrewDefinition, known: dict[int, int] | None = None) -> int:
    """The number of levels of crews, including this one; a crew that is used often is counted once."""
    known = {} if known is None else known
    if id(crew) not in known:
        known[id(crew)] = CREW_DEPTH_MAX + 1  # the result if it contains itself
        inner = [sub.crew for sub in crew.sub_crews.values() if sub.crew is not None]
        known[id(crew)] = 1 + max((levels_of(each, known) for each in inner), default=0)
    return known[id(crew)]


def _host_for(crew: CrewDefinition) -> Host:
    """A host that has everything the crew names."""
    tools = [tool for agent in crew.agents for tool in agent.tools]
    models = [model for agent in crew.agents for model in (agent.primary, agent.backup) if model is not None]
    return Host(
        tools=tuple(tools),
        mcp_servers=tuple(tool.removeprefix("mcp:").partition("/")[0] for tool in tools if tool.startswith("mcp:")),
        providers=tuple(model.provider for model in models),
    )
