"""Interlock over a network: HTTP, webhooks and MCP."""
