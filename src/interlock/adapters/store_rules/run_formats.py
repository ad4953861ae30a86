"""The run format of a store: that of runs that begin. Pure functions, shared by every store."""

from collections.abc import Sequence

from interlock.ports import ProcessLoad, RunFormat


def older_processes(processes: Sequence[ProcessLoad], to: RunFormat) -> Sequence[ProcessLoad]:
    """The processes that could not drive runs of this format."""
    return [each for each in processes if not each.knows.covers(to)]


def newer_of(now: RunFormat | None, to: RunFormat) -> RunFormat:
    """The run format of a store that is raised to another one; neither of its parts gets smaller."""
    return to if now is None else RunFormat(max(now.rules, to.rules), max(now.format, to.format))
