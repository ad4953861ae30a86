"""The doors of a simulated process: real parts behind them, with trouble in between.

Rule 1: a dead process reaches nobody: every door is shut at once.
Rule 2: trouble is drawn from the seed; in the quiet phase there is none.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from interlock.adapters.tools_mcp import PREFIX, server_of, shown_name
from interlock.adapters.tools_python import PythonTool, PythonToolbox
from interlock.crew.definition import Crew
from interlock.engine.own_tools import OWN_TOOLS
from interlock.errors import ModelRefused, ModelUnavailable, StoreFailed, ToolFailed
from interlock.ports import (
    NOTHING_ELSE,
    Alongside,
    Appended,
    Delta,
    Grant,
    Model,
    ModelReply,
    ModelRequest,
    Order,
    OrderOutcome,
    Outgoing,
    Posted,
    Record,
    Reservation,
    RunRow,
    Settlement,
    StoredRecord,
    ToolSchema,
)
from interlock.testing.faults import Faults
from interlock.testing.memory_bus import MemoryBus
from interlock.testing.memory_store import MemoryStore
from interlock.testing.referee import Referee
from interlock.testing.seeds import chance_of
from interlock.testing.simulated_loop import SimulatedClock

# What a call takes on an ordinary day, and on a slow one, in milliseconds of virtual time.
ORDINARY_MS = 400
SLOW_MS = 60_000
# Longer than any bound of a run.
NEVER_MS = 10**10
COMMIT_MS = 20


class Weather:
    """Decides by the seed what goes wrong now. When it is calm, nothing does."""

    def __init__(self, faults: Faults, seed: int | str) -> None:
        self.faults, self.chance = faults, chance_of(seed, "weather")
        self.is_calm = False
        self.crashes = 0
        self.is_store_away = False

    def strikes(self, rate: float) -> bool:
        return not self.is_calm and self.chance.random() < rate

    def crash_strikes(self) -> bool:
        return self.crashes < self.faults.crashes_max and self.strikes(self.faults.crash)


class Doors(Protocol):
    """What a port knows of the process it belongs to."""

    number: int
    referee: Referee
    weather: Weather
    clock: SimulatedClock
    listens: bool

    def boundary(self, name: str) -> None:
        """A place where the process may die, and does if it is dead already."""
        ...


class SimulatedStore:
    """`Journal` and `Owners` as one process sees them: a memory store behind a line that may break."""

    def __init__(self, doors: Doors, memory: MemoryStore) -> None:
        self._doors, self._memory = doors, memory
        self.bus = SimulatedBus(doors, memory)

    async def create(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        async def begun(row: RunRow, record: Record, also: Alongside) -> Appended:
            appended = await self._memory.create(row, record, also)
            self._doors.referee.begun(row.run, row.crew_sha, self._doors.number)
            return appended

        return await self._write(begun, row, record, also)

    async def append(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        return await self._write(self._memory.append, row, record, also)

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        await self._line("spend")
        return await self._memory.spend(row, orders)

    async def pending(self, run: str | None = None) -> Sequence[Outgoing]:
        await self._line("read")
        return await self._memory.pending(run)

    async def delivered(self, key: str) -> None:
        await self._line("delivered")
        await self._memory.delivered(key)

    async def _write(self, write: Callable[..., Any], row: RunRow, record: Record, also: Alongside) -> Appended:
        doors, faults = self._doors, self._doors.weather.faults
        await self._line("before commit")
        if doors.weather.strikes(faults.store_away):
            doors.referee.inject(f"the store is away at seq {record.seq}")
            raise StoreFailed("the store is away; try again")
        appended: Appended = await write(row, record, also)
        doors.referee.committed(doors.number, row.run, record)
        doors.boundary("after commit")
        if doors.weather.strikes(faults.store_unsure):
            doors.referee.inject(f"the store wrote seq {record.seq}, and its answer was lost")
            raise StoreFailed("the store broke off; whether it wrote is not known")
        await self._line("acknowledge")
        return appended

    async def _line(self, boundary: str) -> None:
        await self._doors.clock.sleep(self._doors.weather.chance.randrange(COMMIT_MS))
        self._doors.boundary(boundary)
        if self._doors.weather.is_store_away:
            raise StoreFailed("the store is away for an hour; try again")

    async def claim(self, run: str) -> int:
        await self._line("claim")
        epoch = await self._memory.claim(run)
        self._doors.referee.claimed(run, self._doors.number)
        return epoch

    async def release(self, run: str) -> None:
        await self._line("release")
        await self._memory.release(run)

    async def is_owned(self, run: str) -> bool:
        await self._line("read")
        return await self._memory.is_owned(run)

    @property
    def owner(self) -> str:
        return self._memory.owner

    async def post(self, order: Order) -> Posted:
        await self._line("post an order")
        return await self._memory.post(order)

    async def orders_for(self, owner: str) -> Sequence[Order]:
        await self._line("read")
        return await self._memory.orders_for(owner)

    async def outcome(self, key: str) -> OrderOutcome | None:
        await self._line("read")
        return await self._memory.outcome(key)

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        await self._line("settle an order")
        await self._memory.settle(key, outcome)

    async def forget(self, key: str) -> None:
        await self._line("forget an order")
        await self._memory.forget(key)

    async def row(self, run: str) -> RunRow:
        await self._line("read")
        return await self._memory.row(run)

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        await self._line("read")
        return await self._memory.records(run, after, limit)

    async def whole(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        await self._line("read")
        return await self._memory.whole(run)

    async def rows(
        self,
        *,
        status: str | None = None,
        crew: str | Collection[str] | None = None,
        limit: int = 200,
        before: str | None = None,
        nested: bool | None = None,
    ) -> Sequence[RunRow]:
        await self._line("read")
        return await self._memory.rows(status=status, crew=crew, limit=limit, before=before, nested=nested)

    async def below(self, run: str) -> Sequence[RunRow]:
        await self._line("read")
        return await self._memory.below(run)

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        await self._line("read")
        return await self._memory.tree(run, after, position)

    async def put_crew(self, sha: str, body: bytes) -> None:
        await self._memory.put_crew(sha, body)

    async def crew(self, sha: str) -> bytes:
        return await self._memory.crew(sha)

    async def close(self) -> None:
        await self._memory.close()


class SimulatedBus(MemoryBus):
    """The bus as one process sees it, over a line that may break."""

    def __init__(self, doors: Doors, memory: MemoryStore) -> None:
        super().__init__(memory.bus.tables, memory.require_open)
        self._doors = doors

    async def over_the_line(self, name: str) -> None:
        if not self._doors.listens:
            return
        await self._doors.clock.sleep(self._doors.weather.chance.randrange(COMMIT_MS))
        self._doors.boundary(f"before {name}")
        if self._doors.weather.strikes(self._doors.weather.faults.store_away):
            self._doors.referee.inject(f"the bus is away at {name}")
            raise StoreFailed("the store is away; try again")


def _over_the_line(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def called(self: SimulatedBus, *values: Any, **named: Any) -> Any:
        await self.over_the_line(name)
        return await method(self, *values, **named)

    return called


for _name, _method in list(vars(MemoryBus).items()):
    if inspect.iscoroutinefunction(_method):
        setattr(SimulatedBus, _name, _over_the_line(_name, _method))


class SimulatedModel:
    """A model over a line that may be slow, silent or broken."""

    def __init__(self, doors: Doors, model: Model) -> None:
        self._doors, self._model = doors, model

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        doors = self._doors
        doors.boundary("ask")
        doors.referee.call_starts(doors.number, "model", request.key, repeatable=True)
        try:
            await self._trouble(request.key)
            async with aclosing(self._model.reply(request)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    yield piece
        finally:
            doors.referee.call_ends(doors.number, request.key)

    async def _trouble(self, key: str) -> None:
        weather, clock, referee = self._doors.weather, self._doors.clock, self._doors.referee
        await clock.sleep(weather.chance.randrange(ORDINARY_MS))
        if weather.strikes(weather.faults.hanging):
            referee.inject(f"call {key} is never answered")
            await clock.sleep(NEVER_MS)
        if weather.strikes(weather.faults.slow):
            referee.inject(f"call {key} is slow")
            await clock.sleep(weather.chance.randrange(SLOW_MS))
        if weather.strikes(weather.faults.failing):
            referee.inject(f"call {key} fails")
            raise ModelUnavailable("overloaded")
        if weather.strikes(weather.faults.refusing):
            referee.inject(f"call {key} is refused")
            raise ModelRefused("not with this key")


class SimulatedToolbox:
    """The host's tools, called where they stand, over a line that may be slow or broken."""

    def __init__(self, doors: Doors, tools: PythonToolbox) -> None:
        self._doors, self._tools = doors, tools

    def schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        return self._tools.schemas(tuple(map(_shown, names)))

    def is_idempotent(self, name: str) -> bool:
        return self._tools.is_idempotent(name)

    def needs_approval(self, name: str) -> bool:
        return self._tools.needs_approval(name)

    async def run(self, name: str, arguments: str, *, key: str) -> str:
        doors, weather = self._doors, self._doors.weather
        doors.boundary("tool")
        repeatable = self._tools.is_idempotent(name)
        doors.referee.call_starts(doors.number, "tool", key, repeatable=repeatable)
        try:
            await doors.clock.sleep(weather.chance.randrange(ORDINARY_MS))
            if weather.strikes(weather.faults.slow):
                doors.referee.inject(f"tool {name} is slow in call {key}")
                await doors.clock.sleep(weather.chance.randrange(SLOW_MS * 2))
            if weather.strikes(weather.faults.failing):
                doors.referee.inject(f"tool {name} fails in call {key}")
                raise ToolFailed("out of order")
            return await self._tools.run(name, arguments, key=key)
        finally:
            doors.referee.call_ends(doors.number, key)


def toolbox_for(crew: Crew, tools: Iterable[PythonTool | Callable[..., Any]], seed: int | str) -> PythonToolbox:
    """The given tools without threads, and a stand-in for every other one that the crew names."""
    given = [_inline(entry if isinstance(entry, PythonTool) else PythonTool(entry)) for entry in tools]
    names = {declared.name for declared in given}
    agents = [agent for each in crew.whole_tree() for agent in each.agents]
    named = dict.fromkeys(_shown(name) for agent in agents for name in agent.tools)
    missing = [name for name in named if name not in names and name not in OWN_TOOLS]
    return PythonToolbox([*given, *(_stand_in(name, seed) for name in missing)])


def _shown(name: str) -> str:
    """What models call it; of a whole MCP server one tool stands in."""
    if not name.startswith(PREFIX):
        return name
    return shown_name(server_of(name), name.partition("/")[2] or "tool").replace("-", "_")


def _inline(declared: PythonTool) -> PythonTool:
    function = declared.function
    if inspect.iscoroutinefunction(function):
        return declared

    @functools.wraps(function)
    async def called(*positional: Any, **named: Any) -> Any:
        return function(*positional, **named)

    return PythonTool(called, declared.idempotent, declared.needs_approval)


def _stand_in(name: str, seed: int | str) -> PythonTool:
    chance = chance_of(seed, name)

    async def called(text: str = "") -> str:
        return chance.choice(["done", "[END]", f"{text} [STOP] [NEXT]", "", "error"])

    called.__name__ = name
    called.__doc__ = "Stands in for a tool of this name."
    return PythonTool(called, idempotent=chance.random() < 0.5)
