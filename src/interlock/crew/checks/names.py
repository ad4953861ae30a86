"""Rules about names: every name is valid and unique."""

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.nodes import Path
from interlock.crew.problem import Severity
from interlock.ids import RESERVED_IDS, is_id


def the_entry_point_exists(s: CheckSubject) -> None:
    if s.crew.entry_point and s.crew.entry_point not in s.ids:
        s.report_unknown_agent(("entry_point",), "entry_point", s.crew.entry_point)


def there_are_agents(s: CheckSubject) -> None:
    if not s.crew.agents and s.is_written((), "agents") and not s.source.unclear:
        s.add_at(("agents",), "missing-key", "a crew needs at least one agent", "list one under agents")


def ids_are_well_formed(s: CheckSubject) -> None:
    rule = "letters, digits, '_', '-' and '.', at most 64, starting with a letter or digit"
    for agent in s.ids:
        if not is_id(agent):
            s.add_at_agent(agent, ("id",), "bad-value", f"agent id '{agent}' is not valid", f"use {rule}")
    for section, names in (
        (("routing", "parallel_groups"), s.groups_with_names),
        (("sub_crews",), list(s.crew.sub_crews)),
    ):
        for name in names:
            if not is_id(name):
                s.add_at((*section, name), "bad-value", f"name '{name}' is not valid", f"use {rule}")


def names_are_unique(s: CheckSubject) -> None:
    for group in s.groups_with_names:
        if group in s.ids:
            _report_clash(s, ("routing", "parallel_groups", group), f"'{group}' is an agent and a group")
    for name in s.crew.sub_crews:
        if name in s.ids or name in s.groups_with_names:
            other = "an agent" if name in s.ids else "a group"
            _report_clash(s, ("sub_crews", name), f"'{name}' is {other} and a sub-crew")
    for agent in s.ids:
        if agent in RESERVED_IDS:
            s.add_at_agent(
                agent,
                ("id",),
                "name-clash",
                f"'{agent}' is a reserved name",
                "rename the agent",
            )


def _report_clash(s: CheckSubject, path: Path, message: str) -> None:
    s.add_at(path, "name-clash", f"{message}; a target would be ambiguous", "rename one of them")


def spoken_names_are_unique(s: CheckSubject) -> None:
    first: dict[str, str] = {}
    for agent in s.crew.agents:
        other = first.setdefault(agent.name, agent.id)
        if other != agent.id:
            s.add_at_agent(
                agent.id,
                ("name",),
                "name-clash",
                f"agents '{other}' and '{agent.id}' are both called '{agent.name}' in conversations",
                "give one of them another name",
                Severity.WARNING,
            )
