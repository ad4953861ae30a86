"""Budgets within a run. PURE."""
