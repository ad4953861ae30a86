"""A run in the hands of this process: its state, its inbox, and what it has under way."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from interlock.broadcast.naming import series_name
from interlock.crew.definition import Agent, Crew
from interlock.engine.conversation import Conversation
from interlock.engine.effects import CallModel, RunTool
from interlock.engine.events import IncomingEvent
from interlock.engine.state import turns_by
from interlock.engine.step import Run
from interlock.engine.waiting import agents_at_work
from interlock.ports import Alongside, Asking, ModelRequest, RunRow
from interlock.runtime.asking import Asked

# Before the key of a child that is being stopped.
STOPPING = "stop "


class Call(NamedTuple):
    """A model call that was ordered, ready to be made."""

    effect: CallModel
    agent: Agent
    request: ModelRequest
    scale: int


class LiveRun:
    """One owner, one inbox; every task it started is in `tasks` until it ends.

    A call that is the only thing under way needs no task of its own: the driver awaits it (`lone`, then `alone`).
    """

    def __init__(self, run: Run, row: RunRow) -> None:
        self.run, self.row = run, row
        self.conversation = Conversation(run.crew, run.table)
        # Who is at work in it, as the bus knows; each with the hops of what it announces. And how ids of that begin.
        self.at_work, self.is_waiting = agents_at_work(run.state), True
        self.series = series_name(self.key("at work"))
        # Nothing but a wake-up call is None: somebody else took an event in, and the run may be over.
        self.inbox: asyncio.Queue[IncomingEvent | None] = asyncio.Queue()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        # When people were asked, in everybody's time; the engine knows working time alone.
        self.asked = Asked()
        self._open = _tokens(run)
        self.last_ms: int | None = None
        # One transition at a time: its record is stored before the next event is looked at.
        self.lock = asyncio.Lock()
        self.driver: asyncio.Task[None] | None = None
        self.steps = 0
        self.lone: Call | None = None
        self.alone = ""
        self.given_up = False
        # Takes the inbox in while the driver awaits a call itself; what went wrong there is the driver's to raise.
        self.pump: asyncio.Task[None] | None = None
        self.pumped: Callable[[LiveRun], Coroutine[Any, Any, None]] | None = None
        self.failure: Exception | None = None

    @property
    def id(self) -> str:
        return self.row.run

    @property
    def crew(self) -> Crew:
        return self.run.crew

    @property
    def can_go_on(self) -> bool:
        return self.run.state.status == "running" or not self.inbox.empty()

    def is_calling(self, call: CallModel) -> bool:
        """Whether the run still waits for what a model says to this call."""
        state = self.run.state
        return state.status == "running" and any(turn.call == call.key for turn in turns_by(state, call.agent))

    def is_awaiting(self, tool: RunTool) -> bool:
        """Whether the run still waits for what this tool returns."""
        return tool.key in self.run.index.tools and not self.run.state.parked

    def key(self, inner: str) -> str:
        """An effect's key as the world outside knows it: no other run has it."""
        return f"{self.row.run}:{inner}"

    def worked_ms(self, now_ms: int) -> int:
        """Working time since the event before; none while nothing was under way."""
        before, self.last_ms = self.last_ms, now_ms
        return max(0, now_ms - before) if before is not None else 0

    def with_questions(self, also: Alongside) -> Alongside:
        """With what people are asked now, if that is not what they were asked before."""
        before, self._open = self._open, _tokens(self.run)
        if self._open == before:
            return also
        asking = Asking(run=self.id, questions=self.asked.open(self.run.state, self.crew.name))
        return msgspec.structs.replace(also, asking=asking)

    def own(self, key: str, task: "asyncio.Task[None]") -> None:
        def ended(done: "asyncio.Task[None]") -> None:
            if self.tasks.get(key) is done:
                del self.tasks[key]

        self.tasks[key] = task
        task.add_done_callback(ended)

    def fail(self, error: Exception) -> None:
        """The driver is to raise it, whatever it awaits."""
        self.failure = error
        self.tell(None)
        self.give_up(self.alone)

    @property
    def may_call_alone(self) -> bool:
        """Whether the driver will look for a call to await next, and nothing else is under way."""
        if self.tasks or self.alone or self.lone is not None or not self.inbox.empty():
            return False
        return self.driver is None or self.driver is asyncio.current_task()

    def tell(self, event: IncomingEvent | None) -> None:
        """Into the inbox; if the driver is busy with a call, somebody else takes it out."""
        self.inbox.put_nowait(event)
        self._pump_if_alone()

    def take_lone_call(self) -> Call | None:
        """The call that the driver is to await itself."""
        call, self.lone = self.lone, None
        if call is not None:
            self.alone = call.effect.key
            self._pump_if_alone()
        return call

    def give_up(self, key: str) -> None:
        """Stops what works under this key, whoever awaits it."""
        if self.lone is not None and self.lone.effect.key == key:
            self.lone = None
        elif key == self.alone and key and self.driver is not None:
            self.given_up = True
            self.driver.cancel()
        elif key in self.tasks:
            self.tasks[key].cancel()

    def was_given_up(self) -> bool:
        """Whether it was the call that was stopped, and nobody wants the driver itself to stop."""
        if not self.given_up or self.driver is None:
            return False
        self.given_up = False
        return self.driver.uncancel() == 0

    def _pump_if_alone(self) -> None:
        if self.alone and self.pump is None and self.pumped is not None and not self.inbox.empty():
            self.pump = asyncio.create_task(self.pumped(self))


def _tokens(run: Run) -> list[str]:
    return [wait.token for wait in run.state.waits if not wait.child]
