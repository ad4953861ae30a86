"""Pages bounded in bytes: one text may be as large as a whole page of others."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from interlock.limits import PAGE_BYTES_MAX

T = TypeVar("T")


def first_page(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[T]:
    """The first items, until they fill a page; at least one."""
    size = 0
    for item in items:
        yield item
        size += size_of(item)
        if size >= PAGE_BYTES_MAX:
            return
