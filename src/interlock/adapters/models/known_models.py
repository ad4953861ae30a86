"""What this host knows of the models that a crew names: whether they can be asked, and what they cost."""

import os
from collections.abc import Iterable

import msgspec

from interlock.adapters.installing import install_line
from interlock.adapters.models.other_providers import install_command
from interlock.adapters.models.price_table import has_table, is_priced
from interlock.adapters.models.providers import Providers, ProviderSettings, ability_of, as_served, fault_in_listing
from interlock.adapters.models.server_addresses import fault_in_address
from interlock.crew.checks.models import has_cost_limit, models_of
from interlock.crew.definition import Crew, ModelRef
from interlock.crew.host import FREE_PROVIDERS, Host


def knowing_models_of(crew: Crew, host: Host) -> Host:
    """The host, with what checking this crew needs to know."""
    models = dict.fromkeys(model for agent in crew.agents for _, model in models_of(agent))
    commands = {
        model.provider: install_command(model.provider) for model in models if model.provider not in host.providers
    }
    addresses = {model.provider_url: fault_in_address(model.provider_url) for model in models if model.provider_url}
    bad = {url: fault for url, fault in addresses.items() if fault}
    settings = _settings_of(host)
    abilities = {
        model.server: ability_of(model, settings, os.environ) for model in models if model.provider_url not in bad
    }
    return msgspec.structs.replace(
        host,
        installs={**host.installs, **{provider: command for provider, command in commands.items() if command}},
        bad_addresses=bad,
        unlisted_addresses=_faults_in_listing(models, settings, bad),
        unconstrained=tuple(server for server, ability in abilities.items() if not ability.constrains),
        unconstrained_with_tools=tuple(s for s, ability in abilities.items() if not ability.constrains_with_tools),
        priced_models=(*host.priced_models, *_models_with_price(crew, host)),
        has_prices=host.has_prices or has_table(),
        table_install="" if has_table() else install_line("llm"),
    )


def _settings_of(host: Host) -> Providers:
    return {
        name: ProviderSettings(
            url=facts.url,
            hosts=facts.hosts,
            constrains=facts.constrains,
            constrains_with_tools=facts.constrains_with_tools,
        )
        for name, facts in host.provider_facts.items()
    }


def _faults_in_listing(models: Iterable[ModelRef], settings: Providers, bad: dict[str, str]) -> dict[str, str]:
    asked = [model for model in models if model.provider_url and model.provider_url not in bad]
    faults = {model.server: fault_in_listing(as_served(model), settings, os.environ) for model in asked}
    return {server: fault for server, fault in faults.items() if fault}


def _models_with_price(crew: Crew, host: Host) -> list[str]:
    """Also of crews below: limits of this one hold for them. The table is only looked into where there is a limit."""
    crews = crew.whole_tree()
    if not any(has_cost_limit(each) for each in crews):
        return []
    models = dict.fromkeys(model for each in crews for agent in each.agents for _, model in models_of(agent))
    priced = {name: facts.has_prices for name, facts in host.provider_facts.items()}
    return [model.at_address for model in models if _has_price(model, has_prices=priced.get(model.provider, False))]


def _has_price(model: ModelRef, *, has_prices: bool) -> bool:
    """`has_prices` says that interlock.toml has prices of its provider."""
    return model.provider in FREE_PROVIDERS or has_prices or is_priced(model)


def fault_in_price(crew: Crew, model: ModelRef, *, has_prices: bool) -> str:
    """Why a crew that limits its cost may not have this model for all of its agents, as at `check`; empty if it may."""
    crews = crew.whole_tree()
    if crew.version == "1.0" or not has_table() or _has_price(model, has_prices=has_prices):
        return ""
    if not any(map(has_cost_limit, crews)) or all(agent.has_prices for each in crews for agent in each.agents):
        return ""
    return (
        f"the crew '{crew.name}' limits its cost, and the price of this model is unknown; write "
        f"input_token_price_per_million and output_token_price_per_million under [providers.{model.provider}] in "
        "interlock.toml (0 is free)"
    )
