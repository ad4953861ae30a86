"""The bus and the budgets in PostgreSQL."""
