"""Children of runs: started or taken up, followed until they rest, stopped.

Rule 1: whoever drives a run drives its children.
Rule 2: going down, a child's news is stored with the child first and told to its parent afterwards; going up, a parent
knows that a child goes on before the child does. So while anything in a tree is running, so is its root, and whoever
recovers the root finds everything. A run that ends stops its children first, and ends when they have stopped.
Rule 3: what a parent is told of a child that rests is told under the lock of whoever would take the child up, so that
it is true when it is told.
"""

from typing import TYPE_CHECKING

import msgspec

from interlock.engine.bounds import Bounds
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
from interlock.engine.state import RunState
from interlock.engine.step import OVER, RULES, Run
from interlock.errors import CrewMissing, InterlockError, OwnedElsewhere, RunExists, RunNotFound, StoreFailed
from interlock.ids import RESERVED_IDS
from interlock.messages.host_types import registered
from interlock.ports import RunRow
from interlock.runtime.live import LiveRun

if TYPE_CHECKING:
    from interlock.runtime.runner import Runner


class Children:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner

    async def outcome(self, parent: LiveRun, order: StartChild) -> ChildReturned | None:
        """What came of a child; nothing if it rests, which its parent knows by then."""
        runner = self._runner
        try:
            child = await self._taken_up(parent, order)
        except CrewMissing as error:
            return lost(order, error)
        except (OwnedElsewhere, StoreFailed):
            raise
        except InterlockError as error:  # a damaged journal, a crew that is gone: the caller handles it
            return lost(order, error)
        while True:
            await runner.settled(order.child)
            async with runner.taking(order.child):
                child = runner.live.get(order.child) or child
                if order.child in runner.drivers:
                    continue  # somebody was faster, and it goes on
                state = await self._at_rest(child)
                if state.parked:  # its parent is being parked too, and takes it up again when it is resumed
                    return None
                if state.status == "paused":
                    await runner.take_in(parent, _waits(order, state))
                    return None
            return returned(order, state)

    async def stopped(self, order: StopChild) -> ChildReturned:
        """Cancels a child, wherever it is, and says what it has cost."""
        runner = self._runner
        async with runner.taking(order.child):
            try:
                child = runner.live.get(order.child) or await self._claimed(order.child)
            except RunNotFound:  # it was never begun
                return ChildReturned(call=order.key, status="cancelled", reason="cancelled")
            except CrewMissing as error:
                return lost(order, error)
            except (OwnedElsewhere, StoreFailed):
                raise
            except InterlockError as error:  # it cannot go on anywhere, and must not keep its caller from ending
                return lost(order, error)
            if not await runner.goes_on_ending(child):
                async with child.lock:
                    if child.run.state.status not in OVER:
                        runner.stop_again_what_is_given_up(child)
                        await runner.transit(child, CancelRequested(by=CALLER))
                runner.drive(child)
        await runner.settled(order.child)
        return returned(order, child.run.state)

    async def _claimed(self, run_id: str) -> LiveRun:
        """Claimed, then looked for: its beginning may be on its way to the store still, and a claim comes after it."""
        await self._runner.owners.claim(run_id)
        return await self._runner.taken(run_id)

    async def _taken_up(self, parent: LiveRun, order: StartChild) -> LiveRun:
        """The child, at work in this process or at rest."""
        runner = self._runner
        async with runner.taking(order.child):
            child = runner.live.get(order.child) or await self._begun_or_taken(parent, order)
            if child.run.state.parked:
                await runner.unpark(child)
            elif order.child not in runner.live:
                await runner.go_on_with(child)
            return child

    async def _begun_or_taken(self, parent: LiveRun, order: StartChild) -> LiveRun:
        try:
            return await self._runner.taken(order.child)
        except RunNotFound:
            pass
        try:
            return await self._begun(parent, order)
        except RunExists:  # whoever had the parent before is still at it
            return await self._runner.taken(order.child)

    async def _begun(self, parent: LiveRun, order: StartChild) -> LiveRun:
        runner, sub = self._runner, parent.crew.sub_crews[order.crew]
        crew = await runner.crews.of(sub.crew_sha)
        state, prefix = parent.run.state, f"{order.name}/"
        calls = {name.removeprefix(prefix): n for name, n in state.calls.items() if name.startswith(prefix)}
        event = RunStarted(
            crew=crew.name,
            input=order.input,
            frames=order.frames,
            rules=RULES,
            messages=registered(),
            crew_sha=sub.crew_sha,
            history=shown_history(parent, order),
            path=(*state.path, order.crew),
            way=_way(state, order),
            calls=calls,
            context=CrewContext(
                original_input=state.original_input,
                previous_results=dict(state.results),
                shared_memory=dict(state.memory),
            ),
            hops=max(state.hops, order.hops),
            bounds=Bounds(caps=sub.settings, given=order.given, limits=parent.run.budgets.for_children()),
        )
        row = RunRow(
            run=order.child,
            crew=crew.name,
            crew_sha=sub.crew_sha,
            status="new",
            created_at=runner.clock.now_ms(),
            organization=crew.settings.organization or parent.row.organization,
        )
        return await runner.begin(Run(crew, order.child, table=runner.table(crew, sub.crew_sha)), row, event)

    async def _at_rest(self, child: LiveRun) -> RunState:
        """How it stands; read anew if somebody else has had it in hand since."""
        state = child.run.state
        if state.status in OVER or (await self._runner.journal.row(child.id)).seq == state.seq:
            return state
        again = await self._runner.taken(child.id)
        await self._runner.let_go_unless_driven(again)
        return again.run.state


def _way(state: RunState, order: StartChild) -> tuple[str, ...]:
    """Only where it differs from the path."""
    is_the_path = order.name == order.crew and not state.way
    return () if is_the_path else (*(state.way or state.path), order.name)


def shown_history(parent: LiveRun, order: StartChild) -> tuple[Entry, ...]:
    """What the child sees of what was said before, each entry with the crew of who said it."""
    if not order.history:
        return ()
    first = 0 if order.history < 0 else max(0, order.until - order.history)
    return named_for(parent.crew.name, parent.run.state.history[first : order.until])


def named_for(crew: str, entries: list[Entry]) -> tuple[Entry, ...]:
    """Entries as another crew sees them: an agent of its own may have the same id."""
    return tuple(msgspec.structs.replace(entry, author=_author(crew, entry.author)) for entry in entries)


def _author(crew: str, author: str) -> str:
    return author if author in RESERVED_IDS or "/" in author else f"{crew}/{author}"


def lost(order: StartChild | StopChild, error: InterlockError) -> ChildReturned:
    """What came of a child that cannot be read any more."""
    return ChildReturned(call=order.key, status="failed", reason=error.code)


def returned(order: StartChild | StopChild, state: RunState) -> ChildReturned:
    returns = order.returns if isinstance(order, StartChild) else 0
    own = [entry for entry in state.history if entry.run == state.run]
    return ChildReturned(
        call=order.key,
        status=state.status,
        reason=state.reason,
        text=state.text,
        usage=state.usage,
        memory={key: state.memory[key] for key in state.written},
        history=named_for(state.path[-1], own[-returns:]) if returns else (),
        calls=dict(state.calls),
        above=state.above,
        detail=state.detail,
    )


def _waits(order: StartChild, state: RunState) -> ChildWaits:
    waits = tuple(ChildWait(token=wait.token, agent=wait.agent, reason=wait.reason) for wait in state.waits)
    return ChildWaits(call=order.key, waits=waits)
