"""Broadcasts of a run to subscribers.

Rule 1: the id of a broadcast follows from the run and the place in it; the journal has its time.
Rule 2: a broadcast has as many hops as broadcasts led to its turn. Beyond the limit the store keeps it and does not
deliver it, and the journal says so.
"""

from typing import Annotated, Any

import msgspec

from interlock.broadcast.naming import crew_type, stable_id
from interlock.broadcast.record import (
    UNSET,
    Source,
    require_broadcast_data,
    require_broadcast_type,
    require_own_source,
    type_fault,
)
from interlock.crew.definition import RouteDefinition
from interlock.engine.effects import PublishBroadcast
from interlock.engine.events import BroadcastEmitted, Warned
from interlock.engine.prompt.phrases import truncate
from interlock.engine.state import Turn
from interlock.engine.transition import ToolRefusal, Transition
from interlock.engine.turns.side_turns import queue_target_side_turn
from interlock.errors import BadBroadcast
from interlock.limits import BROADCAST_DATA_BYTES_MAX, BROADCAST_HOPS_MAX

# The beginning of a long reply is enough as data. A character may take six bytes.
REPLY_CHARS_MAX = BROADCAST_DATA_BYTES_MAX // 6 - 100


class GenerateSignalArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Annotated[str, msgspec.Meta(description="Segments with ':' between them, such as build:project-x:done.")]
    source: Annotated[Any, msgspec.Meta(description="Leave it out: it is set to you.")] = None
    data: Annotated[Any, msgspec.Meta(description="A text, a number, a list or an object.")] = None


def generate_signal(t: Transition, turn: Turn, given: GenerateSignalArguments) -> str:
    try:
        require_own_source(given.source, Source(type="agent", id=turn.agent))
        kind = require_broadcast_type(given.type)
        data = require_broadcast_data(UNSET if given.data is None else given.data)
    except BadBroadcast as error:
        raise ToolRefusal(str(error)) from error
    return f"announced {kind} under the id {announce_broadcast(t, turn, kind, data)['id']}"


def publish_reply(t: Transition, turn: Turn, route: RouteDefinition, reply: str) -> None:
    """Publishes the reply for a broadcast mark: to subscribers, and to each of its targets in this run."""
    kind = crew_type(t.crew.name, route.signal)
    if fault := type_fault(kind):
        t.record(Warned(code="bad-broadcast", message=f"{route.signal} announces nothing: its type {fault}"))
        return
    signal = announce_broadcast(t, turn, kind, truncate(reply, REPLY_CHARS_MAX), told=route.targets)
    for target in route.targets:
        queue_target_side_turn(t, target, signal, turn.hops)


def announce_broadcast(
    t: Transition, turn: Turn, kind: str, data: Any, *, told: tuple[str, ...] = ()
) -> dict[str, Any]:
    key = t.new_key()
    signal = {"id": stable_id(f"{t.state.run}:{key}"), "type": kind, "source": {"type": "agent", "id": turn.agent}}
    if data is not UNSET:
        signal["data"] = data
    t.record(BroadcastEmitted(signal=signal))
    t.emit(
        PublishBroadcast(
            key=key, id=str(signal["id"]), type=kind, agent=turn.agent, data=data, hops=turn.hops, told=told
        )
    )
    if turn.hops > BROADCAST_HOPS_MAX:
        message = f"{kind} reaches nobody: more than {BROADCAST_HOPS_MAX} broadcasts led to it"
        t.record(Warned(code="broadcast-storm", message=message))
    return signal
