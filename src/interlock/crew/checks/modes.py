"""Rules about how agents emit signals: what the settings ask for can be done, and nothing is written in vain."""

from interlock.crew.checks.subject import Subject
from interlock.crew.definition import Agent
from interlock.crew.problem import Severity

_MODE = ("settings", "signal_mode")


def signal_modes_have_marks(s: Subject) -> None:
    """A crew in which nobody steers by marks has nothing to hold models to."""
    mode = s.crew.settings.signal_mode
    if mode != "text" and s.crew.agents and not any(_steers(s, agent) for agent in s.crew.agents):
        s.at(
            _MODE,
            "misplaced-key",
            f"signal_mode is {mode}, and no agent has a mark that steers",
            "route a signal under routing.signals, or remove it",
            Severity.WARNING,
        )


def only_texts_are_cut(s: Subject) -> None:
    if s.crew.settings.cut_on_signal and s.crew.settings.signal_mode == "tool":
        s.at(
            ("settings", "cut_on_signal"),
            "misplaced-key",
            "'cut_on_signal' has no effect where signal_mode is tool: marks in text are ignored",
            "remove it, or use signal_mode: text",
            Severity.WARNING,
        )


def constrained_agents_rely_on_marks(s: Subject) -> None:
    """A reply that always ends in a mark never takes the way for replies without one."""
    if s.crew.settings.signal_mode != "constrained":
        return
    for agent in s.crew.agents:
        for key in _ways_without_signal(s, agent) if _steers(s, agent) else ():
            s.at(
                ("routing", *key),
                "misplaced-key",
                f"replies of agent '{agent.id}' always end in a mark, so that '{key[0]}' is never taken",
                "remove it, or use signal_mode: text",
                Severity.WARNING,
            )


def _ways_without_signal(s: Subject, agent: Agent) -> list[tuple[str, ...]]:
    waits = s.crew.behavior_of(agent.id).wait_for_signal
    found = [("agent_behaviors", agent.id, "wait_for_signal")] if waits else []
    return [*found, *([("defaults", agent.id)] if agent.id in s.crew.defaults else [])]


def emit_signal_is_for_tool_mode(s: Subject) -> None:
    if s.crew.settings.signal_mode == "tool":
        return
    for agent in s.crew.agents:
        if "emit_signal" in agent.tools:
            s.at_agent(
                agent.id,
                ("tools", agent.tools.index("emit_signal")),
                "misplaced-key",
                f"agent '{agent.id}' cannot use 'emit_signal' where signal_mode is {s.crew.settings.signal_mode}",
                "use signal_mode: tool, which gives it to every agent, or remove it",
                Severity.WARNING,
            )


def _steers(s: Subject, agent: Agent) -> bool:
    return any(not route.is_tell and not route.acknowledges for route in s.crew.routes.get(agent.id, ()))
