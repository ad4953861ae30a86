"""Rows of runs, and answers about them, kept while nothing changes: clients ask about one run again and again.

Rule 1: what was read is kept only if nothing of the run has changed since the read began. Each record of the run or of
a run below it drops it, and so does the deletion of the run.
Rule 2: what other processes commit is seen by the version of the store, which is asked for with every use. While it is
unknown nothing is kept, and nothing that was kept is used.
Rule 3: what may change without a record is not kept: open questions show tools, which come and go.
"""

import msgspec

from interlock.compose.interlock import Interlock
from interlock.ids import parent_of
from interlock.ports import RunRow, StoredRecord
from interlock.server.views import read_run_detail

# A larger answer is not kept.
ANSWER_BYTES_MAX = 64 * 1024
# All that is kept; besides its answer each run counts for so much.
KEPT_BYTES, RUN_BYTES = 4 * 1024 * 1024, 1024


class _KeptRun(msgspec.Struct):
    """What was read of a run at a version of the store."""

    version: int
    row: RunRow | None = None
    answer: bytes = b""


class RunAnswers:
    """The rows of runs, and the bodies of GET a run."""

    def __init__(self, box: Interlock) -> None:
        self._box = box
        self._kept: dict[str, _KeptRun] = {}
        self._size = 0
        box.watch(self.on_record_stored)
        box.archive.observers.append(self._drop)

    async def row_of(self, run: str) -> RunRow:
        """`RunNotFound` and other errors are those of the read."""
        kept = self._place_for(run)
        if kept is None:
            return await self._box.journal.row(run)
        if kept.row is None:
            row = await self._box.journal.row(run)
            kept.row = row  # if the run has changed meanwhile, its place is not there any more
            return row
        return kept.row

    async def answer_of(self, run: str) -> bytes:
        """The same for the body of GET a run."""
        kept = self._place_for(run)
        if kept is not None and kept.answer:
            return kept.answer
        found = await read_run_detail(self._box, run)
        answer = msgspec.json.encode(found.body)
        if found.is_lasting and len(answer) <= ANSWER_BYTES_MAX and self._kept.get(run) is kept is not None:
            self._size += len(answer) - len(kept.answer)
            kept.answer = answer
            self._make_room()
        return answer

    def _place_for(self, run: str) -> _KeptRun | None:
        """The place of a run, made before a read begins; None while nothing can be kept."""
        version = self._box.store_version()
        if version is None:
            return None
        kept = self._kept.get(run)
        if kept is None or kept.version != version:
            self._drop(run)
            kept = self._kept[run] = _KeptRun(version)
            self._size += RUN_BYTES
            self._make_room()
        return kept

    def on_record_stored(self, stored: StoredRecord) -> None:
        """Called by the runner with every stored record."""
        run = stored.run
        while run and self._kept:
            self._drop(run)
            run = parent_of(run)

    def _make_room(self) -> None:
        while self._size > KEPT_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, run: str) -> None:
        kept = self._kept.pop(run, None)
        if kept is not None:
            self._size -= RUN_BYTES + len(kept.answer)
