"""Tools of MCP servers: `mcp:<id>/<tool>` in crew files, `<id>_<tool>` for models (providers accept no other names).

Rule 1: a server is started before the first run of a crew that names it, once for all runs, and ends with the toolbox.
Rule 2: a server that died is started again for the next call; if it dies again without an answer, it stays down until
the next run needs it. A call that was in progress is repeated only if its tool is idempotent.
Rule 3: a tool is idempotent only if its server declares it and the host trusts it (`trust_hints`).
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.adapters.config.extras import missing_extra_message
from interlock.adapters.config.mcp_settings import McpServer
from interlock.adapters.tools.tool_names import fit_name
from interlock.errors import ToolFailed, UsageError, nearest
from interlock.ports import NO_CREW, CrewRef, ToolCall, ToolSchema

if TYPE_CHECKING:
    from interlock.adapters.tools.mcp_session import McpSession

PREFIX = "mcp:"


class McpToolbox:
    """The servers of a host. `taken` are names of other tools."""

    def __init__(self, servers: Mapping[str, McpServer], taken: Collection[str] = ()) -> None:
        self._servers = {name: _Server(name, settings) for name, settings in servers.items()}
        self._taken = taken
        self._tools: dict[str, _Tool] = {}

    async def ensure_started(self, named: Iterable[str], *, lenient: bool = False) -> None:
        """Starts the servers of these tools. Raises `UsageError` if one fails, or, unless `lenient`, lacks a tool."""
        wanted = [name for name in dict.fromkeys(named) if name.startswith(PREFIX)]
        for name in map(server_of, wanted):
            if name not in self._servers and not lenient:
                raise UsageError(f"there is no MCP server '{name}'; add [mcp.{name}] to interlock.toml")
        known = [name for name in wanted if server_of(name) in self._servers]
        await self._start_servers(dict.fromkeys(map(server_of, known)))
        for name in known:
            self._register_tools(name, lenient)

    async def _start_servers(self, ids: Iterable[str]) -> None:
        """Starts all in parallel; if one fails, the others are not left half-started."""
        outcomes = await asyncio.gather(*(self._servers[name].ensure_open() for name in ids), return_exceptions=True)
        for failure in filter(None, outcomes):
            raise failure

    def _register_tools(self, full: str, lenient: bool) -> None:
        offered = self._servers[server_of(full)].tools()
        found = [tool for tool in offered if tool.is_named(full)]
        if not found and not lenient:
            raise _unknown_tool_error(full, [tool.name for tool in offered])
        for tool in found:
            self._require_distinct(tool)
            self._tools[tool.shown] = tool

    def _require_distinct(self, tool: "_Tool") -> None:
        other = self._tools.get(tool.shown)
        if tool.shown in self._taken or (other is not None and other.full_name != tool.full_name):
            same = other.full_name if other else tool.shown
            raise UsageError(
                f"models would see both '{tool.full_name}' and '{same}' as '{tool.shown}'; "
                f"rename [mcp.{tool.server}], or the other one"
            )

    def schemas(self, names: Sequence[str], crew: CrewRef = NO_CREW) -> tuple[ToolSchema, ...]:
        full = [name for name in names if name.startswith(PREFIX)] if self._tools else []
        tools = [tool for name in full for tool in self._tools.values() if tool.is_named(name)]
        return tuple({tool.shown: tool.schema for tool in tools}.values())

    def names_offered(self) -> tuple[str, ...]:
        """The names for models of all tools that the started servers offer to crews."""
        return tuple(tool.shown for server in self._servers.values() for tool in server.tools())

    def servers_not_started(self) -> tuple[str, ...]:
        return tuple(name for name, server in self._servers.items() if not server.tools())

    def has(self, shown: str) -> bool:
        return shown in self._tools

    def is_idempotent(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return name in self._tools and self._tools[name].idempotent

    def needs_approval(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return name in self._tools and self._tools[name].needs_approval

    async def run(self, call: ToolCall) -> str:
        if call.name not in self._tools:
            raise ToolFailed(f"there is no tool '{call.name}' on this machine")
        tool = self._tools[call.name]
        return await self._servers[tool.server].call(tool, _decode_arguments(call.name, call.arguments), call.key)

    async def close(self) -> None:
        self._tools.clear()
        await asyncio.gather(*(server.close() for server in self._servers.values()))


class _Tool(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    name: str
    shown: str
    schema: ToolSchema
    idempotent: bool
    needs_approval: bool

    @property
    def full_name(self) -> str:
        return f"{PREFIX}{self.server}/{self.name}"

    def is_named(self, name: str) -> bool:
        """`mcp:<id>` names every tool of the server."""
        return name in (self.full_name, f"{PREFIX}{self.server}")


class _Server:
    """One server and the connection to it, if there is one."""

    def __init__(self, name: str, settings: McpServer) -> None:
        self.name, self.settings = name, settings
        self._session: McpSession | None = None
        self._opening = asyncio.Lock()
        # True if it may be started again: it has answered since its start.
        self._has_answered = False

    async def ensure_open(self) -> None:
        async with self._opening:
            if self._session is None or self._session.is_gone:
                await self._open()
                self._has_answered = True  # listing its tools is an answer

    async def _open(self) -> None:
        session_class = _session_class()
        await self._close()
        session = session_class(self.name, self.settings)
        await session.open()
        self._session = session

    def tools(self) -> list[_Tool]:
        listed = self._session.tools if self._session is not None else {}
        return [self._tool(tool) for name, tool in listed.items() if self.settings.allows(name)]

    def _tool(self, tool: Any) -> _Tool:
        hints = tool.annotations
        shown = name_for_models(self.name, tool.name)
        return _Tool(
            server=self.name,
            name=tool.name,
            shown=shown,
            schema=ToolSchema(name=shown, description=tool.description or "", parameters=tool.input_schema),
            idempotent=self.settings.trust_hints
            and hints is not None
            and bool(hints.idempotent_hint or hints.read_only_hint),
            needs_approval=self.settings.must_be_approved(tool.name),
        )

    async def call(self, tool: _Tool, arguments: dict[str, Any], key: str) -> str:
        from interlock.adapters.tools.mcp_session import ServerGone

        try:
            return await self._call_once(tool.name, arguments, key)
        except ServerGone as gone:
            if not tool.idempotent:
                raise ToolFailed(f"{gone} before it answered; it is unknown if '{tool.name}' was done") from gone
        try:
            return await self._call_once(tool.name, arguments, key)
        except ServerGone as again:
            raise ToolFailed(f"{again} twice before it answered '{tool.name}'") from again

    async def _call_once(self, tool: str, arguments: dict[str, Any], key: str) -> str:
        session = await self._live_session()
        output = await session.call(tool, arguments, key)
        self._has_answered = True
        return output

    async def _live_session(self) -> "McpSession":
        async with self._opening:
            if self._session is None or self._session.is_gone:
                await self._reopen()
            assert self._session is not None, "opening it has raised otherwise"
            return self._session

    async def _reopen(self) -> None:
        if not self._has_answered and not self.settings.url:  # we cannot restart a server at an address
            raise ToolFailed(f"MCP server '{self.name}' died again and stays down; start another run to retry it")
        self._has_answered = False
        try:
            await self._open()
        except UsageError as error:
            raise ToolFailed(str(error)) from error

    async def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def close(self) -> None:
        async with self._opening:
            await self._close()
        self._opening = asyncio.Lock()  # the toolbox may be opened again in another loop


def server_of(full: str) -> str:
    return full.removeprefix(PREFIX).partition("/")[0]


def name_for_models(server: str, tool: str) -> str:
    """Its name for models."""
    return fit_name(f"{server}_{tool}")


def _unknown_tool_error(full: str, offered: Sequence[str]) -> UsageError:
    server, _, tool = full.removeprefix(PREFIX).partition("/")
    if not tool:
        return UsageError(f"MCP server '{server}' offers no tool that crews may use; see [mcp.{server}]")
    has = ", ".join(offered[:20]) or "none"
    advice = nearest(tool, offered, f"it has {has}")
    return UsageError(f"MCP server '{server}' has no tool '{tool}' that crews may use; {advice}")


def _decode_arguments(name: str, arguments: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise ToolFailed(f"wrong arguments for '{name}': {error}") from error


def _session_class() -> "type[McpSession]":
    try:
        from interlock.adapters.tools.mcp_session import McpSession
    except ModuleNotFoundError as error:
        raise UsageError(missing_extra_message("an MCP server's tool", "mcp", error.name or "")) from error
    return McpSession
