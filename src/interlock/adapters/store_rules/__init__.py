"""Pure rules that every store shares: the bus, budgets, the record format."""
