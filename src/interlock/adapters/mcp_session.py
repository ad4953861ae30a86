"""One connection to an MCP server. The only module that loads the library; whoever needs it imports it then.

Rule 1: the library ties opening and closing to one task, so each connection has a task of its own.
Rule 2: a server that is a command dies with this process, however that ends (mcp_guard).
Rule 3: what the library raises stops here: `ServerGone` if there is nobody to ask, `ToolFailed` for the model.
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

from interlock.adapters import mcp_guard
from interlock.adapters.mcp_settings import McpServer, secret_variables
from interlock.adapters.models.known_keys import KnownKeys
from interlock.errors import PortError, ToolFailed, UsageError

# A server that lists more pages than this lists without end.
PAGES_MAX = 100
# The library's own way of ending a process takes up to seven seconds; past this the process is left to its guard.
CLOSE_SECONDS = 10.0
TOLD_CHARS = 1_000
CALL_KEY = "interlock/key"
# The library's own words for a refusal over HTTP, and for a connection that is over, whose code servers also use for
# errors of any kind.
REFUSED = "Server returned an error response"
CLOSED = ("Connection closed", "SSE stream ")

# What goes wrong is told to whoever called; where nobody has set up a log, the library's is not for the terminal.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class ServerGone(PortError):
    """The connection is closed: nobody answered, and nobody knows whether the call was heard."""

    code = "server-gone"


class McpSession:
    """A connection that is open from `open` until it breaks off or is closed; it is not opened twice."""

    def __init__(self, name: str, settings: McpServer) -> None:
        self.name, self.settings = name, settings
        self.tools: dict[str, wire.Tool] = {}
        self.is_gone = False
        self._is_open = False
        self._status = 0  # of the last answer over HTTP that was a refusal, which the library keeps to itself
        self._over = asyncio.Event()
        self._keys = KnownKeys(os.environ.get(name, "") for name in secret_variables(settings))

    _client: Client
    _task: "asyncio.Task[None] | None" = None

    async def open(self) -> None:
        """Starts or reaches the server and learns its tools; `UsageError` says why that failed."""
        opened = asyncio.get_running_loop().create_future()
        with tempfile.TemporaryFile() as errors:
            self._task = asyncio.create_task(self._own(opened, errors))
            try:
                async with asyncio.timeout(self.settings.start_timeout_seconds):
                    await opened
            except TimeoutError as error:
                await self.close()
                late = f"no answer within {self.settings.start_timeout_seconds:g} s"
                raise self._unreachable(late, errors) from error
            except asyncio.CancelledError:
                await self.close()
                raise
            except Exception as error:
                raise self._unreachable(self._reason(error), errors) from error

    async def _own(self, opened: "asyncio.Future[None]", errors: IO[bytes]) -> None:
        try:
            async with AsyncExitStack() as stack:
                transport = _noticed(self._transport(stack, errors), self._gone)
                self._client = await stack.enter_async_context(Client(transport, cache=None))
                self.tools = await _listed(self._client)
                self._is_open = True
                if not opened.done():
                    opened.set_result(None)
                await self._over.wait()
        except Exception as error:
            if not opened.done():
                opened.set_exception(error)
        finally:
            self._gone()

    def _gone(self) -> None:
        self.is_gone = True

    def _transport(self, stack: AsyncExitStack, errors: IO[bytes]) -> Transport:
        settings = self.settings
        if settings.url:
            return _over_http(settings, self._refused)
        errlog = stack.enter_context(os.fdopen(os.dup(errors.fileno()), "w", encoding="utf-8"))
        guarded = ["-I", "-S", str(Path(mcp_guard.__file__)), str(os.getpid()), *settings.command]
        env = {name: _variable(name) for name in settings.env}
        parameters = StdioServerParameters(
            command=sys.executable,
            args=guarded,
            env=env,
            cwd=settings.cwd or None,
            encoding_error_handler="replace",  # one odd byte would end the reading, and nobody would be told
        )
        return stdio_client(parameters, errlog)

    async def _refused(self, response: httpx2.Response) -> None:
        if response.request.method == "POST" and response.status_code >= 400:
            self._status = response.status_code

    def _reason(self, error: BaseException) -> str:
        words = _words(error)
        if words != REFUSED:
            return words
        check = f"; check {self.settings.key_env or 'key_env'}" if self._status in (401, 403) else ""
        return f"it answered {self._status}{check}"

    def _unreachable(self, why: str, errors: IO[bytes]) -> UsageError:
        errors.seek(0)
        said = " ".join(errors.read().decode("utf-8", "replace").split())[-TOLD_CHARS:]
        told = self._keys.hidden(f"{why}; it said: {said}" if said else why)
        at = self.settings.url or " ".join(self.settings.command)
        return UsageError(f"MCP server '{self.name}' ({at}) cannot be used: {told}; see [mcp.{self.name}]")

    async def call(self, tool: str, arguments: dict[str, Any], key: str) -> str:
        """The tool's output as text; `ToolFailed` for the model, `ServerGone` if the connection broke off."""
        seconds = self.settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                meta = cast(wire.RequestParamsMeta, {CALL_KEY: key})
                result = await self._client.call_tool(tool, arguments, meta=meta)
            text = self._keys.hidden(_text_of(result))
        except TimeoutError as error:
            raise ToolFailed(f"tool '{tool}' of MCP server '{self.name}' took longer than {seconds:g} s") from error
        except Exception as error:
            if self.is_gone or _is_closed(error):
                self._gone()
                raise ServerGone(f"MCP server '{self.name}' broke off") from error
            raise ToolFailed(self._keys.hidden(self._reason(error))) from error
        if result.is_error:
            raise ToolFailed(text or f"tool '{tool}' failed and did not say why")
        return text

    async def close(self) -> None:
        """Ends the connection and the process behind it; every wait has an end."""
        self._over.set()
        task, self._task = self._task, None
        if task is None:
            return
        if not self._is_open:  # it waits for the server, and not for us
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=CLOSE_SECONDS)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_SECONDS)


# Transports


@asynccontextmanager
async def _over_http(settings: McpServer, seen: Callable[[httpx2.Response], Awaitable[None]]) -> AsyncIterator[Any]:
    """Nothing is taken from the environment: a proxy, or a .netrc, would get or replace the key."""
    headers = {"Authorization": f"Bearer {_variable(settings.key_env)}"} if settings.key_env else {}
    hooks = {"response": [seen]}
    timeout = httpx2.Timeout(settings.start_timeout_seconds, read=settings.timeout_seconds)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False, event_hooks=hooks) as client,
        streamable_http_client(settings.url, http_client=client) as streams,
    ):
        yield streams


@asynccontextmanager
async def _noticed(transport: Transport, gone: Callable[[], None]) -> AsyncIterator[Any]:
    async with transport as (reading, writing):
        yield _Noticing(reading, gone), writing


class _Noticing:
    """A stream of messages that says when it ends: what is called after that was surely never sent."""

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


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"the variable {name} is not set")
    return value


# What servers say


async def _listed(client: Client) -> dict[str, wire.Tool]:
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


def _words(error: BaseException) -> str:
    """The reason itself, not the groups that the library wraps around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, UsageError | MCPError):
        return str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"it answered something that is no MCP; {'.'.join(map(str, first['loc']))}: {first['msg']}"
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
