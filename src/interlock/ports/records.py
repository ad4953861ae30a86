"""Runs and their records, as a store keeps them."""

import msgspec

from interlock.engine.events import Event, Usage
from interlock.engine.run import RULES

# The newest format of records that this version reads and writes. An event that an older version cannot read raises it.
RECORD_FORMAT = 1


class RunFormat(msgspec.Struct, frozen=True):
    """What a process must know to drive a run: the rules of the engine, and the format of records."""

    rules: int
    format: int

    def covers(self, other: "RunFormat") -> bool:
        """Whether a process that knows this can drive runs of the other one."""
        return self.rules >= other.rules and self.format >= other.format

    def at_most(self, other: "RunFormat | None") -> "RunFormat":
        """This, or what it has in common with the other one, if there is another one."""
        if other is None:
            return self
        return RunFormat(min(self.rules, other.rules), min(self.format, other.format))

    def __str__(self) -> str:
        return f"rules {self.rules}, format {self.format}"


# The newest that this version knows.
NEWEST_FORMAT = RunFormat(RULES, RECORD_FORMAT)


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The row of a run: its state without reading its journal. `seq` is that of its newest event.

    `rules` (of the engine) and `format` (of records) are what a process must know to drive it; both are fixed at the
    start. A `private` run was begun with models or dependencies of its process: only `resume` by name continues it.
    """

    run: str
    crew: str
    crew_sha: str
    status: str
    reason: str = ""
    agent: str = ""
    seq: int = 0
    epoch: int = 0
    created_at: int = 0
    updated_at: int = 0
    continues: str = ""
    organization: str = ""
    usage: Usage = Usage()
    rules: int = 1
    format: int = RECORD_FORMAT
    private: bool = False

    @property
    def run_format(self) -> RunFormat:
        return RunFormat(self.rules, self.format)


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One transition: an incoming event and all events that follow from it. `seq` is that of the first event."""

    seq: int
    at: int
    events: tuple[Event, ...]

    @property
    def last_seq(self) -> int:
        return self.seq + len(self.events) - 1


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its run and its position in the order of the whole store."""

    position: int
    run: str
    record: Record


class SealedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as bytes in a store. `seq` is that of its first event, to find it without decoding."""

    seq: int
    crc: int
    link: bytes
    body: bytes
