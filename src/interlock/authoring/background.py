"""One background thread per process, with an event loop and the data folders that `crew.run` opens in it.

Rule 1: all calls on one folder share one opened store. It is closed when the process exits.
Rule 2: a call that is stopped parks its run first; then its caller continues.
Rule 3: a forked child begins with nothing: it opens folders of its own, in a thread of its own.
"""

import asyncio
import atexit
import concurrent.futures
import concurrent.futures.thread  # its own exit handler must be registered before ours, which runs first
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from interlock.adapters.config.host_secrets import host_secrets
from interlock.compose.crews import find_host_file, settings_from
from interlock.compose.interlock import Interlock
from interlock.compose.stores.homes import home_of
from interlock.compose.stores.store_home import StoreHome
from interlock.compose.stores.store_url import store_of_environment
from interlock.errors import InterlockError, UsageError

T = TypeVar("T")

_log = logging.getLogger("interlock")

AnyPath = str | os.PathLike[str]


class CallStopped(BaseException):
    """The outcome of a call that its caller stopped, or that ended with the process."""


class BackgroundCall(Generic[T]):
    """A coroutine in the background loop, and its outcome for a caller in another thread or loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._loop, self._work = loop, work
        self._task: asyncio.Task[T] | None = None
        self.thread = threading.current_thread()
        self.outcome: Future[T] = Future()
        self.outcome.set_running_or_notify_cancel()  # a caller that goes must not cancel it: the call ends by itself
        loop.call_soon_threadsafe(self._begin)  # with the context variables of the caller

    def stop(self) -> None:
        """Cancels the coroutine; the outcome follows when it has ended."""
        self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        """Waits in a thread. An interrupt stops the call, and is raised when it has ended."""
        try:
            return self.outcome.result()
        except CallStopped as error:
            raise _exit_error() from error
        except BaseException:
            if not self.outcome.done():
                self.stop()
                concurrent.futures.wait([self.outcome])
            raise

    async def wait(self) -> T:
        """Waits in a loop. A cancellation stops the call, and is raised when it has ended."""
        outcome = asyncio.wrap_future(self.outcome)
        try:
            return await asyncio.shield(outcome)
        except CallStopped as error:
            raise _exit_error() from error
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([outcome])
            if not outcome.cancelled():
                outcome.exception()  # it is known
            raise

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._settle)

    async def _run(self) -> T:
        return await self._work()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _settle(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.outcome.set_exception(CallStopped())
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


class _SharedFolder(NamedTuple):
    """A folder that is open or being opened. The outcome of `opening` identifies its database."""

    box: Interlock
    host_file: Path | None
    opening: "asyncio.Task[Hashable]"


class Background:
    """The thread, its loop, and the open folders. Folders are opened, used and closed in the loop only."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._folders: dict[str, _SharedFolder] = {}
        self._calls: set[BackgroundCall[Any]] = set()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="interlock-runs", daemon=True)
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> BackgroundCall[T]:
        if self._is_closed:
            raise _exit_error()
        call = BackgroundCall(self.loop, work)
        self._calls.add(call)
        call.outcome.add_done_callback(lambda _: self._calls.discard(call))
        return call

    async def box_of(self, data: AnyPath | None, crews: Sequence[AnyPath] = ()) -> Interlock:
        """The open store: the named one, that of the environment or the host file, or the one in the working folder."""
        host_file = find_host_file(None, crews).path
        host_file = host_file and Path(os.path.realpath(host_file))
        settings = settings_from(host_file)
        named = data if data is not None else store_of_environment(settings.store, f"{host_file}: store.url")
        if not isinstance(named, str | os.PathLike):
            raise UsageError(f"data must be the path of a folder, or the URL of a store, not {type(named).__name__}")
        home = home_of(named)
        folder = home.key
        await self._close_if_replaced(home)
        if folder not in self._folders:
            self._folders[folder] = self._open_folder(home, named, host_file)
        shared = self._folders[folder]
        if shared.host_file != host_file:
            raise UsageError(
                f"data folder '{home.name}' is open in this process with {shared.host_file or 'no interlock.toml'}, "
                f"not {host_file or 'without one'}; use another folder, or one interlock.toml"
            )
        try:
            await asyncio.shield(shared.opening)
        except Exception:
            self._folders.pop(folder, None)
            raise
        shared.box.redactor().add(*(secret.value for secret in host_secrets(settings, os.environ)))
        return shared.box

    def _open_folder(self, home: StoreHome, named: AnyPath, host_file: Path | None) -> _SharedFolder:
        box = Interlock(named, host=host_file)

        async def open_box() -> Hashable:
            await box.__aenter__()
            return home.identity()

        return _SharedFolder(box, host_file, self.loop.create_task(open_box()))

    async def _close_if_replaced(self, home: StoreHome) -> None:
        """Closes a folder that was deleted or replaced since it was opened, as test runners do."""
        shared = self._folders.get(home.key)
        if shared is None or not shared.opening.done() or shared.opening.result() == home.identity():
            return
        del self._folders[home.key]
        with suppress(InterlockError):  # what was in it is gone
            await shared.box.__aexit__(None, None, None)

    def close(self) -> None:
        """Waits for calls of threads that keep the process alive, then closes all folders and ends the thread."""
        main = threading.main_thread()
        waiting = [call.outcome for call in list(self._calls) if not call.thread.daemon and call.thread is not main]
        try:
            concurrent.futures.wait(waiting)
        finally:
            self._is_closed = True
            asyncio.run_coroutine_threadsafe(self._close_folders(), self.loop).result()
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    async def _close_folders(self) -> None:
        folders, self._folders = list(self._folders.values()), {}
        for shared in folders:
            await asyncio.wait([shared.opening])
            if shared.opening.exception() is None:
                await _close_box(shared.box)
        left = list(self._calls)
        for call in left:
            call.stop()
        await asyncio.gather(*(asyncio.wrap_future(call.outcome) for call in left), return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


class _Process:
    """The background of this process, if it has one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.background: Background | None = None


def background() -> Background:
    """The background of this process, started at the first use."""
    with _process.lock:
        if _process.background is None:
            _at_exit(close_background)
            _process.background = Background()
        return _process.background


def close_background() -> None:
    """Closes all folders that `run`, `run_sync` and `stream` have opened; the next call opens them again."""
    with _process.lock:
        closing, _process.background = _process.background, None
    if closing is not None:
        closing.close()


async def _close_box(box: Interlock) -> None:
    """Closes a folder. A failure must not keep the other folders open."""
    try:
        await box.__aexit__(None, None, None)
    except InterlockError as error:
        _log.warning("data folder '%s' was not closed well: %s", box.home.name, error)


def _at_exit(close: Callable[[], None]) -> None:
    """Registers a handler that runs before the thread pools of the process close: a store needs them."""
    try:
        getattr(threading, "_register_atexit", atexit.register)(close)
    except RuntimeError as error:
        raise _exit_error() from error


def _exit_error() -> UsageError:
    return UsageError("the main thread of the process has ended, and its data folders are closed; wait for runs in it")


_process = _Process()
os.register_at_fork(after_in_child=_process.__init__)  # type: ignore[misc]
