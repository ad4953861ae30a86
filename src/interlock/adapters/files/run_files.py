"""A run in a file of its own: JSON lines, the run's row and crew first, then its records, then a checksum of all.

Rule 1: records are exported as the bytes of the store, with crc and link, so that their chain can be checked.
Rule 2: the checksum in the last line covers the row, which the chain does not, and shows a truncated file.
"""

from collections.abc import Sequence
from zlib import crc32

import msgspec

from interlock.adapters.store_rules import record_format
from interlock.errors import DamagedRun, UsageError
from interlock.ports import Record, RunRow, SealedRecord

FORMAT = "interlock-run"
VERSION = 1

_encoder = msgspec.json.Encoder(order="deterministic")


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """A run as another data folder needs it."""

    row: RunRow
    crew: bytes
    records: tuple[SealedRecord, ...]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int
    row: RunRow
    crew: str


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    crc: int
    link: str
    body: str


class _Foot(msgspec.Struct, frozen=True, kw_only=True):
    records: int
    crc: int


def encode_run_file(run: RunFile) -> bytes:
    head = _Head(format=FORMAT, version=VERSION, row=run.row, crew=run.crew.decode())
    lines = [_encoder.encode(head)]
    lines += [
        _encoder.encode(_Line(seq=each.seq, crc=each.crc, link=each.link.hex(), body=each.body.decode()))
        for each in run.records
    ]
    text = b"".join(line + b"\n" for line in lines)
    return text + _encoder.encode(_Foot(records=len(run.records), crc=crc32(text))) + b"\n"


def decode_run_file(data: bytes, name: str) -> RunFile:
    """`UsageError` if it is not such a file, `DamagedRun` if it was changed."""
    head = _decode_head(data.partition(b"\n")[0], name)
    run = head.row.run
    text, _, last = data.removesuffix(b"\n").rpartition(b"\n")
    try:
        foot = msgspec.json.decode(last, type=_Foot)
        records = tuple(_record_from_line(msgspec.json.decode(line, type=_Line)) for line in text.split(b"\n")[1:])
    except (ValueError, RecursionError) as error:
        raise DamagedRun(run, f"'{name}' is truncated or damaged ({error})") from error
    if (foot.records, foot.crc) != (len(records), crc32(text + b"\n")):
        raise DamagedRun(run, f"the checksum of '{name}' does not match")
    record_format.tip_of(run, records)
    crew = head.crew.encode()
    record_format.require_sha(head.row.crew_sha, crew)
    return RunFile(row=head.row, crew=crew, records=records)


def _decode_head(line: bytes, name: str) -> _Head:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"'{name}' is not an exported run: {error}") from error
    if (head.format, head.version) != (FORMAT, VERSION):
        raise UsageError(f"'{name}' is of format {head.format} {head.version}; this version reads {FORMAT} {VERSION}")
    return head


def _record_from_line(line: _Line) -> SealedRecord:
    return SealedRecord(seq=line.seq, crc=line.crc, link=bytes.fromhex(line.link), body=line.body.encode())


def unseal_records(run: RunFile) -> Sequence[Record]:
    """The records, verified."""
    tip = record_format.tip_of(run.row.run, run.records)
    return record_format.unseal_chain(run.row.run, run.records, record_format.chain_start(run.row.run), tip)
