"""Models that a program or a command gives in place of those that crews name."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from interlock.adapters.function_callers import OWN_LOOP, FunctionCaller
from interlock.adapters.models.function_model import FunctionModel, ModelFunction, PlacedModel
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.crew.definition import AgentDefinition, CrewDefinition, ModelRef
from interlock.ports import Clock, Model

AnyModel = Model | ModelFunction
ModelChoice = AnyModel | Mapping[str, AnyModel]


class GivenModels:
    """A script for all agents, a model of the program for all or by provider, or one model by name (`model`)."""

    def __init__(
        self,
        given: ModelChoice | None = None,
        *,
        script: ScriptedModel | None = None,
        model: ModelRef | None = None,
        place: FunctionCaller = OWN_LOOP,
    ) -> None:
        self._given = given if script is None else script
        self._model, self._place = model, place

    def as_called(self, agent: AgentDefinition) -> AgentDefinition:
        """The agent with the model that is called for it, if one is given by name."""
        if self._model is None:
            return agent
        return msgspec.structs.replace(agent, primary=self._model, backup=None)

    def has(self, provider: str) -> bool:
        """True if a script or the program replies for this provider."""
        return self._of(provider) is not None

    def is_script(self, provider: str) -> bool:
        return isinstance(self._of(provider), ScriptedModel)

    def model_for(self, provider: str) -> Model | None:
        given = self._of(provider)
        if given is None or isinstance(given, ScriptedModel):
            return given
        if hasattr(given, "reply"):
            return given if self._place is OWN_LOOP else PlacedModel(given, self._place)
        return FunctionModel(given, self._place)

    def use_of(self, crew: CrewDefinition) -> tuple[bool, tuple[str, ...]]:
        """Whether a model given here replies for an agent of the crew or its sub-crews; if by provider, for which."""
        if self._model is not None or (self._given is not None and not isinstance(self._given, Mapping)):
            return True, ()
        used = tuple(dict.fromkeys(name for name in _providers_of(crew) if self.has(name)))
        return bool(used), used

    def replies_for(self, crew: CrewDefinition, providers: Iterable[str]) -> bool:
        """True if models are given for these providers; without any, for all that the crew names."""
        if self._model is not None:
            return True
        return self._given is not None and all(self.has(name) for name in tuple(providers) or _providers_of(crew))

    def _of(self, provider: str) -> AnyModel | None:
        return self._given.get(provider) if isinstance(self._given, Mapping) else self._given


def load_script(file: str | os.PathLike[str], clock: Clock) -> ScriptedModel:
    from interlock.adapters.crews.script_files import read_script  # YAML loads only where a script is used

    return ScriptedModel(read_script(Path(file)), clock=clock, records_requests=False)


def _providers_of(crew: CrewDefinition) -> Iterable[str]:
    for each in crew.whole_tree():
        for agent in each.agents:
            yield agent.primary.provider if agent.primary is not None else ""
            if agent.backup is not None:
                yield agent.backup.provider
