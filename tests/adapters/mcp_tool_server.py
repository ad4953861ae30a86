"""A real MCP server for tests: `python mcp_tool_server.py [--http PORTFILE]`. It keeps notes of calls in $NOTES."""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("tools for tests", log_level="ERROR")


def note(word: str) -> None:
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{word}\n")


def notes() -> list[str]:
    return Path(os.environ["NOTES"]).read_text("utf-8").split()


@server.tool()
def say(words: str) -> str:
    """Says words."""
    note("say")
    return words


@server.tool()
def whoami() -> str:
    """Tells of the process."""
    return f"{os.getpid()} {os.environ.get('API_TOKEN', 'none')} {Path.cwd()}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def die_once() -> str:
    """Takes the process with it the first time."""
    note("die_once")
    if notes().count("die_once") == 1:
        os._exit(3)
    return "alive"


@server.tool()
def once() -> str:
    """Its name is the end of another one."""
    return "once"


@server.tool()
def die() -> str:
    """Takes the process with it."""
    note("die")
    os._exit(4)


@server.tool()
def refuse() -> str:
    """Fails."""
    raise ValueError("out of paper")


@server.tool()
async def wait_long() -> str:
    """Waits until it is cancelled."""
    note("waiting")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note("cancelled")
        raise
    return "done"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def wait_once() -> str:
    """Waits the first time."""
    note("wait_once")
    if notes().count("wait_once") == 1:
        await asyncio.sleep(60)
    return "done"


@server.tool(name="odd.name/with a very long tail " + "x" * 60)
def odd() -> str:
    return "odd"


def serve_http(port_file: str) -> None:
    import socket

    import uvicorn

    port = int(sys.argv[2]) if len(sys.argv) > 3 else 0
    listening = socket.create_server(("127.0.0.1", port))
    Path(port_file).write_text(str(listening.getsockname()[1]), "utf-8")
    app = server.streamable_http_app()

    async def guarded(scope, receive, send):  # type: ignore[no-untyped-def]
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != b"Bearer sesame-4711":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no key"})
        else:
            await app(scope, receive, send)

    threading.Thread(target=end_with_parent, daemon=True).start()
    uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[listening])


def end_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.1)
    os._exit(0)


if __name__ == "__main__":
    if "--http" in sys.argv:
        serve_http(sys.argv[-1])
    else:
        server.run()
