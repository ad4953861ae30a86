"""A transition in progress: the facts recorded and the effects emitted so far."""

from functools import cached_property

import msgspec

from interlock.crew.definition import CrewDefinition, CrewSettings
from interlock.engine.budgets.limits import CrewBudgets
from interlock.engine.effects import Cancel, Effect, Settle
from interlock.engine.events import DerivedEvent, Entry
from interlock.engine.index import Index
from interlock.engine.kinds import RunStatus
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.state import (
    Branch,
    ChildRun,
    RunState,
    Task,
    Turn,
    Wait,
    child_runs_of,
    foreground_turns,
    turns_by,
    turns_of,
)
from interlock.messages.frames import Frame


class ToolRefusal(Exception):
    """A tool call is refused; the text tells the model why, and what to do."""


class WakeupQueues(msgspec.Struct):
    """The agents to look at before the transition is over; see `delegation.wakeups`."""

    with_task: list[tuple[int, str]] = []
    suspended: list[tuple[int, int, str]] = []
    in_doubt: list[tuple[int, int, str]] = []


class Transition:
    """Collects facts and effects while stages are carried out; the state is changed in place.

    `record` adds a fact, `emit` an effect.
    """

    caller: Turn | None = None  # the turn whose model call this event ends
    went_aside = False
    _keys = 0

    def __init__(
        self,
        crew: CrewDefinition,
        settings: CrewSettings,
        table: RoutingTable,
        budgets: CrewBudgets,
        state: RunState,
        index: Index,
        mail: tuple[str, ...] = (),
    ) -> None:
        self.crew, self.settings, self.table, self.budgets = crew, settings, table, budgets
        self.state, self.index, self.at = state, index, state.seq
        self.mail = mail  # agents with broadcasts in their inbox
        self.facts: list[DerivedEvent] = []
        self.effects: list[Effect] = []
        self.record, self.emit = self.facts.append, self.effects.append
        self.timers_started: dict[str, None] = {}
        # Agents for whom something may have changed: only they, and those who wait for them, can continue.
        self.touched = dict.fromkeys(turn.agent for turn in foreground_turns(state)) if state.mailboxes else {}
        # Whether an agent of this run has a state in the message protocol, or a mailbox. Other runs exchange nothing.
        self.has_messaging = bool(state.agents or state.mailboxes)

    @cached_property
    def queues(self) -> WakeupQueues:
        return WakeupQueues()

    def add_history(self, role: str, author: str, text: str, turn: int, frames: tuple[Frame, ...] = ()) -> None:
        """Adds a line to shared history. Runs of older rules keep no frames, so that their state stays the same."""
        kept = frames if frames and self.state.rules >= 3 else msgspec.UNSET
        self.state.history.append(
            Entry(role=role, author=author, text=text, run=self.state.run, turn=turn, frames=kept)
        )

    @property
    def can_continue(self) -> bool:
        """Whether stages may follow: the run is running or parked."""
        return self.state.status is RunStatus.RUNNING or bool(self.state.parked)

    def exchanges_messages(self, agent: str) -> bool:
        """Whether the agent has a place in the delegation tree, may ask a person, or has had a message."""
        return agent in self.table.messaging_agents or agent in self.state.agents

    def mark_running(self) -> None:
        """Marks the run as running, because something can continue; a parked run still waits for its resume."""
        if not self.state.parked:
            self.state.status = RunStatus.RUNNING

    def new_key(self) -> str:
        """A key that no other effect of this run has; the driver puts the run's id before it."""
        key = f"{self.at}.{self._keys}"
        self._keys += 1
        return key

    def new_token(self) -> str:
        """A token that names its run, because an answer comes without one."""
        return f"{self.state.run}:{self.new_key()}"

    def new_message_id(self) -> str:
        """The id of the next message; models see it without the run, so it is short and the same after a fork."""
        return f"{self.state.run}:m{self.state.messages + 1}"

    def cancel(self, key: str) -> bool:
        """Cancels an effect, or drops one of this transition; returns whether it was emitted before."""
        self.index.tools.pop(key, None)
        fresh = self._effect_of_this_transition(key)
        if fresh is not None:
            self.effects.remove(fresh)
        elif key:
            self.emit(Cancel(key=key))
        return fresh is None

    def _effect_of_this_transition(self, key: str) -> Effect | None:
        if not key.startswith(f"{self.at}."):
            return None
        keyed = (effect for effect in self.effects if effect.key == key)
        return next((effect for effect in keyed if not isinstance(effect, Cancel | Settle)), None)

    def drop_task(self, task: Task) -> None:
        """Removes the task, so that its agent is free."""
        del self.state.tasks[task.worker]
        self.touched[task.worker] = None

    # Finding things

    def turns(self) -> list[Turn]:
        return turns_of(self.state)

    def children(self) -> list[ChildRun]:
        return child_runs_of(self.state)

    def child_with(self, key: str) -> ChildRun | None:
        return next((child for child in self.children() if child.key == key), None)

    def turn_calling(self, called: str, agent: str) -> Turn | None:
        turn = self.state.turn
        if turn is not None and turn.call == called:
            return turn
        return next((turn for turn in turns_by(self.state, agent) if turn.call == called), None)

    def turn_reserving(self, key: str, agent: str) -> Turn | None:
        return next((turn for turn in turns_by(self.state, agent) if turn.reserving == key), None)

    def branch_with(self, child: ChildRun) -> Branch | None:
        branches = self.state.group.branches if self.state.group is not None else []
        return next((branch for branch in branches if branch.child is child), None)

    def branch_of(self, turn: Turn) -> Branch | None:
        if self.state.group is None:
            return None
        return next((branch for branch in self.state.group.branches if branch.turn is turn), None)

    def task_of(self, turn: Turn) -> Task | None:
        task = self.state.tasks.get(turn.agent)
        return task if task is not None and task.turn is turn else None

    def task_with(self, child: ChildRun) -> Task | None:
        return next((task for task in self.state.tasks.values() if task.child is child), None)

    def wait_with(self, token: str) -> Wait | None:
        return next((wait for wait in self.state.waits if wait.token == token), None)
