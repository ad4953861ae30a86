"""The archive of an open store, which tells this process what it has deleted."""

from collections.abc import Callable, Sequence

from interlock.ports import Archive, Tombstone


class ObservedArchive:
    """Calls `observers` with the id of each deleted run. All else is that of the store."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.observers: list[Callable[[str], None]] = []
        self.export_tree, self.export_records = archive.export_tree, archive.export_records
        self.add_tree, self.add_run = archive.add_tree, archive.add_run
        self.runs_finished_before = archive.runs_finished_before
        self.tombstones, self.expire_tombstones = archive.tombstones, archive.expire_tombstones

    async def delete_tree(self, run: str, at: int) -> Sequence[Tombstone]:
        return self._tell(await self._archive.delete_tree(run, at))

    async def delete_run(self, run: str, at: int) -> Tombstone:
        return self._tell([await self._archive.delete_run(run, at)])[0]

    def _tell(self, deleted: Sequence[Tombstone]) -> Sequence[Tombstone]:
        for each in deleted:
            for on_deleted in self.observers:
                on_deleted(each.run)
        return deleted
