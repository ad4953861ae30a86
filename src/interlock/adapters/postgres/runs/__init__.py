"""Runs and their records in PostgreSQL."""
