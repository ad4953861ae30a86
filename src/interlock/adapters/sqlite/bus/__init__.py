"""The broadcast bus in SQLite."""
