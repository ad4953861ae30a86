"""`Agent`: an agent as users write it in Python."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import UnionType
from typing import TYPE_CHECKING, Any

from interlock.authoring.routes import Broadcast, End, External, Group, Pause, Route, SubCrew, Written
from interlock.authoring.running import Runnable
from interlock.crew.definition import CrewDefinition

if TYPE_CHECKING:
    from interlock.adapters.tools.python_tools import PythonTool
    from interlock.adapters.value_types.output_types import OutputTypes
    from interlock.authoring.crew import Crew
    from interlock.compose.results import Result


class Agent(Written, Runnable[Any]):
    """An agent of a crew. `prompt` is the `system_prompt` of a file, `on` says where its marks lead.

    `default`, `wait_for_signal` and `auto_route` are its entries under `routing`; every other key has the name that it
    has in a file. Nothing is checked here: the crew checks all its agents at once.
    """

    positions = ("id", "prompt")

    def __init__(
        self,
        id: str,  # noqa: A002 - ids are called id everywhere
        prompt: str | None = None,
        *,
        on: "Mapping[str, Agent | str | Route | Group | SubCrew | Pause | External | Broadcast | End] | None" = None,
        default: "Agent | str | None" = None,
        wait_for_signal: bool | None = None,
        auto_route: bool | None = None,
        name: str | None = None,
        role: str | None = None,
        description: str | None = None,
        backstory: str | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        reasoning: str | int | None = None,
        cache: str | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        stop: Sequence[str] | None = None,
        parallel_tool_calls: bool | None = None,
        service_tier: str | None = None,
        extra: Mapping[str, object] | None = None,
        model: str | None = None,
        provider: str | None = None,
        provider_url: str | None = None,
        primary: Mapping[str, str] | None = None,
        backup: Mapping[str, str] | None = None,
        tools: "Sequence[str | PythonTool | Callable[..., Any]] | None" = None,
        handoff_targets: "Sequence[Agent | str] | None" = None,
        is_terminal: bool | None = None,
        cost_limits: Mapping[str, int | float | bool] | None = None,
        error_limits: Mapping[str, int | bool] | None = None,
        signals: Sequence[str] | None = None,
        output: type | UnionType | Mapping[str, object] | None = None,
    ) -> None:
        given = dict(locals())  # first, so that it holds the arguments and nothing else
        del given["self"]
        self._write(**given)

    @property
    def id(self) -> str:
        return str(self.given.get("id", ""))

    @cached_property
    def _alone(self) -> "Crew":
        from interlock.authoring.crew import Crew

        return Crew.of_agent(self)

    @property
    def definition(self) -> CrewDefinition:
        """The definition of the crew of this agent alone."""
        return self._alone.definition

    @property
    def functions(self) -> "Mapping[str, PythonTool]":
        """The functions that were given as its tools, by their names."""
        return self._alone.functions

    @property
    def output_types(self) -> "OutputTypes":
        """The type that was given as its output, if one was."""
        return self._alone.output_types

    @property
    def crew_files(self) -> tuple[str, ...]:
        return self._alone.crew_files

    def as_typed_result(self, result: "Result[Any]") -> "Result[Any]":
        """The result of a run with its value as one of the agent's type."""
        return self._alone.as_typed_result(result)

    def as_crew(self) -> "Crew":
        """A crew of this agent alone, of the same name; raises `UnsoundCrew` if its marks lead to other agents."""
        return self._alone
