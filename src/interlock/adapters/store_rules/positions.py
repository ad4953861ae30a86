"""One order of positions for records and broadcasts.

Records are numbered without gaps. Each of them has a range of positions for broadcasts, in this order: those that its
run emitted with it, those derived from it (who woke and slept), and all others that came before the next record.
Broadcasts before the first record, and those of older versions of this store, are in the range of record 0.
"""

RECORD_BITS = 32
# The last position of broadcasts derived from a record, and the one before the others, from the start of its range.
_DERIVED, _OTHERS = 1 << 30, 1 << 31


def before_emitted(record: int) -> int:
    """The position before those of the broadcasts that are emitted with a record."""
    return record << RECORD_BITS


def end_of_derived(record: int) -> int:
    """The position of the last broadcast that is derived from a record."""
    return (record << RECORD_BITS) + _DERIVED


def before_others(record: int) -> int:
    """The position before those of broadcasts that come after a record; it is after all that came with it."""
    return (record << RECORD_BITS) + _OTHERS if record else 0


def record_at(position: int) -> int:
    """The record in whose range a position is."""
    return position >> RECORD_BITS


def first_record_after(position: int) -> int:
    """The first record whose derived broadcasts end after a position."""
    return ((position - _DERIVED) >> RECORD_BITS) + 1
