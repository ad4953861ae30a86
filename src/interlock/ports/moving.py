"""A store that is moved to another one: its rows in a form that every kind of store reads and writes.

Rule 1: a row is a tuple of its key and its other columns, in the order of `MovedTable`. Booleans are 0 and 1, and no
value depends on the kind of store, so a row read here equals the row read there.
Rule 2: rows are read and written in the order of their keys, a page in a transaction. So the last key that the target
has tells where an interrupted move continues.
Rule 3: while a store has a mark, no process but a move can open it.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

MovedRow = tuple[Any, ...]

# The rows of a page, and the bytes of their bodies after which a page ends.
MOVED_ROWS_MAX = 1_000
MOVED_BYTES_MAX = 8 * 1024 * 1024


class MovedTable(NamedTuple):
    """A table as it is moved. The key is unique, and compared by bytes."""

    name: str
    key: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.key, *self.others)

    def key_of(self, row: MovedRow) -> MovedRow:
        return row[: len(self.key)]


class MoveMark(msgspec.Struct, frozen=True):
    """What a store says of a move: it is being left, was left, or is being filled. `other` is the other store.

    `move` is the same in both stores, and differs between two moves.
    """

    move: str
    state: Literal["leaving", "left", "arriving"]
    other: str


class MovableStore(Protocol):
    """A store that one move holds."""

    def read_mark(self) -> MoveMark | None: ...

    def write_mark(self, mark: MoveMark | None) -> None:
        """Replaces the mark, durably; None removes it."""
        ...

    def require_unused(self) -> None:
        """`StoreFailed` if another process has the store open. It is asked after the mark was written."""
        ...

    def problems(self) -> Sequence[str]:
        """Damage that a move would hide."""
        ...

    def newest_position(self) -> int:
        """The newest position of records that was ever given."""
        ...

    def last_key(self, table: MovedTable) -> MovedRow | None: ...

    def read_page(self, table: MovedTable, after: MovedRow | None) -> Sequence[MovedRow]:
        """The rows after a key; from the first one if it is None."""
        ...

    def add_page(self, table: MovedTable, rows: Sequence[MovedRow]) -> None:
        """Adds rows, all in one transaction."""
        ...

    def finish_rows(self, newest_position: int) -> None:
        """Sets what follows from the rows, when all are there. It may be done twice."""
        ...
