"""Finds the model for an agent: what was given to its run or its process, its own script, its provider, or the local
model."""

import os
from collections.abc import Iterator
from functools import partial

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.given_models import GivenModels, load_script
from interlock.adapters.models.local import local_files
from interlock.adapters.models.local.local_model import LocalModel
from interlock.adapters.models.model_features import faults_for_agent
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
from interlock.compose.given.run_resources import RunResources
from interlock.crew.definition import AgentDefinition, CrewDefinition, ModelRef, Prices
from interlock.crew.host import FREE_PROVIDERS, PROVIDERS
from interlock.engine.budgets.limits import CostOf, cost_at, cost_of
from interlock.engine.events import Usage
from interlock.errors import ModelRefused, UsageError, nearest
from interlock.ports import Clock, Model

NO_MODEL = (
    "write 'model: PROVIDER:NAME' in its file or under settings, or give --model, --script FILE or, in Python, models=…"
)
# A run keeps the crew that it started with: later changes of its file do not reach it.
NO_MODEL_NOW = "it started with a script or with models of a program: give --script FILE or, in Python, models=…"


class Models:
    """All models of a process. A script is read once; each reply continues where the last one ended."""

    def __init__(
        self,
        resources: RunResources,
        clock: Clock,
        providers: Providers | None = None,
        keys: KnownSecrets | None = None,
    ) -> None:
        self._keys = keys or KnownSecrets()
        self._resources, self._clock = resources, clock
        self._scripts: dict[str, ScriptedModel] = {}
        self._providers: Providers = providers or {}
        self._clients: dict[ModelRef, OpenAICompatibleModel] = {}
        self._connections: dict[tuple[str, str], Connections] = {}
        self._others: dict[ModelRef, OtherProviderModel] = {}
        self._local: dict[str, LocalModel] = {}

    def model_for(self, crew: CrewDefinition, agent: AgentDefinition, run: str) -> Model:
        given = self._resources.models_for(run)
        agent = given.as_called(agent)
        provider = agent.primary.provider if agent.primary is not None else ""
        if (model := given.model_for(provider)) is not None:
            return RedactingModel(model, self._keys)
        if agent.primary is not None and provider == "scripted":
            return RedactingModel(self._script_for(agent.primary.model), self._keys)
        if agent.primary is not None and is_served(as_served(agent.primary).provider, self._providers):
            return self._client(as_served(agent.primary))
        if agent.primary is not None and provider in OTHER_PROVIDERS:
            return self._other(agent.primary)
        if agent.primary is not None and provider == local_files.LOCAL:
            return self._local_model(agent.primary.model)
        raise ModelRefused(f"agent '{agent.id}' of crew '{crew.name}' has no model that can be called; {NO_MODEL}")

    def require_reachable(self, crew: CrewDefinition, run: str, *, is_new: bool) -> None:
        """Refuses a crew whose models have no address or no key here."""
        for agent, model in self._server_models(crew, self._resources.models_for(run)):
            try:
                self._require(model)
            except ModelRefused as refusal:
                whose = "" if is_new else _run_note(run)
                raise UsageError(f"agent '{agent.id}' of crew '{crew.name}': {refusal}{whose}") from refusal
            for fault in faults_for_agent(crew, agent, model, self._providers):  # --model may name another one
                whose = "" if is_new else _run_note(run)
                raise UsageError(f"agent '{agent.id}' of crew '{crew.name}': {fault.message}; {fault.fix}{whose}")

    def require_named(self, crew: CrewDefinition, run: str, *, is_new: bool) -> None:
        """Refuses a crew with an agent that has no model."""
        given = self._resources.models_for(run)
        for agent in crew.agents:
            if given.as_called(agent).primary is None and not given.has(""):
                how = NO_MODEL if is_new else f"{NO_MODEL_NOW}{_run_note(run)}"
                raise UsageError(f"agent '{agent.id}' of crew '{crew.name}' has no model; {how}")

    def costs(self, run: str) -> CostOf:
        """The costs of the calls of a run."""
        return partial(self._cost_of, self._resources.models_for(run))

    def _cost_of(self, given: GivenModels, agent: AgentDefinition, usage: Usage) -> int | None:
        """The cost by the agent's own prices, those of interlock.toml, or the bundled table; None if it is unknown.

        Scripts and models of the host report their own cost. Without a report a script costs 0, and the cost of a
        model of the host is unknown.
        """
        agent = given.as_called(agent)
        if agent.has_prices:
            return cost_of(agent, usage)
        provider = agent.primary.provider if agent.primary is not None else ""
        if given.has(provider):
            return 0 if given.is_script(provider) else None
        prices = self._prices(provider)
        if prices is not None:
            return cost_at(prices, usage)
        if agent.primary is None or provider in FREE_PROVIDERS:
            return 0
        return table_cost(agent.primary, usage, cached_for_1h=agent.cache_setting == "1h")

    def _prices(self, provider: str) -> Prices | None:
        settings = self._providers.get(provider)
        return settings.prices if settings is not None else None

    def name_for(self, agent: AgentDefinition, run: str) -> str:
        """The model that is called for an agent; empty if a script or the host replies."""
        given = self._resources.models_for(run)
        agent = given.as_called(agent)
        if agent.primary is None or agent.primary.provider == "scripted" or given.has(agent.primary.provider):
            return ""
        return agent.primary.name

    def server_for(self, agent: AgentDefinition, run: str) -> str:
        """The server that answers an agent; empty if a script or the host replies."""
        given = self._resources.models_for(run)
        agent = given.as_called(agent)
        if agent.primary is None or agent.primary.provider == "scripted" or given.has(agent.primary.provider):
            return ""
        return agent.primary.server

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

    def _server_models(self, crew: CrewDefinition, given: GivenModels) -> Iterator[tuple[AgentDefinition, ModelRef]]:
        """Agents with the models that a server provides."""
        for agent in map(given.as_called, crew.agents):
            for model in (agent.primary, agent.backup):
                if model is not None and not given.has(model.provider) and self._is_server_model(model):
                    yield agent, model

    def _is_server_model(self, model: ModelRef) -> bool:
        if model.provider in OTHER_PROVIDERS or model.provider == local_files.LOCAL:
            return True
        return is_served(as_served(model).provider, self._providers)

    def _require(self, model: ModelRef) -> None:
        model = as_served(model)
        if is_served(model.provider, self._providers):
            endpoint_of(model, self._providers, os.environ)
        elif model.provider == local_files.LOCAL:
            local_files.require_ready(model.model, os.environ)
        else:
            require_callable(model)
            require_key(model, os.environ)

    def _other(self, model: ModelRef) -> OtherProviderModel:
        other = self._others.get(model)
        if other is None:
            other = self._others[model] = OtherProviderModel(model, self._keys)
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
            self._scripts[file] = load_script(file, self._clock)
        return self._scripts[file]


def _run_note(run: str) -> str:
    return f" (for run '{run}')" if run else ""


def model_named(named: str, providers: Providers | None = None) -> ModelRef:
    """The model that --model names."""
    provider, model = (part.strip() for part in (named.partition(":")[0], named.partition(":")[2]))
    known = (*PROVIDERS, *(providers or {}))
    if not provider or not model:
        raise UsageError(f"--model {named!r} is not PROVIDER:NAME; write openai:NAME, or scripted:FILE")
    if provider not in known:
        advice = nearest(provider, known, f"add [providers.{provider}] to interlock.toml")
        raise UsageError(f"--model {named!r}: unknown provider '{provider}'; {advice}")
    return ModelRef(provider=provider, model=model)


def with_model(crew: CrewDefinition, named: str, providers: Providers | None = None) -> CrewDefinition:
    """The crew with one model for every agent and no backup; its runs keep that model in every process."""
    ref = model_named(named, providers)
    settings = (providers or {}).get(ref.provider)
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
