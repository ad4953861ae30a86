"""Leaders: work that one process does for all."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Leadership(Protocol):
    """The right of one process to do the work of this name."""

    @property
    def name(self) -> str: ...

    @property
    def epoch(self) -> int:
        """Grows with each leader of this name. A write that takes a `Leadership` compares it with the stored one."""
        ...

    def is_held(self) -> bool:
        """Whether no other process can lead yet. Local: it does not ask the store."""
        ...


class Leaders(Protocol):
    """One leader per name at a time. Leadership ends with the process, and at the end of the context."""

    def leadership(self, name: str) -> AbstractAsyncContextManager[Leadership]:
        """Waits until this process leads, and stores the new epoch before it returns.

        Waiting can be cancelled, and continues while the store is away. The context does not end by itself when the
        leadership is lost: its body asks `is_held` before each piece of work.
        """
        ...
