"""Children of runs: started or claimed, followed until they rest, stopped.

Rule 1: the process that drives a run drives its children.
Rule 2: an event of a child is stored with the child first and then with its parent; but a parent knows that a child
continues before the child does. So while anything in a tree is running, so is its root, and the process that recovers
the root finds everything. A run that ends stops its children first, and ends when they have stopped.
Rule 3: a child has the rules and the format of its parent, so that a process that can drive a run can drive its tree.
Rule 4: that a child rests is stored with its parent under the lock of the child, so that it is still true then.
"""

import msgspec

from interlock.engine.budgets.inherited_limits import InheritedLimits
from interlock.engine.effects import StartChild, StopChild
from interlock.engine.events import (
    CALLER,
    CancelRequested,
    ChildReturned,
    ChildWait,
    ChildWaits,
    CrewContext,
    Entry,
    RunStarted,
)
from interlock.engine.kinds import RunStatus
from interlock.engine.run import OVER, Run
from interlock.engine.state import RunState
from interlock.errors import CrewMissing, InterlockError, OwnedElsewhere, RunExists, RunNotFound, StoreFailed
from interlock.ids import RESERVED_IDS
from interlock.messages.host_types import message_types
from interlock.ports import Clock, Journal, Owners, RunRow
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.live_runs import LiveRun, LiveRuns
from interlock.runtime.stored_crews import StoredCrews


class Children:
    def __init__(
        self,
        *,
        journal: Journal,
        owners: Owners,
        clock: Clock,
        crews: StoredCrews,
        live_runs: LiveRuns,
        committer: Committer,
        resumption: Resumption,
    ) -> None:
        self._journal, self._owners, self._clock, self._crews = journal, owners, clock, crews
        self._live_runs, self._committer, self._resumption = live_runs, committer, resumption

    async def wait_for_child(self, parent: LiveRun, order: StartChild) -> ChildReturned | None:
        """Starts or claims a child and waits for it; returns its result, or None if it rests (its parent knows)."""
        try:
            child = await self._ensure_child(parent, order)
        except CrewMissing as error:
            return result_of_lost_child(order, error)
        except (OwnedElsewhere, StoreFailed):
            raise
        except InterlockError as error:  # a damaged journal, a crew that is gone: the caller handles it
            return result_of_lost_child(order, error)
        while True:
            await self._live_runs.wait_until_settled(order.child)
            async with self._live_runs.run_lock(order.child):
                child = self._live_runs.runs.get(order.child) or child
                if order.child in self._live_runs.drivers:
                    continue  # it was resumed meanwhile
                state = await self._resting_state(child)
                if state.parked:  # its parent is being parked too, and claims it again when it is resumed
                    return None
                if state.status is RunStatus.PAUSED:
                    await self._live_runs.inject_event(parent, _waits_of_child(order, state))
                    return None
            return result_of_child(order, state)

    async def cancel_child(self, order: StopChild) -> ChildReturned:
        """Cancels a child, driven or at rest; returns its result with its cost."""
        async with self._live_runs.run_lock(order.child):
            try:
                child = self._live_runs.runs.get(order.child) or await self._claim_child(order.child)
            except RunNotFound:  # it was never started
                return ChildReturned(call=order.key, status=str(RunStatus.CANCELLED), reason="cancelled")
            except CrewMissing as error:
                return result_of_lost_child(order, error)
            except (OwnedElsewhere, StoreFailed):
                raise
            except InterlockError as error:  # it cannot continue anywhere, and must not keep its caller from ending
                return result_of_lost_child(order, error)
            if not await self._resumption.continue_if_ending(child):
                async with child.lock:
                    if child.run.state.status not in OVER:
                        self._resumption.retry_child_cancellations(child)
                        await self._committer.commit_event(child, CancelRequested(by=CALLER))
                self._live_runs.drive(child)
        await self._live_runs.wait_until_settled(order.child)
        return result_of_child(order, child.run.state)

    async def _claim_child(self, run_id: str) -> LiveRun:
        """Claims a child before reading it: its first record may be on its way to the store, ahead of the claim."""
        await self._owners.claim(run_id)
        return await self._live_runs.claim_run(run_id)

    async def _ensure_child(self, parent: LiveRun, order: StartChild) -> LiveRun:
        """The child, driven by this process or at rest."""
        async with self._live_runs.run_lock(order.child):
            child = self._live_runs.runs.get(order.child) or await self._claim_or_start_child(parent, order)
            if child.run.state.parked:
                await self._resumption.unpark(child)
            elif order.child not in self._live_runs.runs:
                await self._resumption.resume_outstanding(child)
            return child

    async def _claim_or_start_child(self, parent: LiveRun, order: StartChild) -> LiveRun:
        try:
            return await self._live_runs.claim_run(order.child)
        except RunNotFound:
            pass
        try:
            return await self._start_child(parent, order)
        except RunExists:  # the last owner of the parent has just started it
            return await self._live_runs.claim_run(order.child)

    async def _start_child(self, parent: LiveRun, order: StartChild) -> LiveRun:
        sub = parent.crew.sub_crews[order.crew]
        crew = await self._crews.of(sub.crew_sha)
        state, prefix = parent.run.state, f"{order.name}/"
        calls = {name.removeprefix(prefix): n for name, n in state.calls.items() if name.startswith(prefix)}
        event = RunStarted(
            crew=crew.name,
            input=order.input,
            frames=order.frames,
            rules=state.rules,
            messages=message_types(),
            crew_sha=sub.crew_sha,
            history=history_for_child(parent, order),
            path=(*state.path, order.crew),
            way=_way(state, order),
            calls=calls,
            context=CrewContext(
                original_input=state.original_input,
                previous_results=dict(state.results),
                shared_memory=dict(state.memory),
            ),
            hops=max(state.hops, order.hops),
            user=state.user,
            needs=state.needs,
            bounds=InheritedLimits(caps=sub.settings, given=order.given, limits=parent.run.budgets.for_children()),
        )
        row = RunRow(
            run=order.child,
            crew=crew.name,
            crew_sha=sub.crew_sha,
            status=str(RunStatus.NEW),
            created_at=self._clock.now_ms(),
            organization=crew.settings.organization or parent.row.organization,
            rules=event.rules,
            format=parent.row.format,
            private=parent.row.private,
        )
        return await self._live_runs.begin_run(
            Run(crew, order.child, table=self._live_runs.table(crew, sub.crew_sha, event.rules)), row, event
        )

    async def _resting_state(self, child: LiveRun) -> RunState:
        """The state of the child; read again if another process has changed it since."""
        state = child.run.state
        if state.status in OVER or (await self._journal.row(child.id)).seq == state.seq:
            return state
        again = await self._live_runs.claim_run(child.id)
        await self._live_runs.release_if_idle(again)
        return again.run.state


def _way(state: RunState, order: StartChild) -> tuple[str, ...]:
    """The way of names, only where it differs from the path."""
    is_the_path = order.name == order.crew and not state.way
    return () if is_the_path else (*(state.way or state.path), order.name)


def history_for_child(parent: LiveRun, order: StartChild) -> tuple[Entry, ...]:
    """The entries of the history that the child sees, each with the crew of its author."""
    if not order.history:
        return ()
    first = 0 if order.history < 0 else max(0, order.until - order.history)
    return with_crew_names(parent.crew.name, parent.run.state.history[first : order.until])


def with_crew_names(crew: str, entries: list[Entry]) -> tuple[Entry, ...]:
    """Entries as another crew sees them: an agent of its own may have the same id."""
    return tuple(msgspec.structs.replace(entry, author=_author(crew, entry.author)) for entry in entries)


def _author(crew: str, author: str) -> str:
    return author if author in RESERVED_IDS or "/" in author else f"{crew}/{author}"


def result_of_lost_child(order: StartChild | StopChild, error: InterlockError) -> ChildReturned:
    """The result of a child that cannot be read any more."""
    return ChildReturned(call=order.key, status=str(RunStatus.FAILED), reason=error.code)


def result_of_child(order: StartChild | StopChild, state: RunState) -> ChildReturned:
    returns = order.returns if isinstance(order, StartChild) else 0
    own = [entry for entry in state.history if entry.run == state.run]
    return ChildReturned(
        call=order.key,
        status=str(state.status),
        reason=state.reason,
        text=state.text,
        usage=state.usage,
        memory={key: state.memory[key] for key in state.written},
        history=with_crew_names(state.path[-1], own[-returns:]) if returns else (),
        calls=dict(state.calls),
        above=state.above,
        detail=state.detail,
    )


def _waits_of_child(order: StartChild, state: RunState) -> ChildWaits:
    waits = tuple(ChildWait(token=wait.token, agent=wait.agent, reason=wait.reason) for wait in state.waits)
    return ChildWaits(call=order.key, waits=waits)
