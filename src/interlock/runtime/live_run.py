"""A run that this process has claimed: its state, its inbox, its tasks."""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from interlock.crew.definition import AgentDefinition
from interlock.engine.effects import CallModel, RunTool
from interlock.engine.events import IncomingEvent
from interlock.engine.flow.waits import agents_at_work
from interlock.engine.kinds import RunStatus, TurnKind
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.prompt.texts import PromptTexts
from interlock.engine.run import Run
from interlock.engine.state import turns_by
from interlock.errors import NotOwner
from interlock.ids import root_of
from interlock.ports import AtomicWrites, CrewRef, ModelRequest, Record, RunQuestions, RunRow
from interlock.runtime.calls.question_log import QuestionLog

# The prefix of the task key of a child that is being stopped.
STOPPING = "stop "


class PendingModelCall(msgspec.Struct, frozen=True, gc=False):
    """A model call with its request, ready to be made."""

    effect: CallModel
    agent: AgentDefinition
    request: ModelRequest
    scale: int


class Slots:
    """So many holders at a time; the others get a slot in the order in which they asked.

    Like `asyncio.Semaphore`, but a free slot can be taken without a coroutine: every step takes two.
    """

    def __init__(self, free: int) -> None:
        self.free = free
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_free(self) -> bool:
        """Takes a slot if one is free, else the caller has to `wait`."""
        if not self.free:
            return False
        self.free -= 1
        return True

    async def wait(self) -> None:
        """Waits for a slot, and takes it."""
        slot = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if not slot.cancelled():  # the slot came together with the cancellation
                self.give_back()
            raise

    def give_back(self) -> None:
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():  # else its task was cancelled
                slot.set_result(None)
                return
        self.free += 1

    async def __aenter__(self) -> None:
        if not self.take_free():
            await self.wait()

    async def __aexit__(self, *_: object) -> None:
        self.give_back()


class LiveRun:
    """One owner, one inbox; every task it started is in `tasks` until it ends.

    A call that is the only work needs no task of its own: the driver awaits it (`lone`, then `alone`).
    """

    def __init__(self, run: Run, row: RunRow, texts: PromptTexts, has_lease: Callable[[], bool]) -> None:
        self.run, self.row = run, row
        self._has_lease = has_lease
        self.id, self.crew = row.run, run.crew
        # The key of an effect outside the run, unique over all runs.
        self.key = f"{row.run}:".__add__
        self.crew_ref = CrewRef(run.crew.name, row.crew_sha, root_of(row.run))
        self.conversation = Conversation(run.crew, run.table, texts)
        # What is the same in all requests of an agent; see `model_request`.
        self.requests: dict[tuple[str, str, TurnKind, bool], ModelRequest] = {}
        # The agents at work as the bus knows them, with the hops of their broadcasts.
        self.at_work, self.is_waiting = agents_at_work(run.state), True
        # None only wakes the driver: another task has committed an event, and the run may be over.
        self.inbox: deque[IncomingEvent | None] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self.tasks: dict[str, asyncio.Task[None]] = {}
        # Calls of models and tools that have begun, until their outcome is stored or in the inbox.
        self.begun: set[str] = set()
        # Whether the last process may have begun calls that died with it; until they are counted.
        self.lost_calls = False
        # When people were asked, in wall-clock time; the engine knows working time only.
        self.question_log = QuestionLog()
        self.open_tokens = _tokens(run)
        self.last_ms: int | None = None
        # One transition at a time: its record is stored before the next event is applied.
        self.lock = Slots(1)
        self.driver: asyncio.Task[None] | None = None
        self.driver_commits = False  # the driver holds the lock; else another task does
        self.steps = 0
        self.lone: PendingModelCall | None = None
        self.alone = ""
        self.given_up = False
        # Commits the inbox while the driver awaits a call itself; the driver raises its errors.
        self.pump: asyncio.Task[None] | None = None
        self.pumped: Callable[[LiveRun], Coroutine[Any, Any, None]] | None = None
        self.failure: Exception | None = None

    def require_lease(self) -> None:
        """Every effect asks before it starts: another process may drive the run by now."""
        if not self._has_lease():
            raise NotOwner(self.id)

    def is_calling(self, call: CallModel) -> bool:
        """True if the run still waits for the reply to this call."""
        state = self.run.state
        return state.status is RunStatus.RUNNING and any(turn.call == call.key for turn in turns_by(state, call.agent))

    def is_awaiting(self, tool: RunTool) -> bool:
        """True if the run still waits for the result of this tool."""
        return tool.key in self.run.index.tools and not self.run.state.parked

    def with_questions(self, record: Record, also: AtomicWrites) -> AtomicWrites:
        """The writes of a record, with the open questions if these have changed."""
        if self.run.state.waits:  # else there is no question
            self.question_log.add_record(record)
        before, self.open_tokens = self.open_tokens, _tokens(self.run)
        if self.open_tokens == before:
            return also
        asking = RunQuestions(run=self.id, questions=self.question_log.open_questions(self.run.state, self.crew.name))
        return msgspec.structs.replace(also, asking=asking)

    def start_task(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Starts work in a task that belongs to the run."""

        def forget_task(done: "asyncio.Task[None]") -> None:
            if self.tasks.get(key) is done:
                del self.tasks[key]

        task = self.tasks[key] = asyncio.ensure_future(work)
        task.add_done_callback(forget_task)

    def fail(self, error: Exception) -> None:
        """Makes the driver raise the error, whatever it awaits."""
        self.failure = error
        self.enqueue_event(None)
        self.cancel_work(self.alone)

    def enqueue_event(self, event: IncomingEvent | None) -> None:
        """Puts an event into the inbox; if the driver awaits a call, another task commits it."""
        self.inbox.append(event)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        self.start_pump_if_alone()

    async def next_event(self) -> IncomingEvent | None:
        """Waits for the next event of the inbox. Only the driver does."""
        while not self.inbox:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        return self.inbox.popleft()

    def cancel_work(self, key: str) -> None:
        """Stops the work with this key, in a task or in the driver."""
        if self.lone is not None and self.lone.effect.key == key:
            self.lone = None
        elif key == self.alone and key and self.driver is not None:
            self.given_up = True
            self.driver.cancel()
        elif key in self.tasks:
            self.tasks[key].cancel()

    def has_unbegun_driver(self) -> bool:
        """Whether the driver has not made its first step: cancelled now, it would run no code, and release nothing."""
        work = self.driver.get_coro() if self.driver is not None else None
        return inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED

    def stop_driver(self) -> None:
        """Cancels the driver, if there is one: after its first step at the earliest."""
        if self.has_unbegun_driver():
            asyncio.get_running_loop().call_soon(self.stop_driver)
        elif self.driver is not None:
            self.driver.cancel()

    def clear_call_cancellation(self) -> bool:
        """Clears the cancellation of a call; False if the driver itself is to stop."""
        if not self.given_up or self.driver is None:
            return False
        self.given_up = False
        return self.driver.uncancel() == 0

    def start_pump_if_alone(self) -> None:
        """Starts the task that commits the inbox, if the driver awaits a call and there is an event."""
        if self.alone and self.pump is None and self.pumped is not None and self.inbox:
            self.pump = asyncio.create_task(self.pumped(self))


def _tokens(run: Run) -> list[str]:
    return [wait.token for wait in run.state.waits if not wait.child]
