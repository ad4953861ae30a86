"""One connection to an MCP server. The only module that loads the library, so it is imported on first use.

Rule 1: the library requires that one task opens and closes a connection, so each connection has its own task.
Rule 2: a server that is a command dies with this process, however that ends (mcp_guard).
Rule 3: errors of the library stop here: `ServerGone` if the connection is lost, `ToolFailed` for the model.
"""

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

import httpx2
import mcp_types as wire
import msgspec
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.config.mcp_settings import McpServer, secret_variables
from interlock.adapters.tools import mcp_guard
from interlock.errors import PortError, ToolFailed, UsageError

# A server with more pages than this has an endless list.
PAGES_MAX = 100
# The library needs up to seven seconds to end a process; after this the guard ends it.
CLOSE_SECONDS = 10.0
TOLD_CHARS = 1_000
CALL_KEY = "interlock/key"
# The library's texts for a refusal over HTTP, and for a closed connection, whose code servers also use for other
# errors.
REFUSED = "Server returned an error response"
CLOSED = ("Connection closed", "SSE stream ")

# Errors are raised to the caller; without a configured log, the library must not print to the terminal.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class ServerGone(PortError):
    """The connection is closed without an answer; it is unknown if the call arrived."""

    code = "server-gone"


class McpSession:
    """A connection, open from `open` until it breaks or is closed; it is opened once."""

    def __init__(self, name: str, settings: McpServer) -> None:
        self.name, self.settings = name, settings
        self.tools: dict[str, wire.Tool] = {}
        self.is_gone = False
        self._is_open = False
        self._status = 0  # of the last refusal over HTTP, which the library does not report
        self._over = asyncio.Event()
        self._keys = KnownSecrets(os.environ.get(name, "") for name in secret_variables(settings))

    _client: Client
    _task: "asyncio.Task[None] | None" = None

    async def open(self) -> None:
        """Starts or connects to the server and lists its tools; raises `UsageError` with the reason if that fails."""
        opened = asyncio.get_running_loop().create_future()
        with tempfile.TemporaryFile() as errors:
            self._task = asyncio.create_task(self._run_connection(opened, errors))
            try:
                async with asyncio.timeout(self.settings.start_timeout_seconds):
                    await opened
            except TimeoutError as error:
                await self.close()
                late = f"no answer within {self.settings.start_timeout_seconds:g} s"
                raise self._unusable_error(late, errors) from error
            except asyncio.CancelledError:
                await self.close()
                raise
            except Exception as error:
                raise self._unusable_error(self._reason(error), errors) from error

    async def _run_connection(self, opened: "asyncio.Future[None]", errors: IO[bytes]) -> None:
        try:
            async with AsyncExitStack() as stack:
                transport = _watch_for_end(self._transport(stack, errors), self._mark_gone)
                self._client = await stack.enter_async_context(Client(transport, cache=None))
                self.tools = await _list_tools(self._client)
                self._is_open = True
                if not opened.done():
                    opened.set_result(None)
                await self._over.wait()
        except Exception as error:
            if not opened.done():
                opened.set_exception(error)
        finally:
            self._mark_gone()

    def _mark_gone(self) -> None:
        self.is_gone = True

    def _transport(self, stack: AsyncExitStack, errors: IO[bytes]) -> Transport:
        settings = self.settings
        if settings.url:
            return _over_http(settings, self._on_response)
        errlog = stack.enter_context(os.fdopen(os.dup(errors.fileno()), "w", encoding="utf-8"))
        guarded = ["-I", "-S", str(Path(mcp_guard.__file__)), str(os.getpid()), *settings.command]
        env = {name: _require_variable(name) for name in settings.env}
        parameters = StdioServerParameters(
            command=sys.executable,
            args=guarded,
            env=env,
            cwd=settings.cwd or None,
            encoding_error_handler="replace",  # one invalid byte would end the reading silently
        )
        return stdio_client(parameters, errlog)

    async def _on_response(self, response: httpx2.Response) -> None:
        if response.request.method == "POST" and response.status_code >= 400:
            self._status = response.status_code

    def _reason(self, error: BaseException) -> str:
        words = _error_text(error)
        if words != REFUSED:
            return words
        check = f"; check {self.settings.key_env or 'key_env'}" if self._status in (401, 403) else ""
        return f"it answered {self._status}{check}"

    def _unusable_error(self, why: str, errors: IO[bytes]) -> UsageError:
        errors.seek(0)
        said = " ".join(errors.read().decode("utf-8", "replace").split())[-TOLD_CHARS:]
        reason = self._keys.redact(f"{why}; it said: {said}" if said else why)
        at = self.settings.url or " ".join(self.settings.command)
        return UsageError(f"MCP server '{self.name}' ({at}) cannot be used: {reason}; see [mcp.{self.name}]")

    async def call(self, tool: str, arguments: dict[str, Any], key: str) -> str:
        """Calls a tool and returns its output as text; raises `ToolFailed` for the model, `ServerGone` if lost."""
        seconds = self.settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                meta = cast(wire.RequestParamsMeta, {CALL_KEY: key})
                result = await self._client.call_tool(tool, arguments, meta=meta)
            text = self._keys.redact(_text_of(result))
        except TimeoutError as error:
            raise ToolFailed(f"tool '{tool}' of MCP server '{self.name}' took longer than {seconds:g} s") from error
        except Exception as error:
            if self.is_gone or _is_closed(error):
                self._mark_gone()
                raise ServerGone(f"MCP server '{self.name}' broke off") from error
            raise ToolFailed(self._keys.redact(self._reason(error))) from error
        if result.is_error:
            raise ToolFailed(text or f"tool '{tool}' failed and did not say why")
        return text

    async def close(self) -> None:
        """Closes the connection and ends its process; every wait has a time limit."""
        self._over.set()
        task, self._task = self._task, None
        if task is None:
            return
        if not self._is_open:  # it waits for the server, not for us
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=CLOSE_SECONDS)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_SECONDS)


# Transports


@asynccontextmanager
async def _over_http(settings: McpServer, seen: Callable[[httpx2.Response], Awaitable[None]]) -> AsyncIterator[Any]:
    """Connects over HTTP. Nothing is read from the environment: a proxy or .netrc would get or replace the key."""
    headers = {"Authorization": f"Bearer {_require_variable(settings.key_env)}"} if settings.key_env else {}
    hooks = {"response": [seen]}
    timeout = httpx2.Timeout(settings.start_timeout_seconds, read=settings.timeout_seconds)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False, event_hooks=hooks) as client,
        streamable_http_client(settings.url, http_client=client) as streams,
    ):
        yield streams


@asynccontextmanager
async def _watch_for_end(transport: Transport, gone: Callable[[], None]) -> AsyncIterator[Any]:
    async with transport as (reading, writing):
        yield _EndWatchingStream(reading, gone), writing


class _EndWatchingStream:
    """A stream of messages that records its end: a call after that was surely never sent."""

    def __init__(self, inner: Any, gone: Callable[[], None]) -> None:
        self._inner, self._gone = inner, gone

    async def receive(self) -> Any:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            self._gone()
            raise

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


def _require_variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"the variable {name} is not set")
    return value


# What servers say


async def _list_tools(client: Client) -> dict[str, wire.Tool]:
    found: dict[str, wire.Tool] = {}
    cursor = None
    for _ in range(PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        found |= {tool.name: tool for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise UsageError(f"it lists more than {PAGES_MAX} pages of tools")


def _is_closed(error: Exception) -> bool:
    is_code = isinstance(error, MCPError) and error.code == wire.CONNECTION_CLOSED
    return is_code and str(error).startswith(CLOSED)


def _error_text(error: BaseException) -> str:
    """The error itself, not the exception groups of the library."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, UsageError | MCPError):
        return str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its answer is not MCP; {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _text_of(result: wire.CallToolResult) -> str:
    if not result.content and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(map(_block_text, result.content))


def _block_text(block: wire.ContentBlock) -> str:
    match block:
        case wire.TextContent():
            return block.text
        case wire.EmbeddedResource(resource=wire.TextResourceContents() as resource):
            return resource.text
        case wire.ResourceLink():
            return f"{block.name}: {block.uri}"
        case wire.EmbeddedResource():
            return f"({block.resource.uri}: {block.resource.mime_type or 'bytes'}, cannot be shown as text)"
        case _:
            return f"({block.type}, {block.mime_type}, cannot be shown as text)"
