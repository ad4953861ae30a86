"""One transition in the making: what was concluded so far, and what is ordered."""

import msgspec

from interlock.crew.definition import Crew, Settings
from interlock.engine.budgets import Budgets
from interlock.engine.effects import Cancel, Effect, RunTool, Settle
from interlock.engine.events import DerivedEvent, Entry
from interlock.engine.index import Index
from interlock.engine.routing import RoutingTable
from interlock.engine.state import (
    Branch,
    Child,
    RunState,
    Task,
    Turn,
    Wait,
    children_of,
    turns_by,
    turns_of,
    with_the_floor,
)
from interlock.frames import Frame

# What a turn is, if it has not the floor and is no group's.
TASK, SELECT, CHECK = "task", "select", "check"
# What an agent's model is asked for besides the agent's own work.
PURPOSES = (SELECT, CHECK)


class Refusal(Exception):
    """What a model asked for is not done; the text says why, and what now."""


class Queues:
    """Who is to be looked at before the transition is over; see `attention`."""

    def __init__(self) -> None:
        self.with_task: list[tuple[int, str]] = []
        self.suspended: list[tuple[int, int, str]] = []
        self.in_doubt: list[tuple[int, int, str]] = []


class Transition:
    """Collects facts and effects while moves are carried out; the state is changed in place."""

    def __init__(
        self, crew: Crew, settings: Settings, table: RoutingTable, budgets: Budgets, state: RunState, index: Index
    ) -> None:
        self.crew, self.settings, self.table, self.budgets = crew, settings, table, budgets
        self.state, self.index = state, index
        self.at = state.seq
        self.facts: list[DerivedEvent] = []
        self.effects: list[Effect] = []
        self._keys = 0
        self.timers_started: dict[str, None] = {}
        # Agents for whom something may have changed: only they can go on, and those who wait for them.
        self.touched = dict.fromkeys(turn.agent for turn in with_the_floor(state)) if state.mailboxes else {}
        self.queues = Queues()
        self.mail: tuple[str, ...] = ()  # agents with something in their inbox
        self.went_aside = False

    def conclude(self, fact: DerivedEvent) -> None:
        self.facts.append(fact)
        self.state.seq += 1

    def remember(self, role: str, author: str, text: str, turn: int, frames: tuple[Frame, ...] = ()) -> None:
        """A line of shared history. Runs of older rules keep no frames: their state is what it was."""
        kept = frames if frames and self.state.rules >= 3 else msgspec.UNSET
        self.state.history.append(
            Entry(role=role, author=author, text=text, run=self.state.run, turn=turn, frames=kept)
        )

    def order(self, effect: Effect) -> None:
        self.effects.append(effect)
        if isinstance(effect, RunTool):
            self.index.tools[effect.key] = effect.agent

    @property
    def can_move(self) -> bool:
        """Whether the state may move on: while the run is running, or parked."""
        return self.state.status == "running" or bool(self.state.parked)

    def go_on(self) -> None:
        """Something can continue; a parked run waits for its resume all the same."""
        if not self.state.parked:
            self.state.status = "running"

    def new_key(self) -> str:
        """A key that no other effect of this run has; outside, the run's id stands before it."""
        key = f"{self.at}.{self._keys}"
        self._keys += 1
        return key

    def new_token(self) -> str:
        """People and programs hand it in without saying which run it is of."""
        return f"{self.state.run}:{self.new_key()}"

    def new_message_id(self) -> str:
        """Of the next message that is sent; short and steady, because models see it without the run."""
        return f"{self.state.run}:m{self.state.messages + 1}"

    def give_up(self, key: str) -> bool:
        """Whether the effect was ordered before; one of this very transition is not ordered after all."""
        self.index.tools.pop(key, None)
        fresh = self._ordered_just_now(key)
        if fresh is not None:
            self.effects.remove(fresh)
        elif key:
            self.order(Cancel(key=key))
        return fresh is None

    def _ordered_just_now(self, key: str) -> Effect | None:
        if not key.startswith(f"{self.at}."):
            return None
        keyed = (effect for effect in self.effects if effect.key == key)
        return next((effect for effect in keyed if not isinstance(effect, Cancel | Settle)), None)

    def drop_task(self, task: Task) -> None:
        """Nobody works on it any more, and its agent is free."""
        del self.state.tasks[task.worker]
        self.touched[task.worker] = None

    # Finding things

    def turns(self) -> list[Turn]:
        return turns_of(self.state)

    def children(self) -> list[Child]:
        return children_of(self.state)

    def child_with(self, key: str) -> Child | None:
        return next((child for child in self.children() if child.key == key), None)

    def turn_that(self, called: str, agent: str) -> Turn | None:
        turn = self.state.turn
        if turn is not None and turn.call == called:
            return turn
        return next((turn for turn in turns_by(self.state, agent) if turn.call == called), None)

    def turn_that_reserves(self, key: str, agent: str) -> Turn | None:
        return next((turn for turn in turns_by(self.state, agent) if turn.reserving == key), None)

    def branch_with(self, child: Child) -> Branch | None:
        branches = self.state.group.branches if self.state.group is not None else []
        return next((branch for branch in branches if branch.child is child), None)

    def branch_of(self, turn: Turn) -> Branch | None:
        if self.state.group is None:
            return None
        return next((branch for branch in self.state.group.branches if branch.turn is turn), None)

    def task_of(self, turn: Turn) -> Task | None:
        task = self.state.tasks.get(turn.agent)
        return task if task is not None and task.turn is turn else None

    def task_with(self, child: Child) -> Task | None:
        return next((task for task in self.state.tasks.values() if task.child is child), None)

    def wait_with(self, token: str) -> Wait | None:
        return next((wait for wait in self.state.waits if wait.token == token), None)
