"""Validation of typed values against their JSON Schemas."""

from collections.abc import Mapping
from typing import Any, Protocol


class OutputValidator(Protocol):
    """Validates values. Only the driver of a run asks it; a replay uses the verdicts of the journal."""

    def fault_in(self, schema: Mapping[str, Any], value: Any) -> str:
        """What is wrong with the value, for the model that wrote it; empty if it is valid. Never raises."""
        ...


class NoValidator:
    """Refuses every value: for a process that was given no validator."""

    def fault_in(self, schema: Mapping[str, Any], value: Any) -> str:
        return "this process cannot check outputs"
