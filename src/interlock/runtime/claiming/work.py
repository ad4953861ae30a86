"""What a process does with the runs of its store."""

import msgspec

from interlock.ports import RunRow

# Trees of runs that one process claims, unless it is told otherwise: far more than it can have calls for.
RUNS_MAX = 10_000

# Model calls in progress at the same time, over all runs of this process.
CALLS_MAX = 1_000


class WorkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process drives, and how much of it.

    `drives` is False for a process that creates runs for others, and has orders carried out by them. Runs that are
    begun are `private` if only a command that names them may continue them; a process that `takes_private` tries those
    of dead processes once, at its start. `crews` and `organizations` are those whose runs are claimed; None means all.
    `weights` are the shares of organizations in the runs that are driven; that of others is 1.
    """

    drives: bool = True
    private: bool = False
    takes_private: bool = True
    runs_max: int = RUNS_MAX
    calls_max: int = CALLS_MAX
    crews: tuple[str, ...] | None = None
    organizations: tuple[str, ...] | None = None
    weights: dict[str, int] = {}

    def may_take(self, row: RunRow, *, to_end: bool = False) -> bool:
        """Whether this process may continue a run that no command of its own names; any process may end a private one.

        `row` is that of the root. Claims in batches follow the same rule in the store.
        """
        return (
            (self.crews is None or row.crew in self.crews)
            and (self.organizations is None or row.organization in self.organizations)
            and (self.takes_private or to_end or not row.private)
        )


DEFAULT_WORK = WorkSettings()
