"""Crews as callers give them: the `Crew` that users write or load, or the definition inside of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.value_types.output_types import OutputTypes, output_place
from interlock.compose.preflight import require_crew
from interlock.crew.definition import CrewDefinition

# The functions that were given as tools, by the names of the tools.
Functions = Mapping[str, PythonTool]

_NO_FUNCTIONS: Functions = MappingProxyType({})
_NO_TYPES: OutputTypes = MappingProxyType({})


class CrewLike(Protocol):
    """A proven crew, the functions that were given as its tools, and the types that were given as outputs."""

    @property
    def definition(self) -> CrewDefinition: ...

    @property
    def functions(self) -> Functions: ...

    @property
    def output_types(self) -> OutputTypes: ...


AnyCrew = CrewLike | CrewDefinition


def definition_of(crew: AnyCrew) -> CrewDefinition:
    """The definition of a crew; raises `UsageError` for what is not a crew."""
    found = crew if isinstance(crew, CrewDefinition) else getattr(crew, "definition", crew)
    require_crew(found)
    assert isinstance(found, CrewDefinition), "anything else was refused"
    return found


def functions_of(crew: AnyCrew) -> Functions:
    """The functions that came with a crew, by the names of the tools."""
    return _NO_FUNCTIONS if isinstance(crew, CrewDefinition) else crew.functions


def output_types_of(crew: AnyCrew) -> OutputTypes:
    """The types that came with a crew, by the places of their outputs."""
    return _NO_TYPES if isinstance(crew, CrewDefinition) else crew.output_types


def output_places(crew: CrewDefinition) -> list[str]:
    """The outputs of a crew and of all that it calls."""
    tree = crew.whole_tree()
    own = [output_place(each.name, agent.id) for each in tree for agent in each.agents]
    return [*(output_place(each.name) for each in tree), *own]
