"""A store opened for inspection: nothing runs."""

from interlock.compose.interlock import Interlock
from interlock.compose.stores.store_home import OpenedHome


class Inspection(Interlock):
    """Opens a store also without write access; then every write is refused."""

    _listens = False

    @property
    def is_read_only(self) -> bool:
        return self._opened.is_read_only

    async def _open_store(self) -> OpenedHome:
        return await self.home.open_to_read(self._durability, self.clock)

    async def list_missing_questions(self) -> None:
        if not self.is_read_only:
            await super().list_missing_questions()

    def losses(self) -> list[str]:
        """The records and changes that the store has lost."""
        lost = self._opened.lost
        return [] if lost is None else [str(lost)]


class CopyInspection(Inspection):
    """Opens a copy of a store, such as a standby of its server; it is not seen there, and every write is refused."""

    async def _open_store(self) -> OpenedHome:
        return await self.home.open_copy(self.clock)
