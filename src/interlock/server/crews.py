"""The crews that a server serves, as it last read them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from interlock.adapters.crews.crew_files import LoadedCrew
from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.crew.problem import Problem
from interlock.crew.registry import registry_of
from interlock.diagrams.builder import diagram_of
from interlock.diagrams.mermaid import as_mermaid
from interlock.diagrams.model import Diagram
from interlock.diagrams.svg import as_svg
from interlock.diagrams.text import as_text
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.to_plain import to_plain
from interlock.errors import RequestRefused, UsageError, nearest
from interlock.runtime.stored_crews import as_stored_form

# Characters of a crew's checksum: enough to tell revisions apart.
REVISION_CHARS = 12

# Content type and writer by the name of the format.
FORMS: dict[str, tuple[str, Callable[[Diagram], str]]] = {
    "json": ("application/json", lambda diagram: msgspec.json.encode(to_plain(diagram)).decode()),
    "text": ("text/plain", as_text),
    "mermaid": ("text/plain", as_mermaid),
    "svg": ("image/svg+xml", as_svg),
}


class ServedCrew(msgspec.Struct, frozen=True, kw_only=True):
    """A crew with the result of its check. A crew with errors can be viewed, and does not run.

    `revision` names the served version; `newer_problems` keep a newer file from replacing it. `reloaded` is True if it
    was read after the server had started, and `watched` if changes of its files are noticed.
    """

    crew: CrewDefinition
    problems: tuple[Problem, ...]
    is_sound: bool
    revision: str
    loaded_at: int
    is_reloaded: bool = False
    is_watched: bool = False
    newer_problems: tuple[Problem, ...] = ()


class ServedCrews:
    """Crews by name. Each can be reloaded; runs keep the crew they started with."""

    def __init__(self, loaded: Iterable[LoadedCrew], loaded_at: int = 0, *, is_watched: bool = False) -> None:
        self._served = [as_served_crew(each, loaded_at, is_watched=is_watched) for each in loaded]
        self._crews = _crews_by_name(self._served)

    def replace(self, loaded: Sequence[LoadedCrew], loaded_at: int) -> list[ServedCrew]:
        """Replaces crews with reloaded ones, in the same order; returns those that changed.

        A sound crew is not replaced by one with errors. Raises `UsageError`, and changes nothing, if two have one name.
        """
        new = [_next_served_crew(old, each, loaded_at) for old, each in zip(self._served, loaded, strict=True)]
        self._crews = _crews_by_name(new)
        changed = [after for before, after in zip(self._served, new, strict=True) if after is not before]
        self._served = new
        return changed

    def all(self, allowed: Collection[str] | None = None) -> Sequence[ServedCrew]:
        """All crews, or the allowed ones."""
        return tuple(each for name, each in self._crews.items() if allowed is None or name in allowed)

    def require_crew(self, name: str, allowed: Collection[str] | None = None) -> ServedCrew:
        """Finds a crew; one that is not allowed is refused as if it were not served."""
        names = [each.crew.name for each in self.all(allowed)]
        if name not in names:
            advice = nearest(name, names, f"served are {', '.join(names)}")
            raise RequestRefused("crew-not-served", f"no crew '{name[:80]}' is served here; {advice}")
        return self._crews[name]

    def require_sound_crew(self, name: str, allowed: Collection[str] | None = None) -> CrewDefinition:
        found = self.require_crew(name, allowed)
        if not found.is_sound:
            raise RequestRefused(
                "unsound-crew", f"crew '{name}' has problems; GET /v1/crews/{name}/problems lists them with a fix"
            )
        return found.crew

    @property
    def body_bytes_max(self) -> int:
        """The largest limit of all crews; the limit of each crew is checked where the crew is known."""
        return 1024 * max(each.crew.settings.max_request_body_size_kb for each in self._crews.values())

    @property
    def keep_alive_s(self) -> float:
        return min(each.crew.settings.sse_keep_alive_seconds for each in self._crews.values())


def as_served_crew(
    loaded: LoadedCrew, loaded_at: int, *, is_reloaded: bool = False, is_watched: bool = False
) -> ServedCrew:
    assert loaded.crew is not None, "unreadable crews are refused before"
    return ServedCrew(
        crew=loaded.crew,
        problems=loaded.problems,
        is_sound=loaded.is_sound,
        revision=as_stored_form(loaded.crew).sha[:REVISION_CHARS] if loaded.is_sound else "",
        loaded_at=loaded_at,
        is_reloaded=is_reloaded,
        is_watched=is_watched,
    )


def _next_served_crew(old: ServedCrew, loaded: LoadedCrew, loaded_at: int) -> ServedCrew:
    if loaded.crew is None or (old.is_sound and not loaded.is_sound):
        return msgspec.structs.replace(old, newer_problems=loaded.problems)
    new = as_served_crew(loaded, loaded_at, is_reloaded=True, is_watched=old.is_watched)
    if (new.revision, new.problems, ()) == (old.revision, old.problems, old.newer_problems):
        return old
    return new


def _crews_by_name(served: Sequence[ServedCrew]) -> dict[str, ServedCrew]:
    found: dict[str, ServedCrew] = {}
    for each in served:
        if each.crew.name in found:
            raise UsageError(f"two crews have the name '{each.crew.name}'; rename one of them")
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
        "reloaded": served.is_reloaded,
        "watched": served.is_watched,
        "newer_problems": len(served.newer_problems),
    }


def crew_detail(served: ServedCrew) -> dict[str, Any]:
    crew = served.crew
    # Prompts are built for sound crews only: others may name parts that do not exist.
    talk = Conversation(crew, RoutingTable(crew)) if served.is_sound else None
    routes = [(agent, route) for agent, found in crew.routes.items() for route in found]
    return {
        **crew_view(served),
        "version": crew.version,
        "agent_details": [
            _agent_view(crew, agent, talk.instructions(agent.id) if talk is not None else agent.system_prompt)
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
        "signals": _signal_views(served),
        "settings": to_plain(crew.settings),
    }


def _agent_view(crew: CrewDefinition, agent: AgentDefinition, instructions: str) -> dict[str, Any]:
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


def _signal_views(served: ServedCrew) -> list[dict[str, Any]]:
    if not served.is_sound:
        return []
    return [
        {"name": each.name, "behavior": each.behavior, "priority": each.rank, "description": each.description}
        for each in registry_of(served.crew).all()
    ]


def graph_of(served: ServedCrew, form: str) -> tuple[str, str]:
    """The content type, and the graph in that format."""
    media_type, write = FORMS[form]
    return media_type, write(diagram_of(served.crew))
