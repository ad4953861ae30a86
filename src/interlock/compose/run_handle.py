"""A handle of one run: follow its events, wait for its result."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from interlock.compose.results import Result
from interlock.runtime.following import PublicEvent
from interlock.runtime.runner import Runner


class RunSource(Protocol):
    """The open folder that a run is in: an `Interlock`."""

    data: Path
    runner: Runner

    async def result(self, run_id: str) -> Result: ...


class RunHandle:
    """A run in an open folder. The run does not depend on its handles."""

    def __init__(self, box: RunSource, run_id: str) -> None:
        self._box, self.id = box, run_id

    def __repr__(self) -> str:
        return f"<run {self.id} in {self._box.data}>"

    def events(self, after: int = 0) -> AsyncIterator[PublicEvent]:
        """Past and new events, until the run is over or paused."""
        return self._box.runner.follow(self.id, after)

    async def result(self) -> Result:
        """The result of the run once it is over or paused, in whichever process it is driven."""
        await self._box.runner.wait_until_settled_anywhere(self.id)
        return await self._box.result(self.id)
