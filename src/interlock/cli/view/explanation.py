"""Explanations of the decisions of a run, as lines.

Rule 1: lines follow the order of the store; lines of sub-crews carry their path.
"""

from collections.abc import Iterator, Sequence

from interlock.cli.view.transcript import STEP
from interlock.engine.events import RunStarted
from interlock.engine.explain import explain_events
from interlock.ports import StoredRecord


def reason_lines(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """Lines of a run and its sub-crews; each number is the event's in its own journal."""
    paths: dict[str, tuple[str, ...]] = {}
    for stored in tree:
        events = stored.record.events
        for n, (event, line) in enumerate(zip(events, explain_events(events), strict=True)):
            if isinstance(event, RunStarted):
                paths[stored.run] = event.path
            if line:
                prefix = _path_prefix(paths[stored.run], paths[tree[0].run])
                yield f"{stored.record.seq + n:>5}  {prefix}{line}"


def _path_prefix(path: tuple[str, ...], top: tuple[str, ...]) -> str:
    return f"{STEP * (len(path) - len(top))}{'/'.join(path)}: " if path != top else ""
