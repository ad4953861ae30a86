"""A record to bytes and back. Pure functions, shared by every store.

Rule 1: the body is canonical JSON of the whole record, `[seq, at, [events]]`, so the crc and the chain cover its seq
and time as well.
Rule 2: a crc per record finds a flipped bit by itself; a chain per run finds records that were removed, moved or added.
Rule 3: the chain starts from the run's id; a link is the first half of sha256(previous link + body). 128 bits are
plenty: the chain finds damage and mistakes, by chance once in 2^128. It is no
protection against an attacker who rewrites a whole journal, because there is no key.
"""

from collections.abc import Sequence
from hashlib import sha256
from zlib import crc32

import msgspec

from interlock.engine.events import Event, RunStarted
from interlock.errors import CrewMissing, DamagedRun, NotOwner, OutOfOrder, Unstorable
from interlock.ports import Record, RunRow, SealedRecord

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(tuple[int, int, tuple[Event, ...]])

LINK_BYTES = 16


class Tip(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run's journal: the seq of its newest event, and the link before the next record."""

    seq: int
    epoch: int
    link: bytes


def encode_record(record: Record) -> bytes:
    assert record.events, "a transition holds at least its incoming event"
    try:
        return _encoder.encode((record.seq, record.at, record.events))
    except (TypeError, ValueError, OverflowError) as error:  # a lone surrogate, an integer beyond 64 bits
        raise Unstorable(f"could not write the record at seq {record.seq} as JSON: {error}") from error


def decode_record(body: bytes) -> Record:
    """`ValueError` if the body is not that of a record."""
    seq, at, events = _decoder.decode(body)
    return Record(seq=seq, at=at, events=events)


def first_link(run: str) -> bytes:
    """The link before the first record of a run. It is made of the id, so one journal cannot replace another."""
    return sha256(b"interlock:" + run.encode("utf-8", "surrogatepass")).digest()[:LINK_BYTES]


def next_link(previous: bytes, body: bytes) -> bytes:
    return sha256(previous + body).digest()[:LINK_BYTES]


def seal_record(seq: int, body: bytes, previous: bytes) -> SealedRecord:
    return SealedRecord(seq=seq, crc=crc32(body), link=next_link(previous, body), body=body)


def unseal_record(run: str, stored: SealedRecord) -> Record:
    """Decodes one record, checking its crc only; `DamagedRun` if it does not match."""
    if crc32(stored.body) != stored.crc:
        raise DamagedRun(run, f"the crc of the record at seq {stored.seq} does not match")
    try:
        record = decode_record(stored.body)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(run, f"the record at seq {stored.seq} cannot be read: {error}") from error
    if record.seq != stored.seq:
        raise DamagedRun(run, f"the record at seq {stored.seq} says that it is at {record.seq}")
    return record


def unseal_or_none(run: str, stored: SealedRecord) -> Record | None:
    """For readers of all runs: a damaged record must not hide the others. Reading the run itself reports it."""
    try:
        return unseal_record(run, stored)
    except DamagedRun:
        return None


def unseal_chain(run: str, stored: Sequence[SealedRecord], after: Tip, tip: Tip) -> tuple[Record, ...]:
    """The records between two points of a run; `DamagedRun` unless crc, chain and seqs match."""
    records, link, seq = [], after.link, after.seq
    for each in stored:
        record = unseal_record(run, each)
        link = next_link(link, each.body)
        if record.seq != seq + 1:
            raise DamagedRun(run, f"there is no record at seq {seq + 1}, the next one is at {record.seq}")
        if link != each.link:
            raise DamagedRun(run, f"the chain breaks at seq {record.seq}")
        seq = record.last_seq
        records.append(record)
    if (seq, link) != (tip.seq, tip.link):
        raise DamagedRun(run, f"the journal should end at seq {tip.seq}, and it breaks off after {seq}")
    return tuple(records)


def tip_of(run: str, stored: Sequence[SealedRecord]) -> Tip:
    """The end of records that are not in a store yet; `DamagedRun` unless they are a whole chain."""
    seq = unseal_record(run, stored[-1]).last_seq if stored else 0
    tip = Tip(seq=seq, epoch=0, link=stored[-1].link if stored else b"")
    unseal_chain(run, stored, chain_start(run), tip)
    return tip


def with_needs(row: RunRow, stored: Sequence[SealedRecord]) -> RunRow:
    """The row of a run that is added with its records: what a process needs for it is in the first one."""
    first = unseal_record(row.run, stored[0]).events[0] if stored else None
    if not isinstance(first, RunStarted):
        return row
    return msgspec.structs.replace(row, rules=first.rules, private=first.needs.is_private)


def chain_start(run: str) -> Tip:
    return Tip(seq=0, epoch=0, link=first_link(run))


def seal_chain(run: str, records: Sequence[Record]) -> tuple[SealedRecord, ...]:
    """Records sealed as a store does, one after the other."""
    chain: list[SealedRecord] = []
    for record in records:
        previous = chain[-1].link if chain else first_link(run)
        chain.append(seal_record(record.seq, encode_record(record), previous))
    return tuple(chain)


def require_first(run: str, record: Record) -> None:
    if record.seq != 1:
        raise OutOfOrder(run, 0, record.seq)


def require_next(tip: Tip, row: RunRow, record: Record) -> None:
    """Refuses an append, the same for every store: `NotOwner` first, then `OutOfOrder`."""
    if row.epoch != tip.epoch:
        raise NotOwner(row.run)
    if record.seq != tip.seq + 1:
        raise OutOfOrder(row.run, tip.seq, record.seq)


def require_sha(sha: str, body: bytes) -> None:
    if sha256(body).hexdigest() != sha:
        raise CrewMissing(f"the crew under sha256 {sha} does not have that sum; it is damaged, or was named wrongly")
