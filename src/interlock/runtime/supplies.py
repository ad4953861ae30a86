"""What this process gives to runs that were begun with more than their crew: models, deps, functions.

Rule 1: a run is claimed to be driven only by a process that gives all that it needs (`require_supplied`).
Rule 2: a process that lacks something may still end the run or set it aside: neither calls a model or a tool.
"""

from typing import Protocol

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import HostNeeds


class RunSupplies(Protocol):
    def require_supplied(self, run: str, crew: CrewDefinition, crew_sha: str, needs: HostNeeds) -> None:
        """`HostLacks` unless this process gives everything that the run needs."""
        ...

    def on_run_over(self, run: str) -> None:
        """Forgets what is kept for a run that has ended."""
        ...


class EverySupply:
    """A process that gives everything, for runners without a host."""

    def require_supplied(self, run: str, crew: CrewDefinition, crew_sha: str, needs: HostNeeds) -> None: ...

    def on_run_over(self, run: str) -> None: ...


EVERY_SUPPLY = EverySupply()
