"""The SQLite store: one module per table or concern."""
