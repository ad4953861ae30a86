"""`run`, `run_sync` and `stream`: a crew runs in the background of the process, and its caller waits.

Rule 1: async functions of the program run in the loop of the caller, if the caller is in one and awaits.
Rule 2: a caller that is interrupted or cancelled parks the run that it started.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Generic

from interlock.adapters.clock import SystemClock
from interlock.adapters.function_callers import CallsInLoop, CallsInThreads
from interlock.adapters.models.given_models import ModelChoice
from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.value_types.output_types import OutputTypes
from interlock.authoring.background import AnyPath, background
from interlock.compose.given.run_resources import RunGift
from interlock.compose.interlock import Interlock, Result, RunHandle, new_run_id
from interlock.compose.results import T
from interlock.crew.definition import CrewDefinition
from interlock.errors import UsageError
from interlock.runtime.following.text_stream import TextPiece


class Runnable(ABC, Generic[T]):
    """Base of `Crew` and `Agent`: what has a definition and functions can be run."""

    @property
    @abstractmethod
    def definition(self) -> CrewDefinition: ...

    @property
    @abstractmethod
    def functions(self) -> Mapping[str, PythonTool]: ...

    @property
    def output_types(self) -> OutputTypes:
        """The types that were given as outputs, by the names of crews and agents."""
        return {}

    @property
    def crew_files(self) -> Sequence[AnyPath]:
        """Files whose folder may hold the interlock.toml, if the working folder has none."""
        return ()

    def as_typed_result(self, result: Result[Any]) -> Result[T]:
        """The result of a run with its value as one of the declared type; without a type it stays plain JSON."""
        return result

    async def run(
        self,
        text: str,
        *,
        data: AnyPath | None = None,
        models: ModelChoice | None = None,
        deps: Any = None,
        user: str | None = None,
        run_id: str | None = None,
    ) -> Result[T]:
        """Runs the crew until it is over or paused.

        `data` is the data folder: INTERLOCK_DATA or `.interlock` by default. `models` reply instead of the models that
        the crew names, `deps` and `user` are given to its tools. The same `run_id` again gives the first outcome, or
        continues a run whose process is gone.
        """
        gift = RunGift(models, deps, CallsInLoop(asyncio.get_running_loop()))
        visit = _RunVisit(self, text, data, gift, user, run_id)
        return self.as_typed_result(await background().call(visit.result).wait())

    def run_sync(
        self,
        text: str,
        *,
        data: AnyPath | None = None,
        models: ModelChoice | None = None,
        deps: Any = None,
        user: str | None = None,
        run_id: str | None = None,
    ) -> Result[T]:
        """Runs the crew as `run` does and waits for it, also where an event loop is running.

        Async functions of the program run in the background, because the loop of the caller waits.
        """
        host = background()
        if host.is_current_thread:
            raise UsageError("run_sync would wait for itself in an async tool or model; write 'await crew.run(...)'")
        visit = _RunVisit(self, text, data, RunGift(models, deps, CallsInThreads()), user, run_id)
        return self.as_typed_result(host.call(visit.result).result())

    async def stream(
        self,
        text: str,
        *,
        data: AnyPath | None = None,
        models: ModelChoice | None = None,
        deps: Any = None,
        user: str | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[TextPiece]:
        """Runs the crew as `run` does and yields the text of its replies as it comes. Leaving early parks the run."""
        gift = RunGift(models, deps, CallsInLoop(asyncio.get_running_loop()))
        pieces = _RunVisit(self, text, data, gift, user, run_id).pieces()
        host = background()
        try:
            while (piece := await host.call(lambda: _next_of(pieces)).wait()) is not None:
                yield piece
        finally:
            await host.call(pieces.aclose).wait()


async def _next_of(pieces: AsyncIterator[TextPiece]) -> TextPiece | None:
    return await anext(pieces, None)


class _RunVisit:
    """One caller of a run, in the background: it starts the run or joins it, and parks it if it leaves early."""

    def __init__(
        self, crew: Runnable[Any], text: str, data: AnyPath | None, gift: RunGift, user: str | None, run_id: str | None
    ) -> None:
        self._crew, self._text, self._data, self._gift, self._user = crew, text, data, gift, user
        self._run_id = new_run_id(SystemClock()) if run_id is None else run_id
        self._box: Interlock | None = None

    async def result(self) -> Result[Any]:
        try:
            return await (await self._start()).result()
        finally:
            await self._leave()

    async def pieces(self) -> AsyncGenerator[TextPiece]:
        try:
            async for piece in (await self._start()).text_stream():
                yield piece
        finally:
            await self._leave()

    async def _start(self) -> RunHandle:
        self._box = await background().box_of(self._data, self._crew.crew_files)
        gift = self._gift
        return await self._box.start(
            self._crew,
            self._text,
            run_id=self._run_id,
            user=self._user,
            models=gift.models,
            deps=gift.deps,
            place=gift.place,
        )

    async def _leave(self) -> None:
        """Parks the run if it is still in progress, unless another caller started it."""
        if self._box is None:
            return
        gift = self._box.resources.gift_of(self._run_id)
        if gift is not None and gift.place is self._gift.place:
            try:
                await self._box.park(self._run_id)
            finally:
                self._box.resources.forget(self._run_id)
