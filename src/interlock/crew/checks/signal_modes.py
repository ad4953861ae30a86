"""Rules about how agents emit signals: the mode is supported, and every setting has an effect."""

from interlock.crew.checks.agents import provider_path
from interlock.crew.checks.models import models_of
from interlock.crew.checks.subject import CheckSubject
from interlock.crew.definition import AgentDefinition, ModelRef
from interlock.crew.host import PROVIDERS
from interlock.crew.problem import Severity

_MODE = ("settings", "signal_mode")


def _mode(s: CheckSubject, mode: str) -> str:
    return s.source.fix(f"signal_mode: {mode}", f'"signal_mode": "{mode}"')


def signal_modes_have_marks(s: CheckSubject) -> None:
    """A crew in which no agent routes by signals has nothing to constrain."""
    mode = s.crew.settings.signal_mode
    if mode != "text" and s.crew.agents and not any(_has_steering_marks(s, agent) for agent in s.crew.agents):
        s.add_at(
            _MODE,
            "misplaced-key",
            f"signal_mode is {mode}, but no agent routes a signal",
            f"route a signal {s.source.fix('under routing.signals', 'in on={…} of an agent')}, or remove it",
            Severity.WARNING,
        )


def only_texts_are_cut(s: CheckSubject) -> None:
    if s.crew.settings.cut_on_signal and s.crew.settings.signal_mode == "tool":
        s.add_at(
            ("settings", "cut_on_signal"),
            "misplaced-key",
            "'cut_on_signal' has no effect where signal_mode is tool: marks in text are ignored",
            f"remove it, or use {_mode(s, 'text')}",
            Severity.WARNING,
        )


def agents_under_constraint_rely_on_marks(s: CheckSubject) -> None:
    """A reply that always ends in a signal never uses the route for replies without one."""
    if s.crew.settings.signal_mode != "constrained":
        return
    for agent in s.crew.agents:
        for key in _ways_without_signal(s, agent) if _has_steering_marks(s, agent) else ():
            s.add_at(
                ("routing", *key),
                "misplaced-key",
                f"replies of agent '{agent.id}' always end in a signal, so '{key[0]}' is never used",
                f"remove it, or use {_mode(s, 'text')}",
                Severity.WARNING,
            )


def models_under_constraint_support_it(s: CheckSubject) -> None:
    """An error where the model is known to be unable to combine constrained replies and tools."""
    if s.crew.settings.signal_mode != "constrained":
        return
    for agent in s.crew.agents:
        for key, model in models_of(agent) if _has_steering_marks(s, agent) else ():
            if model.provider in (*PROVIDERS, *s.host.providers):
                _report_unconstrained(s, agent, key, model)


def _report_unconstrained(s: CheckSubject, agent: AgentDefinition, key: str, model: ModelRef) -> None:
    if model in s.host.unconstrained:
        why, severity = f"{model.name} is not known to constrain its replies", Severity.WARNING
        fix = f"use another signal_mode, or write constrains under [providers.{model.provider}] in interlock.toml"
    elif model in s.host.unconstrained_with_tools and _has_tools(s, agent):
        why = f"{model.name} cannot call tools in a constrained reply, and the agent has tools"
        severity = Severity.WARNING if s.crew.version == "1.0" else Severity.ERROR
        fix = (
            f"use {_mode(s, 'tool')} or text, remove its tools, or write constrains_with_tools = true under "
            f"[providers.{model.provider}] in interlock.toml if its server can do both"
        )
    else:
        return
    path = provider_path(s, agent.id, key)
    s.add_at_agent(
        agent.id, path, "not-constrained", f"signal_mode is constrained for '{agent.id}', but {why}", fix, severity
    )


def _has_tools(s: CheckSubject, agent: AgentDefinition) -> bool:
    """True if the agent has tools of its own, or delegates by tools."""
    tree = s.crew.delegation
    return bool(agent.tools) or (tree is not None and agent.id in tree.children)


def _ways_without_signal(s: CheckSubject, agent: AgentDefinition) -> list[tuple[str, ...]]:
    waits = s.crew.behavior_of(agent.id).wait_for_signal
    found = [("agent_behaviors", agent.id, "wait_for_signal")] if waits else []
    return [*found, *([("defaults", agent.id)] if agent.id in s.crew.defaults else [])]


def emit_signal_is_for_tool_mode(s: CheckSubject) -> None:
    if s.crew.settings.signal_mode == "tool":
        return
    for agent in s.crew.agents:
        if "emit_signal" in agent.tools:
            s.add_at_agent(
                agent.id,
                ("tools", agent.tools.index("emit_signal")),
                "misplaced-key",
                f"agent '{agent.id}' cannot use 'emit_signal' where signal_mode is {s.crew.settings.signal_mode}",
                f"use {_mode(s, 'tool')}, which gives it to every agent, or remove it",
                Severity.WARNING,
            )


def _has_steering_marks(s: CheckSubject, agent: AgentDefinition) -> bool:
    return any(not route.is_tell and not route.acknowledges for route in s.crew.routes.get(agent.id, ()))
