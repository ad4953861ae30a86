"""Checks the rules of [approvals] against the tools of the host: a rule about no tool would protect nothing."""

from collections.abc import Collection, Iterator
from pathlib import Path

from interlock.adapters.config.approval_settings import ApprovalSettings
from interlock.approvals.patterns import CallPattern
from interlock.crew.host import BUILT_IN_TOOLS
from interlock.errors import UsageError, nearest
from interlock.runtime.calls.bus_tools import BUS_TOOLS


def require_known_tools(
    settings: ApprovalSettings, file: Path | None, tools: Collection[str], unstarted_servers: Collection[str]
) -> None:
    """Refuses a rule that names no tool. Of an MCP server that is not started only the prefix of its tools is known."""
    known = (*tools, *BUS_TOOLS)
    for key, pattern in _rules(settings):
        if any(map(pattern.is_about, known)) or any(_may_be_of(pattern, server) for server in unstarted_servers):
            continue
        where = f"{file}:{settings.lines.get(pattern.text, 1)}: approvals.{key}"
        if pattern.tool in BUILT_IN_TOOLS:
            raise UsageError(f"{where}: '{pattern.tool}' is built in, and no rule can be about it; remove the rule")
        advice = nearest(pattern.tool, known, f"the tools are {', '.join(sorted(known)[:20])}")
        raise UsageError(f"{where}: there is no tool '{pattern.tool}'; {advice}")


def _rules(settings: ApprovalSettings) -> Iterator[tuple[str, CallPattern]]:
    for key in ("deny", "ask", "allow"):
        for pattern in getattr(settings.rules, key):
            yield key, pattern


def _may_be_of(pattern: CallPattern, server: str) -> bool:
    """Whether a tool of the server may match: names of its tools begin with the name of the server."""
    literal, star, _ = pattern.tool.partition("*")
    prefix = f"{server}_"
    return literal.startswith(prefix) or (bool(star) and prefix.startswith(literal))
