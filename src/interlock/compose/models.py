"""Which model answers for an agent: the script, what the host gave, the script that the agent names, its server, or the
model on this machine."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from interlock.adapters.models import local_files
from interlock.adapters.models.connections import Connections
from interlock.adapters.models.functions import FunctionModel, ModelFunction
from interlock.adapters.models.hiding import HidingModel
from interlock.adapters.models.known_keys import KnownKeys
from interlock.adapters.models.known_models import fault_in_price
from interlock.adapters.models.local_model import LocalModel
from interlock.adapters.models.openai_compatible import OpenAICompatibleModel
from interlock.adapters.models.other_providers import OTHER_PROVIDERS, OtherProviderModel, require_callable, require_key
from interlock.adapters.models.price_table import table_cost
from interlock.adapters.models.providers import Providers, as_served, endpoint_of, is_served
from interlock.adapters.models.scripted import ScriptedModel
from interlock.adapters.script_files import read_script
from interlock.crew.definition import Agent, Crew, ModelRef
from interlock.crew.host import FREE_PROVIDERS, PROVIDERS
from interlock.engine.budgets import cost_at, cost_of
from interlock.errors import ModelRefused, UsageError, nearest
from interlock.ports import Clock, Model

AnyModel = Model | ModelFunction

NO_MODEL = (
    "write 'model: PROVIDER:NAME' in its file or under settings, or give --model, --script FILE or, in Python, models=…"
)


class Models:
    """Every model of a process; a script is read once and played on from where it is."""

    def __init__(
        self,
        given: AnyModel | Mapping[str, AnyModel] | None,
        script: str | os.PathLike[str] | None,
        clock: Clock,
        providers: Providers | None = None,
        keys: KnownKeys | None = None,
    ) -> None:
        self._keys = keys or KnownKeys()
        self._given, self._clock = given, clock
        self._script = self._played(script) if script is not None else None
        self._scripts: dict[str, ScriptedModel] = {}
        self._providers: Providers = providers or {}
        self._clients: dict[ModelRef, OpenAICompatibleModel] = {}
        self._connections: dict[tuple[str, str], Connections] = {}
        self._others: dict[tuple[ModelRef, bool], OtherProviderModel] = {}
        self._local: dict[str, LocalModel] = {}

    def model_for(self, crew: Crew, agent: Agent) -> Model:
        if self._script is not None:
            return HidingModel(self._script, self._keys)
        provider = agent.primary.provider if agent.primary is not None else ""
        given = self._given.get(provider) if isinstance(self._given, Mapping) else self._given
        if given is not None:
            return HidingModel(given if hasattr(given, "reply") else FunctionModel(given), self._keys)
        if agent.primary is not None and provider == "scripted":
            return HidingModel(self._scripted(agent.primary.model), self._keys)
        if agent.primary is not None and is_served(as_served(agent.primary).provider, self._providers):
            return self._client(as_served(agent.primary))
        if agent.primary is not None and provider in OTHER_PROVIDERS:
            return self._other(agent.primary, by_table=not agent.has_prices and self._prices(provider) is None)
        if agent.primary is not None and provider == local_files.LOCAL:
            return self._on_this_machine(agent.primary.model)
        raise ModelRefused(f"agent '{agent.id}' of crew '{crew.name}' has no model that can be called; {NO_MODEL}")

    def require_reachable(self, crew: Crew, run: str = "") -> None:
        """Refuses a crew whose models have no address or no key here; a run of it stays as it was."""
        for agent, model in self._served(crew):
            try:
                self._require(model)
            except ModelRefused as refusal:
                raise UsageError(f"agent '{agent.id}' of crew '{crew.name}': {refusal}{_stays(run)}") from refusal

    def require_named(self, crew: Crew, run: str = "") -> None:
        """Refuses a crew with an agent for which nobody answers; a run of it stays as it was."""
        for agent in crew.agents:
            if agent.primary is None and not self._is_given(""):
                raise UsageError(f"agent '{agent.id}' of crew '{crew.name}' has no model; {NO_MODEL}{_stays(run)}")

    def cost_of(self, agent: Agent, input_tokens: int, output_tokens: int) -> int | None:
        """By the agent's own prices, those of interlock.toml, the bundled table; None if the price is unknown.

        Scripts say what they cost, which is nothing where they do not; so do models of the host, of which nothing is
        known where they do not.
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

    def name_for(self, agent: Agent) -> str:
        """The model that is called for an agent; nothing where a script or the host answers."""
        if agent.primary is None or agent.primary.provider == "scripted" or self._is_given(agent.primary.provider):
            return ""
        return agent.primary.name

    async def close(self) -> None:
        """Connections belong to the loop that opened them; the next call opens others."""
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

    def _served(self, crew: Crew) -> Iterator[tuple[Agent, ModelRef]]:
        """The models that this process asks a server for."""
        for agent in crew.agents:
            for model in (agent.primary, agent.backup):
                if model is not None and self._is_asked(model):
                    yield agent, model

    def _is_asked(self, model: ModelRef) -> bool:
        """Whether a server is asked for it, and not a script or what the host gave."""
        if self._is_given(model.provider):
            return False
        if model.provider in OTHER_PROVIDERS or model.provider == local_files.LOCAL:
            return True
        return is_served(as_served(model).provider, self._providers)

    def _is_given(self, provider: str) -> bool:
        """Whether the script or the host answers for it."""
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

    def _on_this_machine(self, name: str) -> LocalModel:
        if name not in self._local:
            self._local[name] = LocalModel(name, local_files.require_ready(name, os.environ), self._keys)
        return self._local[name]

    def _scripted(self, file: str) -> ScriptedModel:
        if file not in self._scripts:
            self._scripts[file] = self._played(file)
        return self._scripts[file]

    def _played(self, file: str | os.PathLike[str]) -> ScriptedModel:
        return ScriptedModel(read_script(Path(file)), clock=self._clock)


def _stays(run: str) -> str:
    return f"; run '{run}' stays as it was" if run else ""


def with_model(crew: Crew, named: str, providers: Providers | None = None) -> Crew:
    """The crew with one model for every agent and no backup; a run of it goes on with that model, wherever it does."""
    provider, model = (part.strip() for part in (named.partition(":")[0], named.partition(":")[2]))
    known = (*PROVIDERS, *(providers or {}))
    if not provider or not model:
        raise UsageError(f"--model {named!r} is not a provider and a name; write openai:NAME, or scripted:FILE")
    if provider not in known:
        advice = nearest(provider, known, f"add [providers.{provider}] to interlock.toml")
        raise UsageError(f"--model {named!r}: unknown provider '{provider}'; {advice}")
    ref = ModelRef(provider=provider, model=model)
    settings = (providers or {}).get(provider)
    fault = fault_in_price(crew, ref, has_prices=settings is not None and settings.prices is not None)
    if fault:
        raise UsageError(f"--model {named!r}: {fault}")
    return _with(crew, ref)


def _with(crew: Crew, model: ModelRef) -> Crew:
    agents = tuple(msgspec.structs.replace(agent, primary=model, backup=None) for agent in crew.agents)
    called = {
        name: msgspec.structs.replace(sub, crew=_with(sub.crew, model)) if sub.crew is not None else sub
        for name, sub in crew.sub_crews.items()
    }
    return msgspec.structs.replace(crew, agents=agents, sub_crews=called)
