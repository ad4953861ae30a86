"""What the records of a batch write on the bus and in budgets, as values for the function `apply_batch`.

Rule 1: a place is the number of a transition in its batch, from 1. Transitions without such writes are left out.
Rule 2: limits and texts go with each call, so that they are written once, in Python.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from interlock import limits
from interlock.adapters.postgres.bus.bus_tables import PostgresBusTables
from interlock.adapters.postgres.bus.spending_orders import SpendingOrders
from interlock.adapters.store_rules import bus_rules
from interlock.adapters.store_rules.broadcast_rows import broadcast_from_row, crc_as_int32
from interlock.broadcast import rate_limits
from interlock.broadcast.naming import PLACE_CHARS
from interlock.broadcast.pattern import segments_of
from interlock.broadcast.presence import RecordPresence, broadcasts_of, change_in_record, presence_series
from interlock.broadcast.record import Broadcast, Emission, ReceivedBroadcast, encode_broadcast
from interlock.broadcast.subscriptions import Subscriber
from interlock.engine.flow.waits import agents_in_record
from interlock.ports import NO_BROADCASTS, AppendResult, AtomicWrites, BroadcastOutcome, Grant, Record, RunRow

Transition = tuple[RunRow, Record, AtomicWrites]


class EncodedWrites(NamedTuple):
    """The last five arguments of `apply_batch`: JSON, or None if there is nothing, and the lines of broadcasts."""

    presence: str | None
    bus: str | None
    lines: list[bytes]
    spending: str | None
    rules: str | None


class _Presence(msgspec.Struct, frozen=True):
    """Who ended and began work with a record: `ended` counts the former. `told`: its events say the same."""

    place: int
    crew: str
    run: str
    at: int
    told: bool
    series: str
    agents: tuple[str, ...]
    hops: tuple[int, ...]
    ended: int


class _Emission(msgspec.Struct, frozen=True):
    """`body` is the number of its line among the bodies; `counted` the name under which its rate is limited."""

    id: str
    body: int
    crc: int
    hops: int
    crew: str
    agent: str
    counted: str
    told: tuple[str, ...]
    kind: list[str]
    at: int


class _BusWrites(msgspec.Struct, frozen=True):
    place: int
    heard: tuple[tuple[int, str], ...]
    taken: tuple[str, ...]
    put_back: tuple[str, ...]
    handed_back: tuple[tuple[str, str, str], ...]
    taking: list[tuple[str, str, str]]
    emissions: list[_Emission]


_encode = msgspec.json.Encoder().encode


def encode_writes(batch: Sequence[Transition]) -> EncodedWrites:
    """The writes of a batch that `apply_batch` applies."""
    presence: list[_Presence] = []
    bus: list[_BusWrites] = []
    bodies: list[bytes] = []
    spending = SpendingOrders()
    for place, (row, record, also) in enumerate(batch, 1):
        if also.ended or also.begun:
            presence.append(_presence_of(place, row, record, also))
        if also.has_bus_writes:
            bus.append(_bus_writes_of(place, also, bodies))
        for order in also.spending:
            spending.add(place, order)
    return EncodedWrites(
        presence=_encode(presence).decode() if presence else None,
        bus=_encode(bus).decode() if bus else None,
        lines=bodies,
        spending=spending.encode(),
        rules=encode_rules() if bus or presence else None,
    )


def encode_rules() -> str:
    """The limits and texts of the bus."""
    return _encode(
        {
            "inbox_max": limits.INBOX_MAX,
            "taken_max": limits.INBOX_TAKEN_MAX,
            "dead_max": limits.DEAD_LETTERS_MAX,
            "hops_max": limits.BROADCAST_HOPS_MAX,
            "per_minute_max": limits.BROADCASTS_PER_MINUTE_MAX,
            "inbox_full": bus_rules.INBOX_FULL,
            rate_limits.TOO_MANY_HOPS: rate_limits.describe_refusal(rate_limits.TOO_MANY_HOPS),
            rate_limits.TOO_OFTEN: rate_limits.describe_refusal(rate_limits.TOO_OFTEN),
        }
    ).decode()


def _presence_of(place: int, row: RunRow, record: Record, also: AtomicWrites) -> _Presence:
    everybody = also.ended + also.begun
    agents = tuple([agent for agent, _ in everybody])
    ended, begun = agents_in_record(record.events)
    return _Presence(
        place=place,
        crew=row.crew,
        run=row.run,
        at=record.at,
        told=ended + begun == agents and len(ended) == len(also.ended),
        series=f"{presence_series(row.run)}{record.seq:0{PLACE_CHARS}x}",
        agents=agents,
        hops=tuple([hops for _, hops in everybody]),
        ended=len(also.ended),
    )


def _bus_writes_of(place: int, also: AtomicWrites, bodies: list[bytes]) -> _BusWrites:
    return _BusWrites(
        place=place,
        heard=also.heard,
        taken=also.taken,
        put_back=also.put_back,
        handed_back=also.handed_back,
        taking=[(each.key, each.crew, each.agent) for each in also.taking],
        emissions=[_emission_of(each, bodies) for each in also.broadcasts],
    )


def _emission_of(emission: Emission, bodies: list[bytes]) -> _Emission:
    broadcast = emission.broadcast
    body = encode_broadcast(broadcast)
    bodies.append(body)
    return _Emission(
        id=broadcast.id,
        body=len(bodies),
        crc=crc_as_int32(body),
        hops=emission.hops,
        crew=emission.crew,
        agent=emission.agent,
        counted=bus_rules.name_in_rate_counts(emission),
        told=emission.told,
        kind=segments_of(broadcast.type),
        at=broadcast.created_at,
    )


def announce(tables: PostgresBusTables, emissions: Sequence[Emission]) -> BroadcastOutcome:
    """The same as `bus_rules.announce`, by the function that announces with a record."""
    if not emissions:
        return NO_BROADCASTS
    bodies: list[bytes] = []
    writes = _bus_writes_of(1, AtomicWrites(broadcasts=tuple(emissions)), bodies)
    answer = tables.announce(_encode([writes]).decode(), bodies, encode_rules())
    return _decode_bus_answer(answer, lambda: [each.broadcast for each in emissions])[1]


# Answers


class _BusAnswer(msgspec.Struct, frozen=True):
    """Mail by claim: position, crc, hops and body. Withheld broadcasts: id and reason."""

    news: bool
    mail: tuple[tuple[tuple[int, int, int, bytes], ...], ...] = ()
    reached: tuple[tuple[str, str, bool], ...] = ()
    withheld: tuple[tuple[str, str], ...] = ()


_decode_grants = msgspec.json.Decoder(tuple[Grant, ...]).decode
_decode_answer = msgspec.json.Decoder(_BusAnswer).decode

Mail = tuple[tuple[ReceivedBroadcast, ...], ...]


def decode_answers(
    transition: Transition, position: int, grants: str | bytes | None, bus: str | bytes | None
) -> AppendResult:
    """The answer to an append, from what `apply_batch` returned for it."""
    granted = _decode_grants(grants) if grants is not None else ()
    if bus is None:
        return AppendResult(position, granted)
    mail, announced = _decode_bus_answer(bus, lambda: _broadcasts_of(*transition))
    return AppendResult(position, granted, mail, announced)


def _decode_bus_answer(
    answer: str | bytes, broadcasts: Callable[[], Sequence[Broadcast]]
) -> tuple[Mail, BroadcastOutcome]:
    """The mail of a transition, and whom its broadcasts reached; `broadcasts` are those that may be withheld."""
    found = _decode_answer(answer)
    mail = tuple([tuple([each for row in claim if (each := _mail_of_row(*row)) is not None]) for claim in found.mail])
    # Of two with the same id only the first can be new.
    known = {each.id: each for each in reversed(broadcasts())} if found.withheld else {}
    return mail, BroadcastOutcome(
        reached=tuple([Subscriber(*each) for each in found.reached]),
        withheld=tuple([(known[id_], reason) for id_, reason in found.withheld]),
        news=found.news,
    )


def _broadcasts_of(row: RunRow, record: Record, also: AtomicWrites) -> list[Broadcast]:
    """All broadcasts that may be stored with a record."""
    ended, begun = (tuple([agent for agent, _ in each]) for each in (also.ended, also.begun))
    of_presence = broadcasts_of(change_in_record(row.run, record.seq, record.at, RecordPresence(ended, begun)))
    return [*(each.broadcast for each in also.broadcasts), *of_presence]


def _mail_of_row(position: int, crc: int, hops: int, body: bytes) -> ReceivedBroadcast | None:
    broadcast = broadcast_from_row(position, crc, body)
    return ReceivedBroadcast(broadcast=broadcast, hops=hops) if broadcast is not None else None
