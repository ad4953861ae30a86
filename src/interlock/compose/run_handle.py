"""A handle of one run: follow its events, wait for its result."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from interlock.compose.results import Result
from interlock.compose.stores.store_home import StoreHome
from interlock.ports import RunRow
from interlock.runtime.following.text_stream import TextPiece, stream_text
from interlock.runtime.runner import Runner

if TYPE_CHECKING:
    from interlock.events import Event


class RunSource(Protocol):
    """The open folder that a run is in: an `Interlock`."""

    home: StoreHome
    runner: Runner

    async def result(self, run_id: str) -> Result: ...


class RunHandle:
    """A run in an open folder. The run does not depend on its handles."""

    def __init__(self, box: RunSource, run_id: str, first_row: RunRow | None = None) -> None:
        """`first_row` is the row that was stored with the first record, if the caller started the run."""
        self._box, self.id, self.first_row = box, run_id, first_row

    def __repr__(self) -> str:
        return f"<run {self.id} in {self._box.home.name}>"

    async def events(self, after: int = 0) -> "AsyncGenerator[Event]":
        """Past and new events, as classes of `interlock.events`, until the run is over or paused."""
        from interlock.events import event_of  # only programs that follow a run pay for its classes

        async with aclosing(self._box.runner.follow(self.id, after)) as followed:
            async for shown in followed:
                yield event_of(shown)

    def text_stream(self, after: int = 0) -> AsyncGenerator[TextPiece]:
        """The text of all replies while they are given, without marks, until the run is over or paused.

        With `after`, the seq of an event, it is the text of the model calls that follow this event.

        Replies come in the order of their calls, with a blank line between two. Joined, the pieces are the same text
        for a run that is over, or that another process drives.
        """
        runner = self._box.runner
        return stream_text(self.id, after, following=runner.following, watchers=runner.watchers, crews=runner.crews)

    async def result(self) -> Result:
        """The result of the run once it is over or paused, in whichever process it is driven."""
        await self._box.runner.wait_until_settled_anywhere(self.id)
        return await self._box.result(self.id)
