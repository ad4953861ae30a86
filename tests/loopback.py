"""A server on the loopback for as long as a test needs it: when it goes, no connection and no task of it is left.

`asyncio.Server.close` ends the listening only. A connection that is open then, or a task that has not come to its end,
is found by the garbage collector much later, in a test that has nothing to do with it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[int]:
    """Yields the port. A connection ends with its talk, all of them with the block; what a talk raises is raised."""
    open_: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def attended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                await talk(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()

    def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_[asyncio.create_task(attended(reader, writer))] = writer

    server = await asyncio.start_server(attend, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for _ in range(3):  # what is just being accepted arrives
            await asyncio.sleep(0)
        for task, writer in open_.items():
            writer.transport.abort()
            task.cancel()
        for told in await asyncio.gather(*open_, return_exceptions=True):
            if isinstance(told, Exception):
                raise told
