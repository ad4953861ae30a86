"""Validation of typed values: against their JSON Schemas, and by the types that were given in Python."""

from collections.abc import Mapping
from typing import Any, Protocol

from interlock.ports.tools import CrewRef


class OutputValidator(Protocol):
    """Validates values. Only the driver of a run asks it; a replay uses the verdicts of the journal."""

    async def fault_in(self, schema: Mapping[str, Any], value: Any, crew: CrewRef, agent: str = "") -> str:
        """What is wrong with the value, for the model that wrote it; empty if it is valid. Never raises.

        The schema is that of the agent's own output, or of the crew's if there is no agent.
        """
        ...


class NoValidator:
    """Refuses every value: for a process that was given no validator."""

    async def fault_in(self, schema: Mapping[str, Any], value: Any, crew: CrewRef, agent: str = "") -> str:
        return "this process cannot check outputs"
