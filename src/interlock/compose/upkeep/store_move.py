"""Moves all that a store holds to another store.

Rule 1: both stores have a mark while the move is not finished, so no other process opens them. A move that was
interrupted, wherever it was, is continued by the same command.
Rule 2: the move ends only after every row was read again from both stores, and was equal.
Rule 3: the source is marked as left before the target may be used: at no moment can both be.
"""

from collections.abc import Iterator
from uuid import uuid4

import msgspec

from interlock.adapters.store_rules.moved_tables import MOVED_TABLES, require_not_moved
from interlock.compose.stores.store_home import StoreHome
from interlock.errors import StoreFailed, UsageError
from interlock.ports.moving import MovableStore, MovedRow, MovedTable, MoveMark


class StoreMoved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A finished move: the rows by table, without empty ones; none of one that `was_finished` before."""

    source: str
    target: str
    rows: dict[str, int]
    was_finished: bool = False


def move_store(source: StoreHome, target: StoreHome) -> StoreMoved:
    """Moves a store, or continues to; `UsageError` or `StoreFailed` if it cannot, and the same command may help."""
    if source.key == target.key:
        raise UsageError("both addresses name the same store")
    with source.hold_for_move(create=False) as old, target.hold_for_move(create=True) as new:
        if _is_finished(old, new, target.key):
            return StoreMoved(source=source.name, target=target.name, rows={}, was_finished=True)
        if _begin_move(old, new, source.key, target.key):
            for table in MOVED_TABLES:
                _copy_rows(old, new, table)
            new.finish_rows(old.newest_position())
        rows = {table.name: _require_same_rows(old, new, table) for table in MOVED_TABLES}
        if old.newest_position() != new.newest_position():
            raise StoreFailed("the newest positions of both stores differ; the source is unchanged")
        _end_move(old, new)
    return StoreMoved(source=source.name, target=target.name, rows={name: n for name, n in rows.items() if n})


def give_up_move(source: StoreHome, target: StoreHome) -> None:
    """Makes the source of an unfinished move usable again. What the target has got is of no use."""
    with source.hold_for_move(create=False) as old:
        mark = old.read_mark()
        if mark is None or mark.state != "leaving":
            raise UsageError(f"'{source.name}' is not the source of an unfinished move")
        if mark.other != target.key:
            raise UsageError(f"the unfinished move of '{source.name}' is one to '{mark.other}'")
        old.write_mark(None)


def _is_finished(old: MovableStore, new: MovableStore, target: str) -> bool:
    """Whether this move has ended before. The target may have more by now; one that was made again has less."""
    before = old.read_mark()
    if before is None or before.state != "left" or before.other != target or new.read_mark() is not None:
        return False
    return 0 < old.newest_position() <= new.newest_position()


def _begin_move(old: MovableStore, new: MovableStore, source: str, target: str) -> bool:
    """Marks both stores; whether there are rows to copy. The marks are as before if the move is refused."""
    before, there = old.read_mark(), new.read_mark()
    if before is not None and before.state == "left":
        if there is None or there.move != before.move:
            require_not_moved(before, source)
        return False
    if before is None:
        _require_movable(old, new, there, source, target)
    elif before.state == "arriving" or before.other != target:
        require_not_moved(before, source)
    elif there is not None and there.move != before.move:
        require_not_moved(there, target)
    mark = before or MoveMark(uuid4().hex, "leaving", target)
    try:
        _mark_stores(old, new, mark, source, target)
    except BaseException:
        new.write_mark(there)
        old.write_mark(before)
        raise
    return True


def _mark_stores(old: MovableStore, new: MovableStore, mark: MoveMark, source: str, target: str) -> None:
    """Writes the marks that are not there yet. Processes are looked for once no other can open the store."""
    if old.read_mark() is None:
        old.write_mark(mark)
    old.require_unused()
    is_new = new.read_mark() is None
    if is_new:
        _require_empty(new, target)
        new.write_mark(MoveMark(mark.move, "arriving", source))
    new.require_unused()
    if is_new:
        _require_empty(new, target)  # a process may have written before it was found


def _require_movable(old: MovableStore, new: MovableStore, there: MoveMark | None, source: str, target: str) -> None:
    old.require_unused()
    if there is not None and there.state == "left":
        raise StoreFailed(
            f"'{target}' was moved to '{there.other}' and still has its old rows; name another folder or schema, or"
            " delete the old one first: remove its folder, or 'drop schema NAME cascade' in SQL"
        )
    require_not_moved(there, target)
    _require_empty(new, target)
    if problems := old.problems():
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise StoreFailed(f"'{source}' is not healthy: {problems[0]}{more}; see 'interlock doctor'")


def _require_empty(new: MovableStore, target: str) -> None:
    for table in MOVED_TABLES:
        if new.last_key(table) is not None:
            raise StoreFailed(f"'{target}' is not empty: there are rows in '{table.name}'; name an empty store")


def _copy_rows(old: MovableStore, new: MovableStore, table: MovedTable) -> None:
    for page in _pages(old, table, new.last_key(table)):
        new.add_page(table, page)


def _pages(store: MovableStore, table: MovedTable, after: MovedRow | None = None) -> Iterator[list[MovedRow]]:
    while page := list(store.read_page(table, after)):
        yield page
        after = table.key_of(page[-1])


def _require_same_rows(old: MovableStore, new: MovableStore, table: MovedTable) -> int:
    """The number of rows, all of which are equal. Pages of the two stores may end at different rows."""
    count, ours, theirs = 0, _rows(old, table), _rows(new, table)
    for row in ours:
        if row != (found := next(theirs, None)):
            what = "is missing" if found is None else "differs"
            raise StoreFailed(f"the row {table.key_of(row)!r} of '{table.name}' {what} in the target; give the move up")
        count += 1
    if (more := next(theirs, None)) is not None:
        raise StoreFailed(f"the row {table.key_of(more)!r} of '{table.name}' is in the target only; give the move up")
    return count


def _rows(store: MovableStore, table: MovedTable) -> Iterator[MovedRow]:
    for page in _pages(store, table):
        yield from page


def _end_move(old: MovableStore, new: MovableStore) -> None:
    mark = old.read_mark()
    assert mark is not None, "the move has marked it"
    old.write_mark(msgspec.structs.replace(mark, state="left"))
    new.write_mark(None)
