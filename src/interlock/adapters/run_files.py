"""A run in a file of its own: JSON lines, the run's row and crew first, then its records, then a sum of it all.

Rule 1: records travel as the bytes the store keeps, with their crc and link, so that their chain can be checked.
Rule 2: what the chain does not cover, the row, is covered by the sum in the last line; so is a file that breaks off.
"""

from collections.abc import Sequence
from zlib import crc32

import msgspec

from interlock.adapters import journal_format
from interlock.errors import DamagedRun, UsageError
from interlock.ports import Record, RunRow, SealedRecord

FORMAT = "interlock-run"
VERSION = 1

_encoder = msgspec.json.Encoder(order="deterministic")


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """All that another data folder needs to know of a run."""

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


def written(run: RunFile) -> bytes:
    head = _Head(format=FORMAT, version=VERSION, row=run.row, crew=run.crew.decode())
    lines = [_encoder.encode(head)]
    lines += [
        _encoder.encode(_Line(seq=each.seq, crc=each.crc, link=each.link.hex(), body=each.body.decode()))
        for each in run.records
    ]
    text = b"".join(line + b"\n" for line in lines)
    return text + _encoder.encode(_Foot(records=len(run.records), crc=crc32(text))) + b"\n"


def read(data: bytes, name: str) -> RunFile:
    """`UsageError` if it is no such file, `DamagedRun` if it is not as it was written."""
    head = _head(data.partition(b"\n")[0], name)
    run = head.row.run
    text, _, last = data.removesuffix(b"\n").rpartition(b"\n")
    try:
        foot = msgspec.json.decode(last, type=_Foot)
        records = tuple(_sealed(msgspec.json.decode(line, type=_Line)) for line in text.split(b"\n")[1:])
    except (ValueError, RecursionError) as error:
        raise DamagedRun(run, f"'{name}' breaks off, or is no longer as it was written ({error})") from error
    if (foot.records, foot.crc) != (len(records), crc32(text + b"\n")):
        raise DamagedRun(run, f"the sum of '{name}' does not hold")
    journal_format.tip_of(run, records)
    crew = head.crew.encode()
    journal_format.require_sha(head.row.crew_sha, crew)
    return RunFile(row=head.row, crew=crew, records=records)


def _head(line: bytes, name: str) -> _Head:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"'{name}' is not an exported run: {error}") from error
    if (head.format, head.version) != (FORMAT, VERSION):
        raise UsageError(f"'{name}' is of format {head.format} {head.version}; this version reads {FORMAT} {VERSION}")
    return head


def _sealed(line: _Line) -> SealedRecord:
    return SealedRecord(seq=line.seq, crc=line.crc, link=bytes.fromhex(line.link), body=line.body.encode())


def opened(run: RunFile) -> Sequence[Record]:
    """The records, checked."""
    tip = journal_format.tip_of(run.row.run, run.records)
    return journal_format.opened_chain(run.row.run, run.records, journal_format.start_of(run.row.run), tip)
