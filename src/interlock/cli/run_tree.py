"""A run with all that it called, as lines for people and as values for programs."""

from collections.abc import Iterator
from typing import Any

import click

from interlock.cli.columns import USAGE_HEADS, aligned, usage_cells
from interlock.cli.crews import shown
from interlock.cli.transcript import STEP, Line
from interlock.compose.trees import Member, Tree
from interlock.engine.events import Entry, Usage
from interlock.engine.in_full import in_full
from interlock.ids import RESERVED_IDS, placed


def name_of(member: Member) -> str:
    """The way to it, or for the outermost run what its crew calls itself."""
    return "/".join(member.path) or member.row.crew


def run_lines(tree: Tree) -> Iterator[str]:
    """Each run under the one that called it, with how it stands."""
    depths = _depths(tree)
    rows = [
        (STEP * depth + shown(name_of(member)), member.row.status, shown(member.row.reason), member.row.run)
        for member, depth in zip(tree.members, depths, strict=True)
    ]
    return aligned(rows, 4)


def _depths(tree: Tree) -> list[int]:
    top = len(tree.members[0].path)
    return [len(member.path) - top for member in tree.members]


def said_lines(tree: Tree) -> Iterator[Line]:
    """What was said; what a crew said that was called is set in under the call."""
    members = {member.row.run: (member, depth) for member, depth in zip(tree.members, _depths(tree), strict=True)}
    ahead: list[tuple[Entry | str, Member, int]] = _ahead(*members[tree.members[0].row.run])
    while ahead:
        said, member, depth = ahead.pop()
        if isinstance(said, str):
            ahead += _ahead(*members[said])
        else:
            yield from _entry_lines(said, member, depth)


def _ahead(member: Member, depth: int) -> list[tuple[Entry | str, Member, int]]:
    return [(said, member, depth) for said in reversed(member.said)]


def _entry_lines(entry: Entry, member: Member, depth: int) -> Iterator[Line]:
    is_agent = depth and entry.author not in RESERVED_IDS
    author = placed(member.path, entry.author) if is_agent else entry.author
    yield Line("speaker", f"{STEP * depth}{shown(author)}:")
    yield from (Line("said", f"{STEP * depth}  {shown(line)}") for line in entry.text.splitlines())


class Open:
    """A wait of a run of the tree, and the command that answers it."""

    def __init__(self, tree: Tree, member: Member, token: str, agent: str, reason: str, *, alone: bool) -> None:
        self.run, self.token, self.reason = member.row.run, token, reason
        self.agent = placed(member.path, agent)
        which = "" if alone else f" --token {token}"
        self.command = f"interlock resume {tree.members[0].row.run}{which} --input TEXT"

    @property
    def line(self) -> str:
        return f"{self.agent} waits ({self.reason}): {self.command}"


def open_waits(tree: Tree) -> list[Open]:
    """Those of all runs. Where there is only one, and nothing goes on meanwhile, its token need not be named."""
    waits = [(member, wait) for member in tree.members for wait in member.waits]
    alone = len(waits) == 1 and tree.members[0].row.status == "paused"
    return [Open(tree, member, wait.token, wait.agent, wait.reason, alone=alone) for member, wait in waits]


def tell_usage(tree: Tree) -> None:
    """What each crew has cost by itself, agent by agent, and all of them together."""
    rows: list[tuple[str, ...]] = [("crew", "agent", *USAGE_HEADS)]
    agents = agents_by_crew(tree)
    for name, usage in usage_by_crew(tree).items():
        rows.append((shown(name), "", *usage_cells(usage)))
        rows += [("", shown(agent), *usage_cells(used)) for agent, used in agents.get(name, {}).items()]
    for n, line in enumerate(aligned([*rows, ("all", "", *usage_cells(tree.total))], 2)):
        click.secho(line, dim=n == 0)


def agents_by_crew(tree: Tree) -> dict[str, dict[str, Usage]]:
    crews: dict[str, dict[str, Usage]] = {}
    for member in tree.members:
        agents = crews.setdefault(name_of(member), {})
        for agent, usage in member.by_agent.items():
            agents[agent] = agents.get(agent, Usage()) + usage
    return crews


def usage_by_crew(tree: Tree) -> dict[str, Usage]:
    """By the way to the crew, however often it was called there."""
    used: dict[str, Usage] = {}
    for member in tree.members:
        name = name_of(member)
        used[name] = used.get(name, Usage()) + member.own
        if member.elsewhere != Usage():  # of a fork
            kept = f"{name}, called by {member.row.continues}"
            used[kept] = used.get(kept, Usage()) + member.elsewhere
    return used


def in_values(tree: Tree) -> dict[str, Any]:
    """For `--json`: the runs, the open waits, and what each crew has cost by itself."""
    return {
        "runs": [
            {
                "run": member.row.run,
                "crew": member.row.crew,
                "path": list(member.path),
                "status": member.row.status,
                "reason": member.row.reason,
                "people": list(member.people),
                "usage": in_full(member.own),
            }
            for member in tree.members
        ],
        "waits": [vars(wait) for wait in open_waits(tree)],
        "usage_by_crew": {name: in_full(usage) for name, usage in usage_by_crew(tree).items()},
        "usage_of_all": in_full(tree.total),
    }
