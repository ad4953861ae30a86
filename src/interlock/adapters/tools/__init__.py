"""Tools: Python functions and MCP servers."""
