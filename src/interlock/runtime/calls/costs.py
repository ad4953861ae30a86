"""Costs of calls by run: a run may have models of its own, whose price is not that of the crew's models."""

from collections.abc import Callable

from interlock.engine.budgets.limits import CostOf

# The costs of the calls of a run, by its id. Without it, the prices of the crew's file count.
CostOfRun = Callable[[str], CostOf]
