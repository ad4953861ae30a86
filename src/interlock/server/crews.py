"""The crews that a server serves: as they were when it last read them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from interlock.adapters.crew_files import LoadedCrew
from interlock.crew.definition import Agent, Crew
from interlock.crew.diagram import Diagram, diagram_of
from interlock.crew.diagram_text import as_text
from interlock.crew.drawing import as_svg
from interlock.crew.mermaid import as_mermaid
from interlock.crew.problem import Problem
from interlock.crew.registry import registry_of
from interlock.engine.conversation import Conversation
from interlock.engine.in_full import in_full
from interlock.engine.routing import RoutingTable
from interlock.errors import RequestRefused, UsageError, nearest
from interlock.runtime.crews import stored_form

# Of the sum of a crew: enough to tell revisions apart.
REVISION_CHARS = 12

# Content type and writer by the name of the form.
FORMS: dict[str, tuple[str, Callable[[Diagram], str]]] = {
    "json": ("application/json", lambda diagram: msgspec.json.encode(in_full(diagram)).decode()),
    "text": ("text/plain", as_text),
    "mermaid": ("text/plain", as_mermaid),
    "svg": ("image/svg+xml", as_svg),
}


class ServedCrew(msgspec.Struct, frozen=True, kw_only=True):
    """A crew with what a check found. One that is not sound can be looked at, and does not run.

    `revision` names what is served; `newer_problems` is what keeps a newer file from being served in its place.
    """

    crew: Crew
    problems: tuple[Problem, ...]
    is_sound: bool
    revision: str
    loaded_at: int
    newer_problems: tuple[Problem, ...] = ()


class ServedCrews:
    """Crews by name. Each can be read again; runs that have started keep the crew they started with."""

    def __init__(self, loaded: Iterable[LoadedCrew], loaded_at: int = 0) -> None:
        self._served = [served_crew(each, loaded_at) for each in loaded]
        self._crews = _by_name(self._served)

    def replace(self, loaded: Sequence[LoadedCrew], loaded_at: int) -> list[ServedCrew]:
        """Serves what was read again, in the same order; gives those that changed.

        A sound crew is not replaced by one with errors. `UsageError`, and nothing changed, if two have one name.
        """
        new = [_newer(old, each, loaded_at) for old, each in zip(self._served, loaded, strict=True)]
        self._crews = _by_name(new)
        changed = [after for before, after in zip(self._served, new, strict=True) if after is not before]
        self._served = new
        return changed

    def all(self, allowed: Collection[str] | None = None) -> Sequence[ServedCrew]:
        """All of them, or those that are allowed."""
        return tuple(each for name, each in self._crews.items() if allowed is None or name in allowed)

    def of(self, name: str, allowed: Collection[str] | None = None) -> ServedCrew:
        """A crew that is not allowed is refused as if it were not served."""
        names = [each.crew.name for each in self.all(allowed)]
        if name not in names:
            advice = nearest(name, names, f"served are {', '.join(names)}")
            raise RequestRefused("crew-not-served", f"no crew '{name[:80]}' is served here; {advice}")
        return self._crews[name]

    def sound(self, name: str, allowed: Collection[str] | None = None) -> Crew:
        found = self.of(name, allowed)
        if not found.is_sound:
            raise RequestRefused(
                "unsound-crew", f"crew '{name}' has problems; GET /v1/crews/{name}/problems lists them with a fix"
            )
        return found.crew

    @property
    def body_bytes_max(self) -> int:
        """What the most generous of them takes; each crew's own bound is looked at where it is known."""
        return 1024 * max(each.crew.settings.max_request_body_size_kb for each in self._crews.values())

    @property
    def keep_alive_s(self) -> float:
        return min(each.crew.settings.sse_keep_alive_seconds for each in self._crews.values())


def served_crew(loaded: LoadedCrew, loaded_at: int) -> ServedCrew:
    assert loaded.crew is not None, "what cannot be read is refused before"
    return ServedCrew(
        crew=loaded.crew,
        problems=loaded.problems,
        is_sound=loaded.is_sound,
        revision=stored_form(loaded.crew).sha[:REVISION_CHARS] if loaded.is_sound else "",
        loaded_at=loaded_at,
    )


def _newer(old: ServedCrew, loaded: LoadedCrew, loaded_at: int) -> ServedCrew:
    if loaded.crew is None or (old.is_sound and not loaded.is_sound):
        return msgspec.structs.replace(old, newer_problems=loaded.problems)
    new = served_crew(loaded, loaded_at)
    if (new.revision, new.problems, ()) == (old.revision, old.problems, old.newer_problems):
        return old
    return new


def _by_name(served: Sequence[ServedCrew]) -> dict[str, ServedCrew]:
    found: dict[str, ServedCrew] = {}
    for each in served:
        if each.crew.name in found:
            raise UsageError(f"two of the crews are called '{each.crew.name}'; give one of them another name")
        found[each.crew.name] = each
    return found


def crew_view(served: ServedCrew) -> dict[str, Any]:
    crew = served.crew
    return {
        "name": crew.name,
        "description": crew.description,
        "sound": served.is_sound,
        "entry_point": crew.entry_point,
        "agents": list(crew.agent_ids),
        "problems": len(served.problems),
        "revision": served.revision,
        "loaded_at": served.loaded_at,
        "newer_problems": len(served.newer_problems),
    }


def crew_detail(served: ServedCrew) -> dict[str, Any]:
    crew = served.crew
    # What is told to models is worked out from a sound crew only: another one may name what is not there.
    talk = Conversation(crew, RoutingTable(crew)) if served.is_sound else None
    routes = [(agent, route) for agent, found in crew.routes.items() for route in found]
    return {
        **crew_view(served),
        "version": crew.version,
        "agent_details": [
            _agent(crew, agent, talk.instructions(agent.id) if talk is not None else agent.system_prompt)
            for agent in crew.agents
        ],
        "routes": [
            {
                "agent": agent,
                "signal": route.signal,
                "behavior": route.behavior,
                "priority": route.priority,
                "target": route.target,
                "description": route.description,
            }
            for agent, route in routes
        ],
        "signals": _signals(served),
        "settings": in_full(crew.settings),
    }


def _agent(crew: Crew, agent: Agent, instructions: str) -> dict[str, Any]:
    return {
        "id": agent.id,
        "name": agent.name,
        "role": agent.role,
        "description": agent.description,
        "model": agent.primary.name if agent.primary is not None else "",
        "tools": list(agent.tools),
        "handoff_targets": list(agent.handoff_targets),
        "is_terminal": crew.is_terminal(agent),
        "instructions": instructions,
    }


def _signals(served: ServedCrew) -> list[dict[str, Any]]:
    if not served.is_sound:
        return []
    return [
        {"name": each.name, "behavior": each.behavior, "priority": each.rank, "description": each.description}
        for each in registry_of(served.crew).all()
    ]


def graph_of(served: ServedCrew, form: str) -> tuple[str, str]:
    """Its content type, and the graph in that form."""
    media_type, write = FORMS[form]
    return media_type, write(diagram_of(served.crew))
