"""Finds the model for an agent: the script, a model of the host, the agent's own script, its provider, or the local
model."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.function_model import FunctionModel, ModelFunction
from interlock.adapters.models.local import local_files
from interlock.adapters.models.local.local_model import LocalModel
from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.connections import Connections
from interlock.adapters.models.openai.providers import Providers, as_served, endpoint_of, is_served
from interlock.adapters.models.price_table import table_cost
from interlock.adapters.models.pydantic_ai.other_providers import (
    OTHER_PROVIDERS,
    OtherProviderModel,
    require_callable,
    require_key,
)
from interlock.adapters.models.redacting_model import RedactingModel
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.crew.definition import AgentDefinition, CrewDefinition, ModelRef
from interlock.crew.host import FREE_PROVIDERS, PROVIDERS
from interlock.engine.budgets.limits import cost_at, cost_of
from interlock.errors import ModelRefused, UsageError, nearest
from interlock.ports import Clock, Model

AnyModel = Model | ModelFunction

NO_MODEL = (
    "write 'model: PROVIDER:NAME' in its file or under settings, or give --model, --script FILE or, in Python, models=…"
)
# A run keeps the crew that it started with: later changes of its file do not reach it.
NO_MODEL_NOW = "it started with a script or with models of a program: give --script FILE or, in Python, models=…"


class Models:
    """All models of a process. A script is read once; each reply continues where the last one ended."""

    def __init__(
        self,
        given: AnyModel | Mapping[str, AnyModel] | None,
        script: str | os.PathLike[str] | None,
        clock: Clock,
        providers: Providers | None = None,
        keys: KnownSecrets | None = None,
    ) -> None:
        self._keys = keys or KnownSecrets()
        self._given, self._clock = given, clock
        self._script = self._load_script(script) if script is not None else None
        self._scripts: dict[str, ScriptedModel] = {}
        self._providers: Providers = providers or {}
        self._clients: dict[ModelRef, OpenAICompatibleModel] = {}
        self._connections: dict[tuple[str, str], Connections] = {}
        self._others: dict[tuple[ModelRef, bool], OtherProviderModel] = {}
        self._local: dict[str, LocalModel] = {}

    def model_for(self, crew: CrewDefinition, agent: AgentDefinition) -> Model:
        if self._script is not None:
            return RedactingModel(self._script, self._keys)
        provider = agent.primary.provider if agent.primary is not None else ""
        given = self._given.get(provider) if isinstance(self._given, Mapping) else self._given
        if given is not None:
            return RedactingModel(given if hasattr(given, "reply") else FunctionModel(given), self._keys)
        if agent.primary is not None and provider == "scripted":
            return RedactingModel(self._script_for(agent.primary.model), self._keys)
        if agent.primary is not None and is_served(as_served(agent.primary).provider, self._providers):
            return self._client(as_served(agent.primary))
        if agent.primary is not None and provider in OTHER_PROVIDERS:
            return self._other(agent.primary, by_table=not agent.has_prices and self._prices(provider) is None)
        if agent.primary is not None and provider == local_files.LOCAL:
            return self._local_model(agent.primary.model)
        raise ModelRefused(f"agent '{agent.id}' of crew '{crew.name}' has no model that can be called; {NO_MODEL}")

    def require_reachable(self, crew: CrewDefinition, run: str = "") -> None:
        """Refuses a crew whose models have no address or no key here; the run stays as it was."""
        for agent, model in self._server_models(crew):
            try:
                self._require(model)
            except ModelRefused as refusal:
                raise UsageError(
                    f"agent '{agent.id}' of crew '{crew.name}': {refusal}{_run_stays_note(run)}"
                ) from refusal

    def require_named(self, crew: CrewDefinition, run: str = "") -> None:
        """Refuses a crew with an agent that has no model; the run stays as it was."""
        for agent in crew.agents:
            if agent.primary is None and not self._is_given(""):
                how = NO_MODEL_NOW if run else NO_MODEL
                raise UsageError(f"agent '{agent.id}' of crew '{crew.name}' has no model; {how}{_run_stays_note(run)}")

    def cost_of(self, agent: AgentDefinition, input_tokens: int, output_tokens: int) -> int | None:
        """The cost by the agent's own prices, those of interlock.toml, or the bundled table; None if it is unknown.

        Scripts and models of the host report their own cost. Without a report a script costs 0, and the cost of a
        model of the host is unknown.
        """
        if agent.has_prices:
            return cost_of(agent, input_tokens, output_tokens)
        provider = agent.primary.provider if agent.primary is not None else ""
        if self._is_given(provider):
            return 0 if self._is_script(provider) else None
        prices = self._prices(provider)
        if prices is not None:
            return cost_at(prices, input_tokens, output_tokens)
        if agent.primary is None or provider in FREE_PROVIDERS:
            return 0
        return table_cost(agent.primary, input_tokens, output_tokens)

    def _prices(self, provider: str) -> tuple[float, float] | None:
        settings = self._providers.get(provider)
        return settings.prices if settings is not None else None

    def _is_script(self, provider: str) -> bool:
        given = self._given.get(provider) if isinstance(self._given, Mapping) else self._given
        return self._script is not None or isinstance(given, ScriptedModel)

    def name_for(self, agent: AgentDefinition) -> str:
        """The model that is called for an agent; empty if a script or the host replies."""
        if agent.primary is None or agent.primary.provider == "scripted" or self._is_given(agent.primary.provider):
            return ""
        return agent.primary.name

    async def close(self) -> None:
        """Closes connections, which belong to the event loop that opened them; the next call opens new ones."""
        connections, self._connections = self._connections, {}
        others, self._others = self._others, {}
        self._clients = {}
        for other in others.values():
            await other.close()
        for opened in connections.values():
            await opened.close()
        local, self._local = self._local, {}
        for model in local.values():
            await model.close()

    def _server_models(self, crew: CrewDefinition) -> Iterator[tuple[AgentDefinition, ModelRef]]:
        """Agents with the models that a server provides."""
        for agent in crew.agents:
            for model in (agent.primary, agent.backup):
                if model is not None and self._is_server_model(model):
                    yield agent, model

    def _is_server_model(self, model: ModelRef) -> bool:
        """True if a server provides the model, and not a script or the host."""
        if self._is_given(model.provider):
            return False
        if model.provider in OTHER_PROVIDERS or model.provider == local_files.LOCAL:
            return True
        return is_served(as_served(model).provider, self._providers)

    def _is_given(self, provider: str) -> bool:
        """True if the script or the host replies for this provider."""
        if self._script is not None or self._given is None:
            return self._script is not None
        return provider in self._given if isinstance(self._given, Mapping) else True

    def _require(self, model: ModelRef) -> None:
        model = as_served(model)
        if is_served(model.provider, self._providers):
            endpoint_of(model, self._providers, os.environ)
        elif model.provider == local_files.LOCAL:
            local_files.require_ready(model.model, os.environ)
        else:
            require_callable(model)
            require_key(model, os.environ)

    def _other(self, model: ModelRef, *, by_table: bool) -> OtherProviderModel:
        other = self._others.get((model, by_table))
        if other is None:
            other = self._others[model, by_table] = OtherProviderModel(model, self._keys, by_table=by_table)
        return other

    def _client(self, model: ModelRef) -> OpenAICompatibleModel:
        client = self._clients.get(model)
        if client is None:
            endpoint = endpoint_of(model, self._providers, os.environ)
            place = (endpoint.url, endpoint.proxy)
            connections = self._connections.setdefault(place, Connections(endpoint.proxy))
            client = OpenAICompatibleModel(endpoint, model.model, connections=connections, keys=self._keys)
            self._clients[model] = client
        return client

    def _local_model(self, name: str) -> LocalModel:
        if name not in self._local:
            self._local[name] = LocalModel(name, local_files.require_ready(name, os.environ), self._keys)
        return self._local[name]

    def _script_for(self, file: str) -> ScriptedModel:
        if file not in self._scripts:
            self._scripts[file] = self._load_script(file)
        return self._scripts[file]

    def _load_script(self, file: str | os.PathLike[str]) -> ScriptedModel:
        from interlock.adapters.crews.script_files import read_script  # YAML loads only where a script is used

        return ScriptedModel(read_script(Path(file)), clock=self._clock, records_requests=False)


def _run_stays_note(run: str) -> str:
    return f"; run '{run}' stays as it was" if run else ""


def with_model(crew: CrewDefinition, named: str, providers: Providers | None = None) -> CrewDefinition:
    """The crew with one model for every agent and no backup; its runs keep that model in every process."""
    provider, model = (part.strip() for part in (named.partition(":")[0], named.partition(":")[2]))
    known = (*PROVIDERS, *(providers or {}))
    if not provider or not model:
        raise UsageError(f"--model {named!r} is not PROVIDER:NAME; write openai:NAME, or scripted:FILE")
    if provider not in known:
        advice = nearest(provider, known, f"add [providers.{provider}] to interlock.toml")
        raise UsageError(f"--model {named!r}: unknown provider '{provider}'; {advice}")
    ref = ModelRef(provider=provider, model=model)
    settings = (providers or {}).get(provider)
    from interlock.adapters.models.known_models import fault_in_price  # loads the checks of crews

    fault = fault_in_price(crew, ref, has_prices=settings is not None and settings.prices is not None)
    if fault:
        raise UsageError(f"--model {named!r}: {fault}")
    return _with_one_model(crew, ref)


def _with_one_model(crew: CrewDefinition, model: ModelRef) -> CrewDefinition:
    agents = tuple(msgspec.structs.replace(agent, primary=model, backup=None) for agent in crew.agents)
    called = {
        name: msgspec.structs.replace(sub, crew=_with_one_model(sub.crew, model)) if sub.crew is not None else sub
        for name, sub in crew.sub_crews.items()
    }
    return msgspec.structs.replace(crew, agents=agents, sub_crews=called)
