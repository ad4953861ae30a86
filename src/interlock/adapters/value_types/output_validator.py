"""Validation of outputs: against the JSON Schema first, then by the type that was given in Python, if there is one.

Rule 1: a type that demands more than its schema may call code of the host. It works in a thread of its own, and what
it does not answer within the limit is a fault: no validator can block the process, or let a value through by hanging.
Rule 2: a simulation asks in place, because its time is virtual.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from interlock.adapters.tools.tool_threads import ToolThreads
from interlock.adapters.value_types.output_types import OutputType
from interlock.adapters.value_types.schema_validator import JsonSchemaValidator
from interlock.errors import ToolFailed
from interlock.ports import CrewRef

# How long the type of an output may take to check one value, as long as a hook may take.
TYPE_SECONDS_MAX = 30.0

# The type of the crew's output, or of that of an agent; None if it was not given in Python.
TypeFor = Callable[[CrewRef, str], OutputType | None]


def no_type_for(crew: CrewRef, agent: str) -> None:
    """The types of a process that has none."""


class TypedOutputValidator:
    def __init__(
        self, type_for: TypeFor = no_type_for, *, seconds_max: float = TYPE_SECONDS_MAX, in_place: bool = False
    ) -> None:
        self._type_for, self._seconds_max, self._in_place = type_for, seconds_max, in_place
        self._schemas, self._threads = JsonSchemaValidator(), ToolThreads()

    async def fault_in(self, schema: Mapping[str, Any], value: Any, crew: CrewRef, agent: str = "") -> str:
        if fault := self._schemas.fault_in(schema, value):
            return fault
        type_ = self._type_for(crew, agent)
        if type_ is None:
            return ""
        if self._in_place or not type_.demands_more:
            return type_.fault_in(value)
        return await self._ask_host(type_, value)

    async def _ask_host(self, type_: OutputType, value: Any) -> str:
        try:
            async with asyncio.timeout(self._seconds_max):
                return str(await self._threads.call(lambda: type_.fault_in(value)))
        except TimeoutError:
            return f"{type_.name} did not check it within {self._seconds_max:g} s"
        except (ToolFailed, SystemExit, KeyboardInterrupt) as error:  # an exit in a validator must not end the process
            return f"{type_.name} could not check it: {type(error).__name__}"
