"""A data folder to look at: what is there is read, and nothing runs."""

from interlock.adapters.store_readonly import ReadOnlyStore, is_read_only
from interlock.adapters.store_sqlite import DATABASE, LOG_BYTES_MAX, SqliteStore
from interlock.compose.box import Interlock


class Inspection(Interlock):
    """Opens a folder also where nothing can be written; whatever would write is refused there."""

    _listens = False

    @property
    def is_read_only(self) -> bool:
        return isinstance(self.store, ReadOnlyStore)

    def _opened_store(self) -> SqliteStore:
        return ReadOnlyStore(self.data) if is_read_only(self.data) else super()._opened_store()

    async def _list_questions(self) -> None:
        if not self.is_read_only:
            await super()._list_questions()

    def log_notes(self) -> list[str]:
        """A log beyond its bound: somebody reads for so long that it cannot be written back."""
        log = self.data / f"{DATABASE}-wal"
        size = log.stat().st_size if log.exists() else 0
        if size <= LOG_BYTES_MAX:
            return []
        megabytes = f"{size // 1024**2} MB, more than {LOG_BYTES_MAX // 1024**2} MB"
        return [f"'{log}' has {megabytes}: another program keeps a reading transaction open; end it, and it shrinks"]
