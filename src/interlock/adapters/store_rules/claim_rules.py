"""Which runs that wait for a driver a process claims, and in which order. Pure functions, shared by every store."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from interlock.ids import CHILD_MARK
from interlock.ports import ClaimRequest, RunRow, SetAside

# The status `paused` with this reason: the process that drove the run could not continue.
SET_ASIDE_REASON = "set_aside"

# How long a run that was set aside waits for its next try; twice as long after each further one.
FIRST_PAUSE_MS = 10_000
PAUSE_MAX_MS = 600_000


NOTHING_DRIVEN: Mapping[tuple[str, str], int] = {}
NO_WEIGHTS: Mapping[str, int] = {}


class WaitingRun(NamedTuple):
    """A run that could be claimed. A smaller `number` is older."""

    number: int
    run: str
    organization: str
    crew: str


def waits_for_driver(status: str, reason: str) -> bool:
    """Whether a run of this status is to be driven, if it has no owner."""
    return status == "running" or (status == "paused" and reason == SET_ASIDE_REASON)


def fits_request(row: RunRow, request: ClaimRequest) -> bool:
    """Whether a process can drive a run, as far as its row tells."""
    return (
        CHILD_MARK not in row.run
        and not row.private
        and row.rules <= request.rules
        and row.format <= request.format
        and (request.crews is None or row.crew in request.crews)
        and (request.organizations is None or row.organization in request.organizations)
    )


def in_fair_order(
    waiting: Iterable[WaitingRun],
    driven: Mapping[tuple[str, str], int] = NOTHING_DRIVEN,
    weights: Mapping[str, int] = NO_WEIGHTS,
) -> Sequence[WaitingRun]:
    """Organizations in turn, within one its crews in turn, within a crew the oldest run first.

    `driven` counts the runs of each organization and crew that are driven now: those with fewer come first,
    in proportion to the weight of their organization.
    """
    by_age = sorted(waiting)
    oldest_of: dict[tuple[str, ...], int] = {}
    for each in by_age:
        oldest_of.setdefault((each.organization,), each.number)
        oldest_of.setdefault((each.organization, each.crew), each.number)
    rounds, turns = Counter(driven), Counter[str]()
    for (organization, _), count in driven.items():
        turns[organization] += count
    in_crews: list[tuple[int, int, WaitingRun]] = []
    for each in by_age:
        place = (each.organization, each.crew)
        in_crews.append((rounds[place], oldest_of[place], each))
        rounds[place] += 1
    in_organizations: list[tuple[float, int, WaitingRun]] = []
    for _, _, each in sorted(in_crews):
        turn = turns[each.organization] / weights.get(each.organization, 1)
        in_organizations.append((turn, oldest_of[each.organization,], each))
        turns[each.organization] += 1
    return [each for _, _, each in sorted(in_organizations)]


def forgets_set_asides_before(at: int) -> int:
    """Rows of set-asides whose `again_at` is before this do not count any more."""
    return at - PAUSE_MAX_MS


def next_set_aside(last: SetAside | None, *, run: str, owner: str, reason: str, at: int) -> SetAside:
    """The row of a run that a process sets aside now; `last` is its row of this process that still counts."""
    tries = last.tries + 1 if last is not None else 1
    again_at = at + min(FIRST_PAUSE_MS * 2 ** min(tries - 1, 10), PAUSE_MAX_MS)
    return SetAside(run=run, owner=owner, reason=reason, at=at, tries=tries, again_at=again_at)
