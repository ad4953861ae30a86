"""Tools of agents that use the bus: subscriptions and delayed broadcasts.

Rule 1: each call has a key and is idempotent, so that it can be repeated after a crash.
Rule 2: the model gets the error of a wrong call.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec

from interlock.broadcast.delayed import DelayedBroadcast, require_repeat_key, require_time
from interlock.broadcast.naming import stable_id
from interlock.broadcast.record import UNSET, Source, require_broadcast_data, require_broadcast_type, require_own_source
from interlock.broadcast.schedules import Schedule, iso_time, next_after, require_schedule
from interlock.broadcast.subscriptions import AgentSubscription, require_pattern
from interlock.engine.builtin_tools import schema_of
from interlock.errors import BadBroadcast, ToolFailed, UsageError
from interlock.ports import Bus, ToolSchema

Note = Annotated[str, msgspec.Meta(description="Segments with ':' between them, such as build:project-x:done.")]
PATTERN = "Which types to hear: segments with ':' between them; '*' stands for exactly one, such as build:*:done."


class SignalSubscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description=PATTERN)]
    silent: Annotated[bool, msgspec.Meta(description="true: you read it in your next turn; false: you act on it.")] = (
        True
    )


class SignalUnsubscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description="Exactly as you subscribed to it.")]


class SignalSchedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: Note
    deliver_at: Annotated[int, msgspec.Meta(description="When, in milliseconds since 1970.")] = 0
    delay_ms: Annotated[int, msgspec.Meta(description="Or in how many milliseconds.")] = 0
    data: Annotated[Any, msgspec.Meta(description="A text, a number, a list or an object.")] = None
    source: Annotated[Any, msgspec.Meta(description="Leave it out: it is set to you.")] = None
    repeat_key: Annotated[str, msgspec.Meta(description="Takes the place of what waits under this type and key.")] = ""
    every_ms: Annotated[int, msgspec.Meta(description="Again and again, this many milliseconds apart.")] = 0
    at: Annotated[str, msgspec.Meta(description="Every day at this local time, HH:MM.")] = ""
    zone: Annotated[str, msgspec.Meta(description="Whose local time, such as Europe/Berlin.")] = ""
    days: Annotated[tuple[str, ...], msgspec.Meta(description="Only on these: mon, tue, wed, thu, fri, sat, sun.")] = ()


class SignalCancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    id: Annotated[str, msgspec.Meta(description="As signal_schedule gave it.")] = ""
    type: Annotated[str, msgspec.Meta(description="Or the type, together with repeatKey.")] = ""
    repeat_key: str = ""


class ToolCaller(msgspec.Struct, frozen=True, kw_only=True):
    """The caller of a tool, with the key and time of the call, and the number of broadcasts that led to it."""

    crew: str
    agent: str
    key: str
    now: int
    hops: int = 0

    @property
    def source(self) -> Source:
        return Source(type="agent", id=self.agent)


async def _subscribe(bus: Bus, caller: ToolCaller, given: SignalSubscribe) -> str:
    pattern = require_pattern(given.pattern)
    await bus.subscribe(
        AgentSubscription(crew=caller.crew, agent=caller.agent, pattern=pattern, silent=given.silent, origin="tool")
    )
    return f"subscribed to {pattern}"


async def _unsubscribe(bus: Bus, caller: ToolCaller, given: SignalUnsubscribe) -> str:
    pattern = given.pattern.strip()  # also one that older versions accepted
    if await bus.unsubscribe(caller.crew, caller.agent, pattern):
        return f"no longer subscribed to {pattern}"
    own = [each.pattern for each in await bus.subscriptions() if (each.crew, each.agent) == (caller.crew, caller.agent)]
    return f"there was no subscription to {pattern}; yours are: {', '.join(own) or 'none'}"


async def _schedule(bus: Bus, caller: ToolCaller, given: SignalSchedule) -> str:
    require_own_source(given.source, caller.source)
    at, schedule = plan_delivery(given, caller.now)
    entry = DelayedBroadcast(
        id=stable_id(caller.key),
        type=require_broadcast_type(given.type),
        source=caller.source,
        deliver_at=at,
        created_at=caller.now,
        updated_at=caller.now,
        data=require_broadcast_data(UNSET if given.data is None else given.data),
        repeat_key=require_repeat_key(given.repeat_key or None),
        schedule=schedule,
        crew=caller.crew,
        hops=caller.hops,
    )
    old = await bus.schedule(entry)
    instead = f", in place of {old.id}" if old is not None else ""
    return f"scheduled for {iso_time(at)} under the id {entry.id}{instead}"


def plan_delivery(given: SignalSchedule, now: int) -> tuple[int, Schedule | None]:
    """The first time, and the schedule of repeats."""
    schedule = None
    if given.every_ms or given.at:
        schedule = require_schedule(
            Schedule(every_ms=given.every_ms, at=given.at, zone=given.zone, days=tuple(given.days))
        )
    elif given.zone or given.days:
        raise BadBroadcast("schedule", "", "has a zone or days, and no local time")
    if given.deliver_at and given.delay_ms:
        raise BadBroadcast("time", "", "is given twice; use either deliverAt or delayMs")
    if given.deliver_at or given.delay_ms or schedule is None:
        return require_time(given.deliver_at or now + given.delay_ms, now), schedule
    return next_after(schedule, now), schedule


async def _cancel(bus: Bus, caller: ToolCaller, given: SignalCancel) -> str:
    if bool(given.id) == bool(given.type and given.repeat_key):
        raise UsageError("name either an id, or a type and its repeatKey")
    gone = await bus.cancel(given.id, type=given.type, repeat_key=given.repeat_key)
    return f"cancelled {gone.type}" if gone is not None else "there is nothing to cancel under that name"


class BusTool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    takes: type[msgspec.Struct]
    carry_out: Callable[[Bus, ToolCaller, Any], Awaitable[str]]

    @property
    def schema(self) -> ToolSchema:
        return ToolSchema(name=self.name, description=self.description, parameters=schema_of(self.takes))


BUS_TOOLS = {
    tool.name: tool
    for tool in (
        BusTool(
            name="signal_subscribe",
            description="Hear signals of others whose type matches a pattern, from now on.",
            takes=SignalSubscribe,
            carry_out=_subscribe,
        ),
        BusTool(
            name="signal_unsubscribe",
            description="No longer hear signals of a pattern.",
            takes=SignalUnsubscribe,
            carry_out=_unsubscribe,
        ),
        BusTool(
            name="signal_schedule",
            description="Announces something later, once or again and again. You do not hear it yourself.",
            takes=SignalSchedule,
            carry_out=_schedule,
        ),
        BusTool(
            name="signal_cancel",
            description="Takes back what was scheduled and has not gone out yet.",
            takes=SignalCancel,
            carry_out=_cancel,
        ),
    )
}


async def run_bus_tool(bus: Bus, name: str, arguments: str, caller: ToolCaller) -> str:
    """Runs a bus tool; `ToolFailed` with the error for the model."""
    tool = BUS_TOOLS[name]
    try:
        given = msgspec.json.decode(arguments or "{}", type=tool.takes)
        return await tool.carry_out(bus, caller, given)
    except UsageError as error:
        raise ToolFailed(str(error)) from error
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ToolFailed(f"{name} cannot take that: {error}") from error
