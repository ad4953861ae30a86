"""A run that this process has claimed, and what it must know of a run to drive it."""

from collections.abc import Sequence
from typing import NamedTuple

from interlock.errors import HostLacks
from interlock.ports import Record, RunFormat, RunRow


class RunInBatch(NamedTuple):
    """A run that was claimed in a batch: its epoch, whether its owner died, its row and records once they were read.

    They stay true while it is not driven: only its owner may append.
    """

    epoch: int
    owner_died: bool
    read: tuple[RunRow, Sequence[Record]] | None = None


def require_known(row: RunRow, knows: RunFormat) -> None:
    """`HostLacks` if a newer version began the run: this one would take its journal for damaged, or misread it."""
    if not knows.covers(row.run_format):
        raise HostLacks(row.run, [f"newer version of Interlock: {row.run_format}"])
