"""A run that this process has claimed: its state, its inbox, its tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from interlock.broadcast.naming import series_name
from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.engine.effects import CallModel, RunTool
from interlock.engine.events import IncomingEvent
from interlock.engine.flow.waits import agents_at_work
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.run import Run
from interlock.engine.state import turns_by
from interlock.ports import AtomicWrites, CrewRef, ModelRequest, RunQuestions, RunRow
from interlock.runtime.calls.question_log import QuestionLog

# The prefix of the task key of a child that is being stopped.
STOPPING = "stop "


class PendingModelCall(NamedTuple):
    """A model call with its request, ready to be made."""

    effect: CallModel
    agent: AgentDefinition
    request: ModelRequest
    scale: int


class LiveRun:
    """One owner, one inbox; every task it started is in `tasks` until it ends.

    A call that is the only work needs no task of its own: the driver awaits it (`lone`, then `alone`).
    """

    def __init__(self, run: Run, row: RunRow) -> None:
        self.run, self.row = run, row
        self.crew_ref = CrewRef(run.crew.name, row.crew_sha)
        self.conversation = Conversation(run.crew, run.table)
        # The agents at work as the bus knows them, with the hops of their broadcasts; `series` begins the ids of those.
        self.at_work, self.is_waiting = agents_at_work(run.state), True
        self.series = series_name(self.key("at work"))
        # None only wakes the driver: another task has committed an event, and the run may be over.
        self.inbox: asyncio.Queue[IncomingEvent | None] = asyncio.Queue()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        # When people were asked, in wall-clock time; the engine knows working time only.
        self.question_log = QuestionLog()
        self._open = _tokens(run)
        self.last_ms: int | None = None
        # One transition at a time: its record is stored before the next event is applied.
        self.lock = asyncio.Lock()
        self.driver: asyncio.Task[None] | None = None
        self.steps = 0
        self.lone: PendingModelCall | None = None
        self.alone = ""
        self.given_up = False
        # Commits the inbox while the driver awaits a call itself; the driver raises its errors.
        self.pump: asyncio.Task[None] | None = None
        self.pumped: Callable[[LiveRun], Coroutine[Any, Any, None]] | None = None
        self.failure: Exception | None = None

    @property
    def id(self) -> str:
        return self.row.run

    @property
    def crew(self) -> CrewDefinition:
        return self.run.crew

    @property
    def has_work(self) -> bool:
        return self.run.state.status == "running" or not self.inbox.empty()

    def is_calling(self, call: CallModel) -> bool:
        """True if the run still waits for the reply to this call."""
        state = self.run.state
        return state.status == "running" and any(turn.call == call.key for turn in turns_by(state, call.agent))

    def is_awaiting(self, tool: RunTool) -> bool:
        """True if the run still waits for the result of this tool."""
        return tool.key in self.run.index.tools and not self.run.state.parked

    def key(self, inner: str) -> str:
        """The key of an effect outside the run, unique over all runs."""
        return f"{self.row.run}:{inner}"

    def measure_working_ms(self, now_ms: int) -> int:
        """The working time since the last event."""
        before, self.last_ms = self.last_ms, now_ms
        return max(0, now_ms - before) if before is not None else 0

    def with_questions(self, also: AtomicWrites) -> AtomicWrites:
        """The writes, with the open questions if these have changed."""
        before, self._open = self._open, _tokens(self.run)
        if self._open == before:
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

    @property
    def can_call_alone(self) -> bool:
        """True if the driver can await a call itself, because there is no other work."""
        if self.tasks or self.alone or self.lone is not None or not self.inbox.empty():
            return False
        return self.driver is None or self.driver is asyncio.current_task()

    def enqueue_event(self, event: IncomingEvent | None) -> None:
        """Puts an event into the inbox; if the driver awaits a call, another task commits it."""
        self.inbox.put_nowait(event)
        self._start_pump_if_alone()

    def take_lone_call(self) -> PendingModelCall | None:
        """Takes the call that the driver is to await itself, if any."""
        call, self.lone = self.lone, None
        if call is not None:
            self.alone = call.effect.key
            self._start_pump_if_alone()
        return call

    def cancel_work(self, key: str) -> None:
        """Stops the work with this key, in a task or in the driver."""
        if self.lone is not None and self.lone.effect.key == key:
            self.lone = None
        elif key == self.alone and key and self.driver is not None:
            self.given_up = True
            self.driver.cancel()
        elif key in self.tasks:
            self.tasks[key].cancel()

    def clear_call_cancellation(self) -> bool:
        """Clears the cancellation of a call; False if the driver itself is to stop."""
        if not self.given_up or self.driver is None:
            return False
        self.given_up = False
        return self.driver.uncancel() == 0

    def _start_pump_if_alone(self) -> None:
        if self.alone and self.pump is None and self.pumped is not None and not self.inbox.empty():
            self.pump = asyncio.create_task(self.pumped(self))


def _tokens(run: Run) -> list[str]:
    return [wait.token for wait in run.state.waits if not wait.child]
