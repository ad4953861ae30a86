"""Owners: which process may append to a run."""

from typing import Protocol


class Owners(Protocol):
    """The owner of a run is the process that may append to it."""

    async def claim(self, run: str) -> int:
        """Makes this process the run's owner and returns the new epoch; `OwnedElsewhere` while another owner lives.

        It takes effect after all earlier writes of this process, also those whose caller was cancelled.
        """
        ...

    async def release(self, run: str) -> None: ...

    async def is_owned(self, run: str) -> bool:
        """Whether the run has an owner that is alive, this process or another."""
        ...
