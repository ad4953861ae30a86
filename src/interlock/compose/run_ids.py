"""Ids of runs: new ones, and those that people write whole or in part."""

import secrets

from interlock.errors import RunNotFound, UsageError
from interlock.ids import CHILD_MARK
from interlock.ports import Clock, Journal

# Fewer characters may soon match another run.
PART_CHARS_MIN = 4

# Candidates that are named if several runs match.
NAMED_MAX = 10

# Rows per read.
PAGE = 1_000


def new_run_id(clock: Clock) -> str:
    """A new id, sortable by time; it is chosen before the run starts, so that a request can be repeated."""
    return f"{clock.now_ms():012x}{secrets.token_hex(4)}"


async def resolve_run_id(journal: Journal, given: str) -> str:
    """Finds the id that begins or ends with the given part; text after a `~` or `:` stays as it is."""
    end = min((at for at in (given.find(CHILD_MARK), given.find(":")) if at >= 0), default=len(given))
    root, rest = given[:end], given[end:]
    try:
        await journal.row(root)
        return given
    except RunNotFound as unknown:
        if 0 < len(root) < PART_CHARS_MIN:
            how = f"give at least {PART_CHARS_MIN} characters of its id"
            raise UsageError(f"'{root}' is too short for a run; {how}") from None
        found = await _matching_runs(journal, root)
        if not found:
            raise unknown from None
    if len(found) > 1:
        more = f", and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
        raise UsageError(
            f"'{root}' matches {len(found)} runs: {', '.join(found[:NAMED_MAX])}{more}; give more of the id"
        )
    return found[0] + rest


async def _matching_runs(journal: Journal, part: str) -> list[str]:
    """Runs whose ids begin or end with a part, the newest first."""
    found: list[str] = []
    before = None
    while rows := await journal.rows(limit=PAGE, before=before, nested=False):
        found += [row.run for row in rows if row.run.startswith(part) or row.run.endswith(part)]
        before = rows[-1].run
    return found
