"""Owners of runs and leaders, as a part of a store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any

from psycopg.types.json import Jsonb

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.runs.run_appends import PostgresAppends
from interlock.adapters.postgres.runs.run_head import read_stored_run
from interlock.adapters.postgres.runs.transitions import run_refusal
from interlock.adapters.postgres.session import LEFT
from interlock.errors import NotLeader, OwnedElsewhere, StoreFailed
from interlock.ports import ClaimedRun, ClaimRequest, Leadership

# How often a process that waits to lead asks again. A leader that leaves wakes the others at once.
LEAD_AGAIN_S = 1.0

_CLAIM_SOME = (
    "select run, epoch, link, owner_died from claim_runs(%s, %s, %s, %s, %s, %s::text[], %s::text[], %s::text[], %s)"
)


class PostgresOwners(PostgresAppends):
    """`Owners`, as a part of a store."""

    @property
    def owner(self) -> str:
        """The id under which this store owns runs."""
        return str(self.session.id)

    def has_lease(self) -> bool:
        """False also while the server is away: then it is not known, and may be True again."""
        return not self.is_closed and self.session.has_lease()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls back when another process has found this one dead, which is final."""
        self.session.on_lost(callback)

    async def claim(self, run: str) -> ClaimedRun:
        def work(connection: PostgresConnection) -> ClaimedRun:
            query = "select outcome, epoch, link, owner from claim_run(%s, %s)"
            found = connection.execute(query, (run, self.session.id), binary=True).fetchone()
            assert found is not None, "the function answers"
            outcome, epoch, link, owner = found
            if outcome == "owned":
                raise OwnedElsewhere(run, str(owner))
            if outcome != "done":
                raise run_refusal(run, outcome)
            self.links.put(run, link)
            return ClaimedRun(run=run, epoch=epoch, owner_died=owner not in (None, self.session.id))

        return await self.write_statement(f"claim run '{run}'", work)

    async def claim_some(self, request: ClaimRequest) -> Sequence[ClaimedRun]:
        def work(connection: PostgresConnection) -> list[ClaimedRun]:
            values = (  # `driven` is asked now: a run may have been started since the request was made
                *(self.session.id, request.limit, request.rules, request.format, request.at),
                *(_names(request.crews), _names(request.organizations), list(request.driven)),
                Jsonb(dict(request.weights)),
            )
            found = connection.execute(_CLAIM_SOME, values, binary=True).fetchall()
            for run, _, link, _ in found:
                self.links.put(run, link)
            return [ClaimedRun(run=run, epoch=epoch, owner_died=died) for run, epoch, _, died in found]

        return await self.write_statement("claim runs", work)

    async def release(self, run: str) -> None:
        """Does nothing if this store does not own the run."""
        await self.write_batchable(f"release run '{run}'", "release", run, run, 0)

    async def is_owned(self, run: str) -> bool:
        def has_live_owner(connection: PostgresConnection) -> bool:
            owner = read_stored_run(connection, run).owner
            found = connection.execute("select not seems_gone(%s)", (owner,)).fetchone()
            return owner is not None and found == (True,)

        return await self.read(f"read the owner of run '{run}'", has_live_owner)


def _names(given: Any) -> list[str] | None:
    return None if given is None else sorted(given)


class PostgresLeadership:
    """`Leadership` under an epoch, while the process has its lease."""

    def __init__(self, name: str, epoch: int, has_lease: Callable[[], bool]) -> None:
        self._name, self._epoch, self._has_lease = name, epoch, has_lease
        self.is_over = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def epoch(self) -> int:
        return self._epoch

    def is_held(self) -> bool:
        return not self.is_over and self._has_lease()


class PostgresLeaders:
    """`Leaders` in a table of the store."""

    def __init__(self, store: PostgresOwners) -> None:
        self._store = store
        # Names and candidates that lead no longer, and that the store may still know as leaders, because it was away.
        self._over: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def leadership(self, name: str) -> AsyncIterator[Leadership]:
        candidate = token_hex(8)
        held = PostgresLeadership(name, await self._wait_to_lead(name, candidate), self._store.has_lease)
        try:
            yield held
        finally:
            held.is_over = True
            await self._step_down(name, candidate)

    async def _wait_to_lead(self, name: str, candidate: str) -> int:
        woken, may_lead = asyncio.Event(), False
        stop = self._store.session.watch(woken.set, LEFT)
        try:
            while True:
                may_lead = True
                if epoch := await self._try_lead(name, candidate):
                    return epoch
                may_lead = epoch is None
                with suppress(
                    TimeoutError
                ):  # `wait_for` of Python 3.11 forgets a cancellation that comes with the news
                    async with asyncio.timeout(LEAD_AGAIN_S):
                        await woken.wait()
                woken.clear()
        except BaseException:
            if may_lead:
                await self._step_down(name, candidate)
            raise
        finally:
            stop()

    async def _try_lead(self, name: str, candidate: str) -> int | None:
        """The epoch; 0 while another candidate leads, None if the store is away. Asking again gets the same epoch."""

        def work(connection: PostgresConnection) -> int:
            values = (name, self._store.session.id, candidate)
            found = connection.execute("select coalesce(try_lead(%s, %s, %s), 0)", values).fetchone()
            assert found is not None, "the function answers"
            return int(found[0])

        try:
            await self._remove_candidates(name)
            return await self._store.write_statement(f"lead '{name}'", work)
        except StoreFailed as error:
            if not error.passes or self._store.is_closed:
                raise
            return None

    async def _step_down(self, name: str, candidate: str) -> None:
        """If the store is away, it is done before this process asks again; the others wait for that, or for its end."""
        self._over.add((name, candidate))
        with suppress(StoreFailed):
            await self._remove_candidates(name)

    async def _remove_candidates(self, name: str) -> None:
        over = sorted(candidate for of, candidate in self._over if of == name)
        if not over:
            return

        def work(connection: PostgresConnection) -> None:
            connection.execute("select stop_leading(%s, %s::text[], %s)", (name, over, self._store.session.id))

        await self._store.write_statement(f"stop leading '{name}'", work)
        self._over.difference_update((name, candidate) for candidate in over)


def require_leader(connection: PostgresConnection, leader: Leadership) -> None:
    """`NotLeader` if another process has led since. The next one waits until this transaction has ended."""
    query = "select 1 from leaders where name = %s and epoch = %s for share"
    if connection.execute(query, (leader.name, leader.epoch)).fetchone() is None:
        raise NotLeader(leader.name)
