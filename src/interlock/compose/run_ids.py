"""Ids of runs as people write them: whole, or a part from the beginning or the end."""

from interlock.errors import RunNotFound, UsageError
from interlock.ids import CHILD_MARK
from interlock.ports import Journal

# Fewer characters are too easily another run's tomorrow.
PART_CHARS_MIN = 4

# Of candidates that are named where several runs fit.
NAMED_MAX = 10

# Read in one go.
PAGE = 1_000


async def whole_id(journal: Journal, given: str) -> str:
    """The id that begins or ends with what was given; what follows a `~` or `:` stays as it is."""
    end = min((at for at in (given.find(CHILD_MARK), given.find(":")) if at >= 0), default=len(given))
    root, rest = given[:end], given[end:]
    try:
        await journal.row(root)
        return given
    except RunNotFound as unknown:
        found = await _fitting(journal, root) if len(root) >= PART_CHARS_MIN else []
        if not found:
            raise unknown from None
    if len(found) > 1:
        more = f", and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
        raise UsageError(
            f"'{root}' may be any of {len(found)} runs: {', '.join(found[:NAMED_MAX])}{more}; write more of the id"
        )
    return found[0] + rest


async def _fitting(journal: Journal, part: str) -> list[str]:
    """The newest first."""
    found: list[str] = []
    before = None
    while rows := await journal.rows(limit=PAGE, before=before, nested=False):
        found += [row.run for row in rows if row.run.startswith(part) or row.run.endswith(part)]
        before = rows[-1].run
    return found
