"""Creating runs, appending to them and releasing them, as a part of a store."""

from collections.abc import Sequence
from typing import Any

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.failures import lacks_partition
from interlock.adapters.postgres.runs import transitions
from interlock.adapters.postgres.runs.transitions import RunTransition, TransitionAnswer
from interlock.adapters.store_rules import record_format
from interlock.ports import NO_WRITES, AppendResult, AtomicWrites, Record, RunRow

# Runs whose newest link is known. Released runs are removed, so only live ones count.
KNOWN_LINKS_MAX = 10_000


class KnownLinks:
    """The newest link of runs of this process. Used by the writer's thread only."""

    def __init__(self) -> None:
        self._by_run: dict[str, bytes] = {}

    def get(self, run: str) -> bytes | None:
        return self._by_run.get(run)

    def put(self, run: str, link: bytes) -> None:
        if len(self._by_run) >= KNOWN_LINKS_MAX:
            self._by_run.clear()
        self._by_run[run] = link

    def forget(self, run: str) -> None:
        self._by_run.pop(run, None)


class PostgresAppends(PostgresDatabase):
    """`create` and `append`, as a part of a store, and the batches of these and of `release`."""

    links: KnownLinks

    async def create(
        self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES, *, owned: bool = True
    ) -> AppendResult:
        record_format.require_first(row.run, record)
        body = record_format.encode_record(record)
        owner = self.session.id if owned else None
        return await self._store_transition(f"store the new run '{row.run}'", "create", row, record, body, also, owner)

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        """Uses only status, reason, agent, usage and `updated_at` of the row: the rest is fixed at creation."""
        body = record_format.encode_record(record)
        owner = self.session.id
        return await self._store_transition(f"append to run '{row.run}'", "append", row, record, body, also, owner)

    async def _store_transition(
        self, doing: str, kind: str, row: RunRow, record: Record, body: bytes, also: AtomicWrites, owner: int | None
    ) -> AppendResult:
        transition = RunTransition(row, record, body, also, owner=owner)
        return await self.write_batchable(doing, kind, row.run, transition, len(body))  # type: ignore[no-any-return]

    # In the writer's thread

    def perform_batch(
        self, connection: PostgresConnection, kind: str, values: Sequence[Any], is_repeated: bool
    ) -> Sequence[Any]:
        if kind == "release":
            return self._release(connection, values)
        try:
            answers = self._send(connection, kind, values, is_repeated)
        except Exception as error:
            if not lacks_partition(error):
                raise
            for month in sorted({transitions.month_of(each.row.created_at) for each in values}):
                connection.execute("select make_partition(%s)", (month,))
            answers = self._send(connection, kind, values, is_repeated)
        return [self._note(each, answer) for each, answer in zip(values, answers, strict=True)]

    def _release(self, connection: PostgresConnection, runs: Sequence[str]) -> Sequence[None]:
        for run in runs:
            self.links.forget(run)
        connection.execute("select release_runs(%s, %s)", (list(runs), self.session.id))
        return [None for _ in runs]

    def _send(
        self, connection: PostgresConnection, kind: str, values: Sequence[RunTransition], is_repeated: bool
    ) -> list[TransitionAnswer]:
        if kind == "create":
            return transitions.create_runs(connection, self.session.id, values, is_repeated)
        known = [each._replace(link=self.links.get(each.row.run)) for each in values]
        return transitions.append_records(connection, self.session.id, known)

    def _note(self, transition: RunTransition, answer: TransitionAnswer) -> AppendResult | Exception:
        if answer.outcome == "done":
            self.links.put(transition.row.run, answer.link)
        else:
            self.links.forget(transition.row.run)
        return transitions.result_of(transition, answer)
