"""Providers served through pydantic-ai."""
