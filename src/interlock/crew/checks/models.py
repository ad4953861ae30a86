"""Rules about models: their clients, keys and addresses are here, and what is limited in dollars has a price."""

from collections.abc import Iterator

from interlock.crew.checks.agents import provider_path
from interlock.crew.checks.subject import Subject
from interlock.crew.definition import Agent, Crew, ModelRef, SubCrew
from interlock.crew.problem import Severity

_WINDOWS = ("call", "minute", "hour", "day", "run")


def models_of(agent: Agent) -> Iterator[tuple[str, ModelRef]]:
    for key, model in (("primary", agent.primary), ("backup", agent.backup)):
        if model is not None and model.provider and model.model:
            yield key, model


def agents_have_models(s: Subject) -> None:
    """One warning for the crew: it may be run with --model or --script. Without those no run of it begins."""
    silent = [agent.id for agent in s.crew.agents if agent.primary is None and not _is_unread(s, agent.id)]
    if silent and s.host.needs_models:
        s.at_agent(
            silent[0],
            ("model",),
            "no-model",
            f"no model is set for {', '.join(map(repr, silent))}: a run would be refused",
            "write 'model: PROVIDER:NAME' under settings in crew.yaml, or run it with --model or --script",
            Severity.WARNING,
        )


def _is_unread(s: Subject, agent: str) -> bool:
    """Whether a model was written that could not be read, which is reported as such."""
    return agent in s.source.unclear or any(s.source.was_given(agent, key) for key in ("model", "primary", "provider"))


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
                    f"install it with: {command}",
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
            f"{variable} is not set; {agents} cannot call {model.provider} without it",
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


def addresses_are_listed(s: Subject) -> None:
    """A warning: a crew may be checked where it will never run, and scripts ask no server."""
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            fault = s.host.unlisted_addresses.get(model.server) if model.provider_url else None
            if fault:
                wrong, _, fix = fault.partition("; ")
                path = (*provider_path(s, agent.id, key)[:-1], "provider_url")
                s.at_agent(agent.id, path, "unlisted-host", wrong, fix, Severity.WARNING)


def cost_budgets_have_prices(s: Subject) -> None:
    """Without a table nobody can say whether there is a price; old files were never asked for one."""
    for agent in s.crew.agents:
        limit = cost_budget_of(s.crew, agent)
        for key, model in _models_without_price(s, agent)[:1] if limit else ():
            message = f"{limit} applies to '{agent.id}', but the price of {model.name} is unknown"
            fix, severity = _where_prices_come_from(s), _severity_of_missing_price(s)
            s.at_agent(agent.id, provider_path(s, agent.id, key), "missing-price", message, fix, severity)


def cost_budgets_have_prices_below(s: Subject) -> None:
    """Limits of a crew hold for the crews that it calls, and a crew's own are reported where it is read."""
    for name, sub in s.crew.sub_crews.items():
        limit = _limit_of(s.crew) or ("max_cost_per_run" if sub.settings.max_cost_per_run is not None else "")
        for inner, agent, model in _models_below_without_price(s, sub) if limit else ():
            whose = f"'{agent.id}' of the sub-crew '{inner.name}'"
            message = f"{limit} applies to {whose}, but the price of {model.name} is unknown"
            fix, severity = _where_prices_come_from(s), _severity_of_missing_price(s)
            s.at(("sub_crews", name), "missing-price", message, fix, severity)


def _models_below_without_price(s: Subject, sub: SubCrew) -> list[tuple[Crew, Agent, ModelRef]]:
    """One model of each agent below that no limit of its own crew is about."""
    crews = sub.crew.whole_tree() if sub.crew is not None else []
    agents = [(inner, agent) for inner in crews for agent in inner.agents if not cost_budget_of(inner, agent)]
    return [(inner, agent, model) for inner, agent in agents for _, model in _models_without_price(s, agent)[:1]]


def _models_without_price(s: Subject, agent: Agent) -> list[tuple[str, ModelRef]]:
    if agent.has_prices:
        return []
    return [(key, model) for key, model in models_of(agent) if model.at_address not in s.host.priced_models]


def _severity_of_missing_price(s: Subject) -> Severity:
    return Severity.ERROR if s.host.has_prices and s.crew.version != "1.0" else Severity.WARNING


def has_cost_limit(crew: Crew) -> bool:
    """Whether something that this crew spends is limited in dollars."""
    capped = any(sub.settings.max_cost_per_run is not None for sub in crew.sub_crews.values())
    return capped or any(cost_budget_of(crew, agent) for agent in crew.agents)


def cost_budget_of(crew: Crew, agent: Agent) -> str:
    """The first limit in dollars on what this agent spends, by name; empty if there is none."""
    limit = _limit_of(crew)
    if not limit and agent.cost_limits is not None and agent.cost_limits.max_cost_per_day_usd is not None:
        limit = "max_cost_per_day_usd"
    return limit


def _limit_of(crew: Crew) -> str:
    """The first limit in dollars on the whole crew, by name."""
    names = [f"max_cost_per_{window}" for window in _WINDOWS]
    return next((name for name in names if getattr(crew.settings, name) is not None), "")


def _where_prices_come_from(s: Subject) -> str:
    write = (
        "write input_token_price_per_million and output_token_price_per_million under its cost_limits, "
        "or under [providers.<id>] in interlock.toml (0 is free)"
    )
    return write if s.host.has_prices else f"{write}, or install a table of prices with: {s.host.table_install}"
