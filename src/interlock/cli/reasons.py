"""Why runs went as they did: the events that say so, as lines.

Rule 1: a tree is told in the order in which the store took it in; what is not of the run itself carries its path.
"""

from collections.abc import Iterator, Sequence

from interlock.cli.transcript import STEP
from interlock.engine.events import RunStarted
from interlock.engine.reasons import reason
from interlock.ports import StoredRecord


def reason_lines(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """Of a run and all below it; the numbers are those of each run's own journal."""
    paths: dict[str, tuple[str, ...]] = {}
    for stored in tree:
        for n, event in enumerate(stored.record.events):
            if isinstance(event, RunStarted):
                paths[stored.run] = event.path
            line = reason(event)
            if line:
                way = _way(paths[stored.run], paths[tree[0].run])
                yield f"{stored.record.seq + n:>5}  {way}{line}"


def _way(path: tuple[str, ...], top: tuple[str, ...]) -> str:
    return f"{STEP * (len(path) - len(top))}{'/'.join(path)}: " if path != top else ""
