"""Runs and their records in SQLite."""
