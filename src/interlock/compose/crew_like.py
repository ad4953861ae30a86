"""Crews as callers give them: the `Crew` that users write or load, or the definition inside of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from interlock.adapters.tools.python_tools import PythonTool
from interlock.compose.preflight import require_crew
from interlock.crew.definition import CrewDefinition

_NO_FUNCTIONS: Mapping[str, PythonTool] = MappingProxyType({})


class CrewLike(Protocol):
    """A proven crew, and the functions that were given as its tools."""

    @property
    def definition(self) -> CrewDefinition: ...

    @property
    def functions(self) -> Mapping[str, PythonTool]: ...


def definition_of(crew: CrewLike | CrewDefinition) -> CrewDefinition:
    """The definition of a crew; raises `UsageError` for what is not a crew."""
    found = crew if isinstance(crew, CrewDefinition) else getattr(crew, "definition", crew)
    require_crew(found)
    assert isinstance(found, CrewDefinition), "anything else was refused"
    return found


def functions_of(crew: CrewLike | CrewDefinition) -> Mapping[str, PythonTool]:
    """The functions that came with a crew, by the names of the tools."""
    return _NO_FUNCTIONS if isinstance(crew, CrewDefinition) else crew.functions
