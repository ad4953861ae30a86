"""Rules about groups and settings: members exist, and limits fit each other."""

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.keys import STRICT_SETTINGS
from interlock.crew.nodes import Path


def groups_have_members(s: CheckSubject) -> None:
    members = (*s.ids, *s.crew.sub_crews)
    for group in s.crew.groups.values():
        path = _group_path(s, group.name)
        key = "parallel_targets" if group.unnamed else "agents"
        if not group.agents and s.is_written(path, key):
            s.add_at((*path, key), "empty-group", f"group '{group.name}' has no members", "list its agents")
        for n, member in enumerate(group.agents):
            if member not in members:
                s.report_unknown_agent((*path, key, n), "member", member, also=tuple(s.crew.sub_crews))
            elif member in group.agents[:n]:
                s.add_at(
                    (*path, key, n),
                    "bad-value",
                    f"'{member}' is a member of '{group.name}' twice",
                    "remove one",
                )
        if group.next_agent and group.next_agent not in s.ids:
            s.report_unknown_agent((*path, "next_agent"), "next_agent", group.next_agent)


def _group_path(s: CheckSubject, name: str) -> Path:
    if not s.crew.groups[name].unnamed:
        return ("routing", "parallel_groups", name)
    paths = (path for _, route, path in s.routes() if route.target == name)
    return next(
        paths, ("routing", "parallel_groups", name)
    )  # a crew built in Python may have a group that no route names


def groups_end_before_the_run(s: CheckSubject) -> None:
    limit = s.crew.settings.timeout_seconds
    for group in s.crew.groups.values():
        if group.timeout_seconds is not None and group.timeout_seconds > limit:
            s.add_at(
                (*_group_path(s, group.name), "timeout_seconds"),
                "timeout-beyond-run",
                f"group '{group.name}' may take {group.timeout_seconds:g} s, the whole run only {limit:g} s",
                "lower it, or raise settings.timeout_seconds",
            )
    default = s.crew.settings.parallel_timeout_seconds
    relied_on = any(group.timeout_seconds is None for group in s.crew.groups.values())
    if relied_on and default > limit and s.is_written(("settings",), "parallel_timeout_seconds"):
        s.add_at(
            ("settings", "parallel_timeout_seconds"),
            "timeout-beyond-run",
            f"groups may take {default:g} s, the whole run only {limit:g} s",
            "lower it, or raise timeout_seconds",
        )


def strict_settings_are_written_out(s: CheckSubject) -> None:
    if s.crew.settings.config_mode != "strict":
        return
    for name in STRICT_SETTINGS:
        if not s.is_written(("settings",), name):
            s.add_at(
                ("settings", name),
                "missing-setting",
                f"config_mode is strict, but settings.{name} is missing",
                s.source.fix(
                    f"add '{name}:', or use config_mode: permissive",
                    f'add \'{name}\' to settings, or write "config_mode": "permissive" there',
                ),
            )
