"""Costs of calls by run: a run may have models of its own, whose price is not that of the crew's models."""

from collections.abc import Callable

from interlock.engine.budgets.limits import CostOf, cost_of

# The costs of the calls of a run, by its id.
CostOfRun = Callable[[str], CostOf]


def cost_of_run(_run: str) -> CostOf:
    return cost_of
