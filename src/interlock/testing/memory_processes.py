"""`Processes` in memory, for tests."""

from collections.abc import Sequence

from interlock.adapters.store_rules.run_formats import newer_of, older_processes
from interlock.ids import parent_of
from interlock.ports import LeaderEntry, ProcessLoad, RunFormat, StoreOverview
from interlock.ports.processes.overview import PRIVATE_LISTED_MAX
from interlock.testing.memory_storage import MemoryProcess, StoredRun


class MemoryProcesses(MemoryProcess):
    """`Processes` of memory stores that share a storage."""

    async def announce_worker(self) -> None:
        self.require_open()
        self._shared_storage.workers.add(self.owner)

    async def run_format(self) -> RunFormat | None:
        self.require_open()
        return self._shared_storage.run_format

    async def raise_run_format(self, to: RunFormat) -> Sequence[ProcessLoad]:
        older = older_processes((await self.overview()).processes, to)
        if not older:
            self._shared_storage.run_format = newer_of(self._shared_storage.run_format, to)
        return older

    async def overview(self) -> StoreOverview:
        self.require_open()
        shared, roots = self._shared_storage, self._running_roots()
        undriven = [each.row for each in roots if each.owner not in shared.alive]
        waiting = [row.updated_at for row in undriven if not row.private]
        return StoreOverview(
            version=1,
            run_format=shared.run_format,
            processes=tuple(self._load_of(owner, roots) for owner in sorted(shared.alive)),
            leaders=tuple(
                LeaderEntry(name=name, owner=shared.leaders.get(name, ""), epoch=epoch)
                for name, epoch in sorted(shared.leader_epochs.items())
            ),
            waiting=len(waiting),
            oldest_waiting_at=min(waiting, default=0),
            private_undriven=tuple(sorted(row.run for row in undriven if row.private))[:PRIVATE_LISTED_MAX],
        )

    async def count_waiting(self, organization: str, limit: int) -> int:
        self.require_open()
        waiting = [each for each in self._running_roots() if each.owner not in self._shared_storage.alive]
        counted = [each for each in waiting if each.row.organization == organization and not each.row.private]
        return min(len(counted), limit)

    def _load_of(self, owner: str, roots: list[StoredRun]) -> ProcessLoad:
        is_worker = owner in self._shared_storage.workers
        knows = self._shared_storage.knows[owner]
        runs = sum(each.owner == owner for each in roots)
        return ProcessLoad(owner=owner, runs=runs, is_worker=is_worker, knows=knows)

    def _running_roots(self) -> list[StoredRun]:
        kept = self._shared_storage.runs.values()
        return [each for each in kept if each.row.status == "running" and not parent_of(each.row.run)]
