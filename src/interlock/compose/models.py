"""Which model answers for an agent: the script, what the host gave, or the script that the agent itself names."""

import os
from collections.abc import Mapping
from pathlib import Path

from interlock.adapters.models.functions import FunctionModel, ModelFunction
from interlock.adapters.models.scripted import ScriptedModel
from interlock.adapters.script_files import read_script
from interlock.crew.definition import Agent, Crew
from interlock.errors import ModelRefused
from interlock.ports import Clock, Model

AnyModel = Model | ModelFunction


class Models:
    """Every model of a process; a script is read once and played on from where it is."""

    def __init__(
        self,
        given: AnyModel | Mapping[str, AnyModel] | None,
        script: str | os.PathLike[str] | None,
        clock: Clock,
    ) -> None:
        self._given, self._clock = given, clock
        self._script = self._played(script) if script is not None else None
        self._scripts: dict[str, ScriptedModel] = {}

    def model_for(self, crew: Crew, agent: Agent) -> Model:
        if self._script is not None:
            return self._script
        provider = agent.primary.provider if agent.primary is not None else ""
        given = self._given.get(provider) if isinstance(self._given, Mapping) else self._given
        if given is not None:
            return given if hasattr(given, "reply") else FunctionModel(given)
        if agent.primary is not None and provider == "scripted":
            return self._scripted(agent.primary.model)
        raise ModelRefused(
            f"agent '{agent.id}' of crew '{crew.name}' has no model that can be called; "
            "use --script FILE, or give the host's models"
        )

    def _scripted(self, file: str) -> ScriptedModel:
        if file not in self._scripts:
            self._scripts[file] = self._played(file)
        return self._scripts[file]

    def _played(self, file: str | os.PathLike[str]) -> ScriptedModel:
        return ScriptedModel(read_script(Path(file)), clock=self._clock)
