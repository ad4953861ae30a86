"""Rules about models: their clients and keys are here, and what is limited in dollars has a price."""

from collections.abc import Iterator

from interlock.crew.checks.agents import provider_path
from interlock.crew.checks.subject import Subject
from interlock.crew.definition import Agent, Crew, ModelRef
from interlock.crew.problem import Severity

# Its replies say what they cost, which is nothing where they do not.
FREE = "scripted"

_WINDOWS = ("call", "minute", "hour", "day", "run")


def models_of(agent: Agent) -> Iterator[tuple[str, ModelRef]]:
    for key, model in (("primary", agent.primary), ("backup", agent.backup)):
        if model is not None and model.provider and model.model:
            yield key, model


def providers_are_installed(s: Subject) -> None:
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            command = s.host.installs.get(model.provider)
            if command:
                s.at_agent(
                    agent.id,
                    provider_path(s, agent.id, key),
                    "missing-package",
                    f"the client of {model.provider} is not installed here",
                    f"install it with {command}",
                    Severity.WARNING,
                )


def addresses_are_addresses(s: Subject) -> None:
    """Old files may hold anything there, and be run without asking anybody."""
    severity = Severity.WARNING if s.crew.version == "1.0" else Severity.ERROR
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            fault = s.host.bad_addresses.get(model.provider_url)
            if fault:
                wrong, _, fix = fault.partition("; ")
                path = (*provider_path(s, agent.id, key)[:-1], "provider_url")
                s.at_agent(agent.id, path, "bad-value", f"provider_url: {wrong}", fix, severity)


def keys_are_set(s: Subject) -> None:
    """A warning, once a variable: a crew may be checked where it will never run, and scripts need no key."""
    for variable, users in _users_of_unset_keys(s).items():
        key, agent, model = users[0]
        agents = ", ".join(dict.fromkeys(repr(user) for _, user, _ in users))
        s.at_agent(
            agent,
            provider_path(s, agent, key),
            "missing-api-key",
            f"{variable} is not set here, and {model.provider} is not asked without it for {agents}",
            f"set the environment variable {variable} where the crew runs",
            Severity.WARNING,
        )


def _users_of_unset_keys(s: Subject) -> dict[str, list[tuple[str, str, ModelRef]]]:
    users: dict[str, list[tuple[str, str, ModelRef]]] = {}
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            variable = s.host.unset_keys.get(model.provider)
            if variable:
                users.setdefault(variable, []).append((key, agent.id, model))
    return users


def cost_budgets_have_prices(s: Subject) -> None:
    """Without a table nobody can say whether there is a price; old files were never asked for one."""
    severity = Severity.ERROR if s.host.has_prices and s.crew.version != "1.0" else Severity.WARNING
    for agent in s.crew.agents:
        budget = "" if agent.has_prices else cost_budget_of(s.crew, agent)
        unpriced = [(key, model) for key, model in models_of(agent) if budget and not _is_priced(s, model)]
        for key, model in unpriced[:1]:
            s.at_agent(
                agent.id,
                provider_path(s, agent.id, key),
                "missing-price",
                f"{budget} holds for agent '{agent.id}', and what {model.provider}:{model.model} costs is not known",
                _where_prices_come_from(s),
                severity,
            )


def cost_budget_of(crew: Crew, agent: Agent) -> str:
    """The first limit in dollars on what this agent spends, by name; empty if there is none."""
    names = [f"max_cost_per_{window}" for window in _WINDOWS]
    found = [name for name in names if getattr(crew.settings, name) is not None]
    if agent.cost_limits is not None and agent.cost_limits.max_cost_per_day_usd is not None:
        found.append("max_cost_per_day_usd")
    return found[0] if found else ""


def _is_priced(s: Subject, model: ModelRef) -> bool:
    """Providers that only the host knows are the host's own, and say what they cost."""
    name = f"{model.provider}:{model.model}"
    return model.provider == FREE or name in s.host.priced_models or model.provider in s.host.providers


def _where_prices_come_from(s: Subject) -> str:
    write = "write input_token_price_per_million and output_token_price_per_million under its cost_limits (0 is free)"
    return write if s.host.has_prices else f"{write}, or install a table of prices with pip install 'interlock[llm]'"
