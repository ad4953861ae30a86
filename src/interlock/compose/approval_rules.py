"""Checks the rules of [approvals] against the tools of the host and of its crews.

Rule: a rule about no tool is refused, because it would protect nothing. Tools of every crew that the process was given
count: one file of the host may have rules for several crews.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from interlock.adapters.config.approval_settings import ApprovalSettings
from interlock.adapters.config.host_file import HostSettings, host_of
from interlock.adapters.tools.mcp_tools import name_for_models
from interlock.approvals.patterns import CallPattern
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import BUILT_IN_TOOLS
from interlock.crew.nodes import SourceLocation
from interlock.crew.problem import Problem, Problems
from interlock.errors import UsageError, nearest
from interlock.runtime.calls.bus_tools import BUS_TOOLS


class RuleFault(NamedTuple):
    """A rule that is about no tool: its line and list, what is wrong, and what to do."""

    line: int
    key: str
    what: str
    advice: str

    def sentence(self, file: Path | None) -> str:
        return f"{file}:{self.line}: approvals.{self.key}: {self.what}; {self.advice}"


def rule_faults(
    settings: ApprovalSettings, tools: Collection[str], unstarted_servers: Collection[str]
) -> Iterator[RuleFault]:
    """The rules that name no tool. Of an MCP server that is not started only the prefix of its tools is known."""
    known = (*tools, *BUS_TOOLS)
    for key, pattern in _rules(settings):
        if any(map(pattern.is_about, known)) or any(_may_be_of(pattern, server) for server in unstarted_servers):
            continue
        line = settings.lines.get(pattern.text, 1)
        if pattern.tool in BUILT_IN_TOOLS:
            what = f"'{pattern.tool}' is built in, and no rule can be about it"
            yield RuleFault(line, key, what, "remove the rule")
            continue
        advice = "correct it; rules about tools of another crew belong in a file of its own, see --config"
        yield RuleFault(line, key, f"there is no tool '{pattern.tool}'", nearest(pattern.tool, known, advice))


def require_known_tools(
    settings: ApprovalSettings, file: Path | None, tools: Collection[str], unstarted_servers: Collection[str]
) -> None:
    """Refuses the first rule that is about no tool."""
    for fault in rule_faults(settings, tools, unstarted_servers):
        raise UsageError(fault.sentence(file))


def rule_problems(settings: HostSettings, crew: CrewDefinition, functions: Collection[str]) -> tuple[Problem, ...]:
    """The same faults as problems of a check: nothing is started. `functions` came with the crew."""
    host, found = host_of(settings), Problems()
    named = [tool for each in crew.whole_tree() for agent in each.agents for tool in agent.tools]
    listed = [name_for_models(server, tool) for server, tools in host.mcp_tools.items() for tool in tools]
    unstarted = [server for server in host.mcp_servers if server not in host.mcp_tools]
    for fault in rule_faults(settings.approvals, (*host.tools, *functions, *named, *listed), unstarted):
        found.add(
            "unknown-tool",
            fault.what,
            place=SourceLocation(str(settings.file), fault.line, 1),
            path=("approvals", fault.key),
            fix=fault.advice,
        )
    return tuple(found.found)


def _rules(settings: ApprovalSettings) -> Iterator[tuple[str, CallPattern]]:
    for key in ("deny", "ask", "allow"):
        for pattern in getattr(settings.rules, key):
            yield key, pattern


def _may_be_of(pattern: CallPattern, server: str) -> bool:
    """Whether a tool of the server may match: names of its tools begin with the name of the server."""
    literal, star, _ = pattern.tool.partition("*")
    prefix = f"{server}_"
    return literal.startswith(prefix) or (bool(star) and prefix.startswith(literal))
