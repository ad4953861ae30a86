"""A run in the hands of this process: its state, its inbox, and what it has under way."""

import asyncio

from interlock.crew.definition import Crew
from interlock.engine.conversation import Conversation
from interlock.engine.events import IncomingEvent
from interlock.engine.step import Run
from interlock.ports import RunRow


class LiveRun:
    """One owner, one inbox; every task it started is in `tasks` until it ends."""

    def __init__(self, run: Run, row: RunRow) -> None:
        self.run, self.row = run, row
        self.conversation = Conversation(run.crew, run.table)
        self.inbox: asyncio.Queue[IncomingEvent] = asyncio.Queue()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.last_ms: int | None = None
        # One transition at a time: its record is stored before the next event is looked at.
        self.lock = asyncio.Lock()

    @property
    def id(self) -> str:
        return self.row.run

    @property
    def crew(self) -> Crew:
        return self.run.crew

    @property
    def can_go_on(self) -> bool:
        return self.run.state.status == "running" or not self.inbox.empty()

    def worked_ms(self, now_ms: int) -> int:
        """Working time since the event before; none while nothing was under way."""
        before, self.last_ms = self.last_ms, now_ms
        return max(0, now_ms - before) if before is not None else 0

    def own(self, key: str, task: "asyncio.Task[None]") -> None:
        self.tasks[key] = task
        task.add_done_callback(lambda _: self.tasks.pop(key, None))
