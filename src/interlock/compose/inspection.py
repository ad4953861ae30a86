"""A data folder to look at: what is there is read, and nothing runs."""

import logging

from interlock.adapters.store_readonly import ReadOnlyStore, is_read_only
from interlock.adapters.store_sqlite import DATABASE, LOG_BYTES_MAX, SqliteStore
from interlock.compose.box import Interlock
from interlock.errors import RecordsMissing

_log = logging.getLogger("interlock")


class Inspection(Interlock):
    """Opens a folder also where nothing can be written; whatever would write is refused there."""

    _listens = False

    @property
    def is_read_only(self) -> bool:
        return isinstance(self.store, ReadOnlyStore)

    def _opened_store(self) -> SqliteStore:
        if is_read_only(self.data):
            return self._reading_store()
        try:
            return super()._opened_store()
        except RecordsMissing:
            return self._reading_store()  # what is left can be looked at

    def _reading_store(self) -> ReadOnlyStore:
        store = ReadOnlyStore(self.data)
        if store.lost is not None:
            _log.warning("%s", store.lost)
        return store

    async def list_missing_questions(self) -> None:
        if not self.is_read_only:
            await super().list_missing_questions()

    def losses(self) -> list[str]:
        """What the database lacks of what it was known to hold."""
        lost = self.store.lost if isinstance(self.store, ReadOnlyStore) else None
        return [] if lost is None else [str(lost)]

    def log_notes(self) -> list[str]:
        """A log beyond its bound: somebody reads for so long that it cannot be written back."""
        log = self.data / f"{DATABASE}-wal"
        size = log.stat().st_size if log.exists() else 0
        if size <= LOG_BYTES_MAX:
            return []
        megabytes = f"{size // 1024**2} MB, more than {LOG_BYTES_MAX // 1024**2} MB"
        return [f"'{log}' has {megabytes}: another program keeps a reading transaction open; end it, and it shrinks"]
