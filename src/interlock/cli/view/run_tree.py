"""A run and its sub-crews, as lines for people and as values for programs."""

from collections.abc import Iterator
from typing import Any

import click

from interlock.cli.crew_argument import safe_line
from interlock.cli.view.columns import USAGE_HEADS, align_columns, usage_cells
from interlock.cli.view.transcript import STEP, TranscriptLine
from interlock.compose.upkeep.run_trees import Member, Tree
from interlock.engine.events import Entry, Usage
from interlock.engine.to_plain import to_plain
from interlock.ids import RESERVED_IDS, full_name


def member_name(member: Member) -> str:
    """The path of the run, or the crew's name for the root."""
    return "/".join(member.path) or member.row.crew


def run_lines(tree: Tree) -> Iterator[str]:
    """Each run below its caller, with its status."""
    depths = _depths(tree)
    rows = [
        (STEP * depth + safe_line(member_name(member)), member.row.status, safe_line(member.row.reason), member.row.run)
        for member, depth in zip(tree.members, depths, strict=True)
    ]
    return align_columns(rows, 4)


def _depths(tree: Tree) -> list[int]:
    top = len(tree.members[0].path)
    return [len(member.path) - top for member in tree.members]


def transcript_lines(tree: Tree) -> Iterator[TranscriptLine]:
    """The transcript; turns of a sub-crew appear, indented, where it was called."""
    members = {member.row.run: (member, depth) for member, depth in zip(tree.members, _depths(tree), strict=True)}
    ahead: list[tuple[Entry | str, Member, int]] = _pending_entries(*members[tree.members[0].row.run])
    while ahead:
        said, member, depth = ahead.pop()
        if isinstance(said, str):
            ahead += _pending_entries(*members[said])
        else:
            yield from _entry_lines(said, member, depth)


def _pending_entries(member: Member, depth: int) -> list[tuple[Entry | str, Member, int]]:
    return [(said, member, depth) for said in reversed(member.said)]


def _entry_lines(entry: Entry, member: Member, depth: int) -> Iterator[TranscriptLine]:
    is_agent = depth and entry.author not in RESERVED_IDS
    author = full_name(member.path, entry.author) if is_agent else entry.author
    yield TranscriptLine("speaker", f"{STEP * depth}{safe_line(author)}:")
    yield from (TranscriptLine("said", f"{STEP * depth}  {safe_line(line)}") for line in entry.text.splitlines())


class OpenWait:
    """A wait of a run in the tree, and the command that answers it."""

    def __init__(self, tree: Tree, member: Member, token: str, agent: str, reason: str, *, alone: bool) -> None:
        self.run, self.token, self.reason = member.row.run, token, reason
        self.agent = full_name(member.path, agent)
        which = "" if alone else f" --token {token}"
        self.command = f"interlock resume {tree.members[0].row.run}{which} --input TEXT"

    @property
    def line(self) -> str:
        return f"{self.agent} waits ({self.reason}): {self.command}"


def open_waits(tree: Tree) -> list[OpenWait]:
    """The waits of all runs. The only wait of a paused run needs no token in its command."""
    waits = [(member, wait) for member in tree.members for wait in member.waits]
    alone = len(waits) == 1 and tree.members[0].row.status == "paused"
    return [OpenWait(tree, member, wait.token, wait.agent, wait.reason, alone=alone) for member, wait in waits]


def print_tree_usage(tree: Tree) -> None:
    """Print the usage of each crew without its sub-crews, by agent, and the total."""
    rows: list[tuple[str, ...]] = [("crew", "agent", *USAGE_HEADS)]
    agents = agent_usage_by_crew(tree)
    for name, usage in usage_by_crew(tree).items():
        rows.append((safe_line(name), "", *usage_cells(usage)))
        rows += [("", safe_line(agent), *usage_cells(used)) for agent, used in agents.get(name, {}).items()]
    for n, line in enumerate(align_columns([*rows, ("all", "", *usage_cells(tree.total))], 2)):
        click.secho(line, dim=n == 0)


def agent_usage_by_crew(tree: Tree) -> dict[str, dict[str, Usage]]:
    crews: dict[str, dict[str, Usage]] = {}
    for member in tree.members:
        agents = crews.setdefault(member_name(member), {})
        for agent, usage in member.by_agent.items():
            agents[agent] = agents.get(agent, Usage()) + usage
    return crews


def usage_by_crew(tree: Tree) -> dict[str, Usage]:
    """Usage by the path of the crew, summed over its runs."""
    used: dict[str, Usage] = {}
    for member in tree.members:
        name = member_name(member)
        used[name] = used.get(name, Usage()) + member.own
        if member.elsewhere != Usage():  # calls that a fork has reused
            kept = f"{name}, called by {member.row.continues}"
            used[kept] = used.get(kept, Usage()) + member.elsewhere
    return used


def as_values(tree: Tree) -> dict[str, Any]:
    """For `--json`: the runs, the open waits, and the usage of each crew."""
    return {
        "runs": [
            {
                "run": member.row.run,
                "crew": member.row.crew,
                "path": list(member.path),
                "status": member.row.status,
                "reason": member.row.reason,
                "people": list(member.people),
                "usage": to_plain(member.own),
            }
            for member in tree.members
        ],
        "waits": [vars(wait) for wait in open_waits(tree)],
        "usage_by_crew": {name: to_plain(usage) for name, usage in usage_by_crew(tree).items()},
        "usage_of_all": to_plain(tree.total),
    }
