"""`Crew`: a proven crew, as users write it in Python or load it from files."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from interlock.adapters.value_types.output_types import output_place
from interlock.authoring.agent import Agent
from interlock.authoring.call_places import CallPlace, place_of_caller
from interlock.authoring.routes import Written
from interlock.authoring.running import Runnable
from interlock.compose.results import Result, T
from interlock.crew.definition import AgentDefinition, CrewDefinition, CrewSettings
from interlock.crew.problem import Problem
from interlock.errors import UsageError

if TYPE_CHECKING:
    from interlock.adapters.crews.crew_trees import CrewTree
    from interlock.adapters.tools.python_tools import PythonTool
    from interlock.adapters.value_types.output_types import OutputType, OutputTypes
    from interlock.authoring.prove import ProvenCrew
    from interlock.compose.crews import AnyHost


class _CrewCall(Written):
    """A call of `Crew`, with the keys of its document."""

    __slots__ = ()
    positions = ("name", "agents")

    def __init__(self, place: CallPlace, given: Mapping[str, object]) -> None:
        self.written_at, self.first = place, ()
        self.given = {name: value for name, value in given.items() if value is not None}


class Crew(Runnable[T]):
    """A crew that was proven: every check of crew files has passed. `UnsoundCrew` has every problem otherwise.

    `output` is the type of the result, `Crew[Refund]` for a type `Refund`; or a JSON Schema.
    """

    _value_type: "OutputType | None" = None

    def __init__(
        self,
        name: str,
        agents: Sequence[Agent],
        *,
        entry: Agent | str | None = None,
        description: str | None = None,
        version: str = "2.0",
        signals: Sequence[Mapping[str, object]] | None = None,
        routing: Mapping[str, object] | None = None,
        sub_crews: "Mapping[str, Crew | str | os.PathLike[str] | Mapping[str, object]] | None" = None,
        delegation: Mapping[str, object] | None = None,
        subscriptions: Mapping[str, object] | Mapping[Agent, object] | None = None,
        settings: Mapping[str, str | int | float | bool] | None = None,
        output: type[T] | UnionType | Mapping[str, object] | None = None,
        host: "AnyHost | None" = None,
    ) -> None:
        from interlock.authoring.prove import prove_written

        given = {
            "version": version,
            "name": name,
            "description": description,
            "entry": entry,
            "agents": agents,
            "signals": signals,
            "routing": routing,
            "sub_crews": sub_crews,
            "delegation": delegation,
            "subscriptions": subscriptions,
            "settings": settings,
            "output": output,
        }
        self._proven = prove_written(_CrewCall(place_of_caller(), given), host)
        self._value_type = self._proven.output_types.get(output_place(name))

    @classmethod
    def _of(cls, proven: "ProvenCrew") -> Self:
        crew = cls.__new__(cls)
        crew._proven = proven
        return crew

    @classmethod
    def of_agent(cls, agent: Agent) -> Self:
        """A crew of one agent, which has its id as name. Its problems name the place of the agent."""
        from interlock.authoring.prove import prove_written

        given = {"version": "2.0", "name": agent.given.get("id"), "agents": [agent]}
        crew = cls._of(prove_written(_CrewCall(agent.written_at, given), None))
        crew._value_type = crew.output_types.get(output_place(crew.name, agent.id))
        return crew

    @classmethod
    def from_yaml(
        cls,
        path: str | os.PathLike[str],
        *,
        host: "AnyHost | None" = None,
        tools: "Sequence[PythonTool | Callable[..., Any]]" = (),
    ) -> Self:
        """Loads a crew from its folder or file. `tools` are functions for tools that the crew names."""
        from interlock.authoring.load_crew import prove_files

        return cls._of(prove_files(path, host=host, tools=tools))

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, object],
        *,
        host: "AnyHost | None" = None,
        tools: "Sequence[PythonTool | Callable[..., Any]]" = (),
    ) -> Self:
        """A crew from plain data with the keys of a crew file, agents inline."""
        from interlock.authoring.load_crew import functions_of
        from interlock.authoring.prove import prove_data

        spot = place_of_caller().spot().argument("data", 0)[1]
        return cls._of(prove_data(data, spot, functions_of(tools), host))

    @property
    def definition(self) -> CrewDefinition:
        """The proven crew, with its sub-crews."""
        return self._proven.definition

    @property
    def functions(self) -> "Mapping[str, PythonTool]":
        """The functions that were given as tools here and in sub-crews, by the names of the tools."""
        return self._proven.functions

    @property
    def output_types(self) -> "OutputTypes":
        """The types that were given as outputs here and in sub-crews, by the names of crews and agents."""
        return self._proven.output_types

    @property
    def crew_files(self) -> tuple[str, ...]:
        """The file of the crew, or of the code that wrote it, if there is one."""
        return (self._proven.file,) if os.path.exists(self._proven.file) else ()  # noqa: PTH110 - never raises

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What the checks found that is not an error."""
        return self._proven.warnings

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def version(self) -> str:
        return self.definition.version

    @property
    def entry(self) -> str:
        """The id of the agent that gets the input."""
        return self.definition.entry_point

    @property
    def agents(self) -> tuple[AgentDefinition, ...]:
        return self.definition.agents

    @property
    def settings(self) -> CrewSettings:
        return self.definition.settings

    def as_typed_result(self, result: Result[Any]) -> Result[T]:
        """The result of a run of this crew, with its value as one of the crew's type.

        Raises `UsageError` if the type refuses it: a crew of another type started the run.
        """
        type_ = self._value_type
        if type_ is None or result.value is None:
            return result
        try:
            return msgspec.structs.replace(result, value=type_.decode(result.value))
        except ValueError as error:
            message = f"the value of run '{result.run}' is not a {type_.name}: {error}"
            raise UsageError(f"{message}; result.value of box.result(run) is the plain JSON") from error

    def tree(self) -> "CrewTree":
        """The documents of this crew and its sub-crews, for writing them."""
        return self._proven.tree()

    def to_yaml(self) -> str:
        """The crew as one file, tools by name. Raises `UsageError` for a crew with sub-crews: `save` writes those."""
        if self.definition.sub_crews:
            raise UsageError(f"crew '{self.name}' has sub-crews, which are files of their own; use crew.save(folder)")
        return self.tree().yaml()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the crew and its sub-crews as files into a folder. `load_crew(folder)` gives the same crew."""
        from interlock.adapters.crews.crew_trees import save_tree

        save_tree(self.tree(), Path(folder))

    def as_crew(self) -> "Crew":
        """This crew: what runs is a crew, also where an agent may be given."""
        return self

    def __repr__(self) -> str:
        return f"<Crew {self.name!r}: {', '.join(agent.id for agent in self.agents)}>"
