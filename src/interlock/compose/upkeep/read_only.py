"""A data folder opened for inspection: nothing runs."""

import logging

from interlock.adapters.sqlite.read_only import ReadOnlyStore, is_read_only
from interlock.adapters.sqlite.store import DATABASE, LOG_BYTES_MAX, SqliteStore
from interlock.compose.interlock import Interlock
from interlock.errors import RecordsMissing

_log = logging.getLogger("interlock")


class Inspection(Interlock):
    """Opens a folder also without write access; then every write is refused."""

    _listens = False

    @property
    def is_read_only(self) -> bool:
        return isinstance(self.store, ReadOnlyStore)

    def _open_store(self) -> SqliteStore:
        if is_read_only(self.data):
            return self._open_read_only()
        try:
            return super()._open_store()
        except RecordsMissing:
            return self._open_read_only()  # the rest can still be read

    def _open_read_only(self) -> ReadOnlyStore:
        store = ReadOnlyStore(self.data)
        if store.lost is not None:
            _log.warning("%s", store.lost)
        return store

    async def list_missing_questions(self) -> None:
        if not self.is_read_only:
            await super().list_missing_questions()

    def losses(self) -> list[str]:
        """The records and changes that the database has lost."""
        lost = self.store.lost if isinstance(self.store, ReadOnlyStore) else None
        return [] if lost is None else [str(lost)]

    def log_notes(self) -> list[str]:
        """Notes a log beyond its bound: a long reader keeps it from being written back."""
        log = self.data / f"{DATABASE}-wal"
        size = log.stat().st_size if log.exists() else 0
        if size <= LOG_BYTES_MAX:
            return []
        megabytes = f"{size // 1024**2} MB, more than {LOG_BYTES_MAX // 1024**2} MB"
        return [f"'{log}' has {megabytes}: another program keeps a read transaction open; end it, and the log shrinks"]
