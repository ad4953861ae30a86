"""Drives the engine; all concurrency is here."""
