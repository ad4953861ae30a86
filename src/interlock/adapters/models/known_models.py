"""What this host knows of the models that a crew names: whether they can be asked, and what they cost."""

import msgspec

from interlock.adapters.models.other_providers import install_command
from interlock.adapters.models.price_table import has_table, is_priced
from interlock.adapters.models.providers import fault_in_address
from interlock.crew.checks.models import cost_budget_of, models_of
from interlock.crew.definition import Crew
from interlock.crew.host import Host


def knowing_models_of(crew: Crew, host: Host) -> Host:
    """The host, with what checking this crew needs to know; prices are looked up only where there is a budget."""
    models = dict.fromkeys(model for agent in crew.agents for _, model in models_of(agent))
    commands = {
        model.provider: install_command(model.provider) for model in models if model.provider not in host.providers
    }
    addresses = {model.provider_url: fault_in_address(model.provider_url) for model in models if model.provider_url}
    limited = [agent for agent in crew.agents if not agent.has_prices and cost_budget_of(crew, agent)]
    unsure = dict.fromkeys(model for agent in limited for _, model in models_of(agent))
    return msgspec.structs.replace(
        host,
        installs={**host.installs, **{provider: command for provider, command in commands.items() if command}},
        bad_addresses={url: fault for url, fault in addresses.items() if fault},
        priced_models=(*host.priced_models, *(model.name for model in unsure if is_priced(model))),
        has_prices=host.has_prices or has_table(),
    )
