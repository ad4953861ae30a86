"""Servers that speak OpenAI's chat completions."""
