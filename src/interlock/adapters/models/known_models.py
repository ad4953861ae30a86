"""The host's facts about the models of a crew: can they be called, and what do they cost."""

import os
from collections.abc import Iterable

import msgspec

from interlock.adapters.config.extras import install_line
from interlock.adapters.models.model_features import faults_for_agent
from interlock.adapters.models.openai.providers import (
    Providers,
    ProviderSettings,
    ability_of,
    as_served,
    fault_in_listing,
)
from interlock.adapters.models.openai.server_addresses import fault_in_address
from interlock.adapters.models.price_table import has_table, is_priced
from interlock.adapters.models.pydantic_ai.other_providers import install_command
from interlock.crew.checks.models import has_cost_limit, models_of
from interlock.crew.definition import AgentDefinition, CrewDefinition, ModelRef
from interlock.crew.host import FREE_PROVIDERS, Host, SettingFault


def with_model_facts(crew: CrewDefinition, host: Host) -> Host:
    """The host, with the facts that checking this crew needs."""
    models = dict.fromkeys(model for agent in crew.agents for _, model in models_of(agent))
    commands = {
        model.provider: install_command(model.provider) for model in models if model.provider not in host.providers
    }
    addresses = {model.provider_url: fault_in_address(model.provider_url) for model in models if model.provider_url}
    bad = {url: fault for url, fault in addresses.items() if fault}
    settings = _settings_of(host)
    abilities = {model: ability_of(model, settings, os.environ) for model in models if model.provider_url not in bad}
    return msgspec.structs.replace(
        host,
        installs={**host.installs, **{provider: command for provider, command in commands.items() if command}},
        bad_addresses=bad,
        unlisted_addresses=_faults_in_listing(models, settings, bad),
        unconstrained=tuple(model for model, ability in abilities.items() if not ability.constrains),
        unconstrained_with_tools=tuple(m for m, ability in abilities.items() if not ability.constrains_with_tools),
        setting_faults={agent.id: _faults_of(crew, agent, settings, bad) for agent in crew.agents},
        priced_models=(*host.priced_models, *_models_with_price(crew, host)),
        has_prices=host.has_prices or has_table(),
        table_install="" if has_table() else install_line("llm"),
    )


def _faults_of(
    crew: CrewDefinition, agent: AgentDefinition, settings: Providers, bad: dict[str, str]
) -> tuple[SettingFault, ...]:
    models = [model for _, model in models_of(agent) if model.provider_url not in bad]
    return tuple(dict.fromkeys(each for model in models for each in faults_for_agent(crew, agent, model, settings)))


def _settings_of(host: Host) -> Providers:
    return {
        name: ProviderSettings(
            url=facts.url,
            hosts=facts.hosts,
            api=facts.api,
            constrains=facts.constrains,
            constrains_with_tools=facts.constrains_with_tools,
        )
        for name, facts in host.provider_facts.items()
    }


def _faults_in_listing(models: Iterable[ModelRef], settings: Providers, bad: dict[str, str]) -> dict[str, str]:
    asked = [model for model in models if model.provider_url and model.provider_url not in bad]
    faults = {model.server: fault_in_listing(as_served(model), settings, os.environ) for model in asked}
    return {server: fault for server, fault in faults.items() if fault}


def _models_with_price(crew: CrewDefinition, host: Host) -> list[str]:
    """The models with known prices, of sub-crews too, since limits apply to them. Read only if there is a limit."""
    crews = crew.whole_tree()
    if not any(has_cost_limit(each) for each in crews):
        return []
    models = dict.fromkeys(model for each in crews for agent in each.agents for _, model in models_of(agent))
    priced = {name: facts.has_prices for name, facts in host.provider_facts.items()}
    return [model.at_address for model in models if _has_price(model, has_prices=priced.get(model.provider, False))]


def _has_price(model: ModelRef, *, has_prices: bool) -> bool:
    """True if the price is known; `has_prices` tells that interlock.toml has prices of its provider."""
    return model.provider in FREE_PROVIDERS or has_prices or is_priced(model)


def fault_in_price(crew: CrewDefinition, model: ModelRef, *, has_prices: bool) -> str:
    """The reason why a crew with a cost limit cannot use this model for all agents, as in `check`; empty if it can."""
    crews = crew.whole_tree()
    if crew.version == "1.0" or not has_table() or _has_price(model, has_prices=has_prices):
        return ""
    if not any(map(has_cost_limit, crews)) or all(agent.has_prices for each in crews for agent in each.agents):
        return ""
    return (
        f"the crew '{crew.name}' limits its cost, but the price of this model is unknown; write "
        f"input_token_price_per_million and output_token_price_per_million under [providers.{model.provider}] in "
        "interlock.toml (0 is free)"
    )
