"""An MCP server with notes by date."""

from mcp.server import MCPServer

NOTES = {"2026-11-17": "Full moon. The harbour fair opens at nine."}

server = MCPServer("notes", log_level="ERROR")


@server.tool()
def read_notes(day: str) -> str:
    """The notes for a date such as 2026-11-17."""
    return NOTES.get(day, "no notes")


if __name__ == "__main__":
    server.run()
