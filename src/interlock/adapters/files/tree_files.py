"""A run and all below it in one file: JSON lines, the rows and crews first, then the records, then a checksum.

Rule 1: records are exported as the bytes of the store, with crc and link, in the order of the store, so that every
chain can be checked and the order of events is kept.
Rule 2: a run without children, of a crew without sub-crews, is a file of `run_files`, as before there were sub-crews;
both are read here.
"""

import hashlib
from collections.abc import Sequence
from zlib import crc32

import msgspec

from interlock.adapters.files import run_files
from interlock.adapters.files.run_files import RunFile
from interlock.adapters.store_rules import record_format
from interlock.errors import DamagedRun, UsageError
from interlock.ids import is_below, parent_of
from interlock.ports import Record, RunRow, SealedRecord, SealedTree

VERSION = 2

_encoder = msgspec.json.Encoder(order="deterministic")


class TreeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A tree of runs as another data folder needs it; crews are stored by their sha256."""

    tree: SealedTree
    crews: dict[str, bytes]


class _Version(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int


class _Head(_Version, frozen=True, kw_only=True):
    rows: tuple[RunRow, ...]
    crews: tuple[str, ...]


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    of: int
    seq: int
    crc: int
    link: str
    body: str


class _Foot(msgspec.Struct, frozen=True, kw_only=True):
    records: int
    crc: int


def encode_tree_file(file: TreeFile) -> bytes:
    rows, records = file.tree.rows, file.tree.records
    if len(rows) == len(file.crews) == 1:
        crew = file.crews[rows[0].crew_sha]
        return run_files.encode_run_file(RunFile(row=rows[0], crew=crew, records=tuple(file.tree.chains()[0])))
    crews = tuple(body.decode() for body in file.crews.values())
    lines = [_encoder.encode(_Head(format=run_files.FORMAT, version=VERSION, rows=rows, crews=crews))]
    lines += [_encoder.encode(_line(of, record)) for of, record in records]
    text = b"".join(line + b"\n" for line in lines)
    return text + _encoder.encode(_Foot(records=len(records), crc=crc32(text))) + b"\n"


def _line(of: int, record: SealedRecord) -> _Line:
    return _Line(of=of, seq=record.seq, crc=record.crc, link=record.link.hex(), body=record.body.decode())


def decode_tree_file(data: bytes, name: str) -> TreeFile:
    """`UsageError` if it is not such a file, `DamagedRun` if it was changed."""
    if not _is_tree(data.partition(b"\n")[0]):
        alone = run_files.decode_run_file(data, name)
        records = tuple((0, record) for record in alone.records)
        return TreeFile(tree=SealedTree(rows=(alone.row,), records=records), crews={alone.row.crew_sha: alone.crew})
    found = _read_tree(data, name)
    _require_tree(found.tree, name)
    for row in found.tree.rows:
        if row.crew_sha not in found.crews:
            raise DamagedRun(row.run, f"'{name}' does not hold its crew")
    return found


def _is_tree(line: bytes) -> bool:
    try:
        head = msgspec.json.decode(line, type=_Version)
    except (ValueError, RecursionError):
        return False
    return (head.format, head.version) == (run_files.FORMAT, VERSION)


def _read_tree(data: bytes, name: str) -> TreeFile:
    text, _, last = data.removesuffix(b"\n").rpartition(b"\n")
    first, *lines = text.split(b"\n")
    try:
        head = msgspec.json.decode(first, type=_Head)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"'{name}' is not an exported run: {error}") from error
    if not head.rows:
        raise UsageError(f"'{name}' holds no run")
    run = head.rows[0].run
    try:
        foot = msgspec.json.decode(last, type=_Foot)
        records = tuple(_record_from_line(msgspec.json.decode(line, type=_Line), len(head.rows)) for line in lines)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(run, f"'{name}' is truncated or damaged ({error})") from error
    if (foot.records, foot.crc) != (len(records), crc32(text + b"\n")):
        raise DamagedRun(run, f"the checksum of '{name}' does not match")
    bodies = [crew.encode() for crew in head.crews]
    crews = {hashlib.sha256(body).hexdigest(): body for body in bodies}
    return TreeFile(tree=SealedTree(rows=head.rows, records=records), crews=crews)


def _record_from_line(line: _Line, runs: int) -> tuple[int, SealedRecord]:
    if not 0 <= line.of < runs:
        raise ValueError(f"there is no run {line.of}")
    link = bytes.fromhex(line.link)
    return line.of, SealedRecord(seq=line.seq, crc=line.crc, link=link, body=line.body.encode())


def _require_tree(tree: SealedTree, name: str) -> None:
    """Requires one outermost run, each other run after its caller, and none twice."""
    first, *below = (row.run for row in tree.rows)
    known = {first}
    for run in below:
        if run in known or not is_below(run, first) or parent_of(run) not in known:
            raise DamagedRun(run, f"'{name}' does not hold the run that called it, or holds it twice")
        known.add(run)


def unseal_records(file: TreeFile) -> list[Sequence[Record]]:
    """The records of each run, verified."""
    return [
        record_format.unseal_chain(
            row.run, chain, record_format.chain_start(row.run), record_format.tip_of(row.run, chain)
        )
        for row, chain in zip(file.tree.rows, file.tree.chains(), strict=True)
    ]
