"""The PostgreSQL store: one module per table or concern."""
