"""Announcing something to whoever listens.

Rule 1: what is announced has an id that follows from the run and the place in it; when it is, the journal says.
Rule 2: what a turn announces has as many hops as broadcasts led to the turn. Beyond the bound the store keeps it and
delivers it to nobody, and the journal says so.
"""

from typing import Annotated, Any

import msgspec

from interlock.broadcast.naming import crew_type, derived_id
from interlock.broadcast.record import UNSET, Source, checked_data, checked_source, checked_type, type_fault
from interlock.crew.definition import Route
from interlock.engine.effects import Announce
from interlock.engine.events import BroadcastEmitted, Warned
from interlock.engine.phrases import cut
from interlock.engine.side_turns import call_aside
from interlock.engine.state import Turn
from interlock.engine.transition import Refusal, Transition
from interlock.errors import BadBroadcast
from interlock.limits import BROADCAST_DATA_BYTES_MAX, BROADCAST_HOPS_MAX

# A reply is data like any other; of a long one the beginning says what it is about. A character may take six bytes.
REPLY_CHARS_MAX = BROADCAST_DATA_BYTES_MAX // 6 - 100


class GenerateSignal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Annotated[str, msgspec.Meta(description="Segments with ':' between them, such as build:project-x:done.")]
    source: Annotated[Any, msgspec.Meta(description="Leave it out: it is set to you.")] = None
    data: Annotated[Any, msgspec.Meta(description="A text, a number, a list or an object.")] = None


def generate_signal(t: Transition, turn: Turn, given: GenerateSignal) -> str:
    try:
        checked_source(given.source, Source(type="agent", id=turn.agent))
        kind = checked_type(given.type)
        data = checked_data(UNSET if given.data is None else given.data)
    except BadBroadcast as error:
        raise Refusal(str(error)) from error
    return f"announced {kind} under the id {announce(t, turn, kind, data)['id']}"


def publish(t: Transition, turn: Turn, route: Route, reply: str) -> None:
    """A broadcast-type mark: heard by who subscribed, and by each of its targets in this run."""
    kind = crew_type(t.crew.name, route.signal)
    if fault := type_fault(kind):
        t.conclude(Warned(code="bad-broadcast", message=f"{route.signal} announces nothing: its type {fault}"))
        return
    signal = announce(t, turn, kind, cut(reply, REPLY_CHARS_MAX), told=route.targets)
    for target in route.targets:
        call_aside(t, target, signal, turn.hops)


def announce(t: Transition, turn: Turn, kind: str, data: Any, *, told: tuple[str, ...] = ()) -> dict[str, Any]:
    key = t.new_key()
    signal = {"id": derived_id(f"{t.state.run}:{key}"), "type": kind, "source": {"type": "agent", "id": turn.agent}}
    if data is not UNSET:
        signal["data"] = data
    t.conclude(BroadcastEmitted(signal=signal))
    t.order(Announce(key=key, id=str(signal["id"]), type=kind, agent=turn.agent, data=data, hops=turn.hops, told=told))
    if turn.hops > BROADCAST_HOPS_MAX:
        message = f"{kind} reaches nobody: more than {BROADCAST_HOPS_MAX} broadcasts led to it"
        t.conclude(Warned(code="broadcast-storm", message=message))
    return signal
