"""Answers about single runs, kept while nothing changes: clients ask about one run again and again.

Rule 1: an answer is kept only if nothing of its run has changed since its read began. Each record of the run or of a
run below it drops it, and so does the deletion of the run.
Rule 2: what other processes commit is seen by the version of the store, which is asked for with every use. While it is
unknown nothing is kept, and nothing that was kept is used.
Rule 3: what may change without a record is not kept: open questions show tools, which come and go.
"""

import msgspec

from interlock.compose.interlock import Interlock
from interlock.ids import parent_of
from interlock.ports import StoredRecord
from interlock.server.views import read_run_detail

# A larger answer is not kept.
ANSWER_BYTES_MAX = 64 * 1024
# Kept answers together.
KEPT_BYTES = 4 * 1024 * 1024


class _KeptAnswer(msgspec.Struct):
    """An answer at a version of the store; empty while it is read."""

    version: int
    body: bytes = b""


class RunAnswers:
    """The bodies of GET a run."""

    def __init__(self, box: Interlock) -> None:
        self._box = box
        self._kept: dict[str, _KeptAnswer] = {}
        self._size = 0
        box.watch(self.on_record_stored)
        box.archive.observers.append(self._drop)

    async def body_of(self, run: str) -> bytes:
        """`RunNotFound` and other errors are those of the read."""
        version = self._box.store_version()
        if version is None:
            return msgspec.json.encode((await read_run_detail(self._box, run)).body)
        kept = self._kept.get(run)
        if kept is None or kept.version != version:
            self._drop(run)
            kept = self._kept[run] = _KeptAnswer(version)
        return kept.body or await self._read(run, kept)

    async def _read(self, run: str, kept: _KeptAnswer) -> bytes:
        """Reads an answer, and keeps it if its place is still there."""
        try:
            found = await read_run_detail(self._box, run)
            body = msgspec.json.encode(found.body)
            if found.is_lasting and len(body) <= ANSWER_BYTES_MAX and not kept.body and self._kept.get(run) is kept:
                kept.body = body
                self._size += len(body)
                while self._size > KEPT_BYTES:
                    self._drop(next(iter(self._kept)))
            return body
        finally:
            if not kept.body and self._kept.get(run) is kept:
                del self._kept[run]

    def on_record_stored(self, stored: StoredRecord) -> None:
        """Called by the runner with every stored record."""
        run = stored.run
        while run and self._kept:
            self._drop(run)
            run = parent_of(run)

    def _drop(self, run: str) -> None:
        kept = self._kept.pop(run, None)
        if kept is not None:
            self._size -= len(kept.body)
