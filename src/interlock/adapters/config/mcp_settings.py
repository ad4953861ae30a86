"""[mcp.<id>] of interlock.toml: how the host connects to an MCP server, and what it trusts it with.

Rule 1: a server is a command that the host starts, or an address; never both.
Rule 2: keys are named by their variable; they leave this machine only encrypted.
"""

import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from interlock.adapters.config.host_sections import require_variable, section_of
from interlock.errors import UsageError

SERVER_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Parts of the names of variables with a secret; others, such as HOME, have none.
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASS")


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server. `tools` are those that crews may use, all by default. `env` are variables to pass on."""

    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    key_env: str = ""
    tools: tuple[str, ...] | None = None
    timeout_seconds: float = 60.0
    start_timeout_seconds: float = 60.0
    trust_hints: bool = False
    needs_approval: bool | tuple[str, ...] = False  # true for all of its tools, or a list of names

    def must_be_approved(self, tool: str) -> bool:
        return self.needs_approval if isinstance(self.needs_approval, bool) else tool in self.needs_approval

    def allows(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


def secret_variables(server: McpServer) -> tuple[str, ...]:
    """The variables with secrets of the server."""
    passed_on = [name for name in server.env if any(word in name.upper() for word in _SECRET_WORDS)]
    return tuple(name for name in (server.key_env, *passed_on) if name)


def read_mcp_server(file: Path, name: str, entry: dict[str, Any]) -> McpServer:
    """Reads the section; raises `UsageError` with the fault."""
    where = f"{file}: mcp.{name}"
    if not SERVER_ID.fullmatch(name):
        raise UsageError(f"{where}: an id is up to 32 letters, digits, '_' and '-'; it becomes part of tools' names")
    server = section_of(where, entry, McpServer)
    for key, variable in (("key_env", server.key_env), *(("env", name) for name in server.env)):
        if variable or key == "env":
            require_variable(f"{where}.{key}", variable)
    _require_one_way(where, server)
    _require_times(where, server)
    folder = file.parent.resolve()
    return msgspec.structs.replace(server, cwd=str(folder / server.cwd)) if server.command else server


def _require_one_way(where: str, server: McpServer) -> None:
    if bool(server.command) == bool(server.url):
        raise UsageError(f'{where}: write either command = ["program", "argument"] or url = "https://..."')
    if server.command and server.key_env:
        raise UsageError(f"{where}: key_env goes with url; a command gets its variables by env = [names]")
    if server.url and (server.env or server.cwd):
        raise UsageError(f"{where}: env and cwd go with command; a url has no process here")
    if server.url:
        _require_address(where, server)


def _require_address(where: str, server: McpServer) -> None:
    address = urlsplit(server.url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise UsageError(f"{where}: {server.url!r} is not an address; write https://host/path")
    if address.username or address.password:
        raise UsageError(f"{where}: a file contains no keys; remove them from the url and write key_env")
    if server.key_env and address.scheme == "http" and address.hostname not in LOOPBACK:
        raise UsageError(f"{where}: the key would be sent unencrypted; use https")


def _require_times(where: str, server: McpServer) -> None:
    for key in ("timeout_seconds", "start_timeout_seconds"):
        seconds = getattr(server, key)
        if not math.isfinite(seconds) or seconds <= 0:
            raise UsageError(f"{where}.{key} is {seconds!r}; it must be a number above 0")
