"""Rules about models: their clients, keys and addresses are available, and models with a cost limit have a price."""

from collections.abc import Iterator

from interlock.crew.checks.agents import provider_path
from interlock.crew.checks.subject import CheckSubject
from interlock.crew.definition import AgentDefinition, CrewDefinition, ModelRef, SubCrewDefinition
from interlock.crew.problem import Severity

_WINDOWS = ("call", "minute", "hour", "day", "run")


def models_of(agent: AgentDefinition) -> Iterator[tuple[str, ModelRef]]:
    for key, model in (("primary", agent.primary), ("backup", agent.backup)):
        if model is not None and model.provider and model.model:
            yield key, model


def agents_have_models(s: CheckSubject) -> None:
    """One warning per crew: it may be run with --model or --script. Without those no run can start."""
    silent = [agent.id for agent in s.crew.agents if agent.primary is None and not _has_unreadable_model(s, agent.id)]
    if silent and s.host.needs_models:
        s.add_at_agent(
            silent[0],
            ("model",),
            "no-model",
            f"no model is set for {', '.join(map(repr, silent))}: a run would be refused",
            s.source.fix(
                "write 'model: PROVIDER:NAME' under settings in crew.yaml, or run it with --model or --script",
                'write model="PROVIDER:NAME" for each agent, or "model" in the crew\'s settings',
            ),
            Severity.WARNING,
        )


def _has_unreadable_model(s: CheckSubject, agent: str) -> bool:
    """True if a model was written but could not be read, which is reported elsewhere."""
    return agent in s.source.unclear or any(s.source.has_value(agent, key) for key in ("model", "primary", "provider"))


def providers_are_installed(s: CheckSubject) -> None:
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            command = s.host.installs.get(model.provider)
            if command:
                s.add_at_agent(
                    agent.id,
                    provider_path(s, agent.id, key),
                    "missing-package",
                    f"the client of {model.provider} is not installed",
                    f"install it with: {command}",
                    Severity.WARNING,
                )


def addresses_are_addresses(s: CheckSubject) -> None:
    """Old files may contain any address, and run without calling it."""
    severity = Severity.WARNING if s.crew.version == "1.0" else Severity.ERROR
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            fault = s.host.bad_addresses.get(model.provider_url)
            if fault:
                wrong, _, fix = fault.partition("; ")
                path = (*provider_path(s, agent.id, key)[:-1], "provider_url")
                s.add_at_agent(agent.id, path, "bad-value", f"provider_url: {wrong}", fix, severity)


def keys_are_set(s: CheckSubject) -> None:
    """One warning per variable: a crew may be checked where it never runs, and scripts need no key."""
    for variable, users in _users_of_unset_keys(s).items():
        key, agent, model = users[0]
        agents = ", ".join(dict.fromkeys(repr(user) for _, user, _ in users))
        s.add_at_agent(
            agent,
            provider_path(s, agent, key),
            "missing-api-key",
            f"{variable} is not set; {agents} cannot call {model.provider} without it",
            f"set the environment variable {variable} where the crew runs",
            Severity.WARNING,
        )


def _users_of_unset_keys(s: CheckSubject) -> dict[str, list[tuple[str, str, ModelRef]]]:
    users: dict[str, list[tuple[str, str, ModelRef]]] = {}
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            variable = s.host.unset_keys.get(model.provider)
            if variable:
                users.setdefault(variable, []).append((key, agent.id, model))
    return users


def addresses_are_listed(s: CheckSubject) -> None:
    """A warning: a crew may be checked where it never runs, and scripts call no server."""
    for agent in s.crew.agents:
        for key, model in models_of(agent):
            fault = s.host.unlisted_addresses.get(model.server) if model.provider_url else None
            if fault:
                wrong, _, fix = fault.partition("; ")
                path = (*provider_path(s, agent.id, key)[:-1], "provider_url")
                s.add_at_agent(agent.id, path, "unlisted-host", wrong, fix, Severity.WARNING)


def settings_are_taken(s: CheckSubject) -> None:
    """A setting that a model does not take would be refused in the run, or worse, would change nothing."""
    for agent in s.crew.agents:
        for fault in s.host.setting_faults.get(agent.id, ()):
            message = f"agent '{agent.id}': {fault.message}"
            s.add_at_agent(agent.id, fault.path, "unsupported-setting", message, fault.fix)


def cost_budgets_have_prices(s: CheckSubject) -> None:
    """Checked only if there is a price table; old files needed no prices."""
    for agent in s.crew.agents:
        limit = cost_budget_of(s.crew, agent)
        for key, model in _models_without_price(s, agent)[:1] if limit else ():
            message = f"{limit} applies to '{agent.id}', but the price of {model.name} is unknown"
            fix, severity = _price_fix(s), _severity_of_missing_price(s)
            s.add_at_agent(agent.id, provider_path(s, agent.id, key), "missing-price", message, fix, severity)


def cost_budgets_have_prices_below(s: CheckSubject) -> None:
    """Limits of a crew apply to its sub-crews too; a sub-crew's own limits are reported where it is read."""
    for name, sub in s.crew.sub_crews.items():
        limit = _limit_of(s.crew) or ("max_cost_per_run" if sub.settings.max_cost_per_run is not None else "")
        for inner, agent, model in _models_below_without_price(s, sub) if limit else ():
            whose = f"'{agent.id}' of the sub-crew '{inner.name}'"
            message = f"{limit} applies to {whose}, but the price of {model.name} is unknown"
            fix, severity = _price_fix(s), _severity_of_missing_price(s)
            s.add_at(("sub_crews", name), "missing-price", message, fix, severity)


def _models_below_without_price(
    s: CheckSubject, sub: SubCrewDefinition
) -> list[tuple[CrewDefinition, AgentDefinition, ModelRef]]:
    """One model without a price per agent below, if no limit of its own crew applies to it."""
    crews = sub.crew.whole_tree() if sub.crew is not None else []
    agents = [(inner, agent) for inner in crews for agent in inner.agents if not cost_budget_of(inner, agent)]
    return [(inner, agent, model) for inner, agent in agents for _, model in _models_without_price(s, agent)[:1]]


def _models_without_price(s: CheckSubject, agent: AgentDefinition) -> list[tuple[str, ModelRef]]:
    if agent.has_prices:
        return []
    return [(key, model) for key, model in models_of(agent) if model.at_address not in s.host.priced_models]


def _severity_of_missing_price(s: CheckSubject) -> Severity:
    return Severity.ERROR if s.host.has_prices and s.crew.version != "1.0" else Severity.WARNING


def has_cost_limit(crew: CrewDefinition) -> bool:
    """True if anything in this crew has a limit in dollars."""
    capped = any(sub.settings.max_cost_per_run is not None for sub in crew.sub_crews.values())
    return capped or any(cost_budget_of(crew, agent) for agent in crew.agents)


def cost_budget_of(crew: CrewDefinition, agent: AgentDefinition) -> str:
    """The name of the first limit in dollars that applies to this agent; empty if there is none."""
    limit = _limit_of(crew)
    if not limit and agent.cost_limits is not None and agent.cost_limits.max_cost_per_day_usd is not None:
        limit = "max_cost_per_day_usd"
    return limit


def _limit_of(crew: CrewDefinition) -> str:
    """The name of the first limit in dollars on the whole crew."""
    names = [f"max_cost_per_{window}" for window in _WINDOWS]
    return next((name for name in names if getattr(crew.settings, name) is not None), "")


def _price_fix(s: CheckSubject) -> str:
    write = (
        "write input_token_price_per_million and output_token_price_per_million under its cost_limits, "
        "or under [providers.<id>] in interlock.toml (0 is free)"
    )
    return write if s.host.has_prices else f"{write}, or install a price table with: {s.host.table_install}"
