"""Verdicts on typed values: of replies, and of outputs that a hook of the host gave in place of the run's.

Rule 1: a value is validated once, by the driver, before its event is stored. A replay reads the verdict.
Rule 2: what is stored is what was validated: hooks have had their say about a reply before.
"""

from typing import Any

import msgspec

from interlock.crew.outputs.asked import AskedOutput
from interlock.engine.effects import CheckOutput
from interlock.engine.events import ModelReplied, OutputVerdict
from interlock.engine.kinds import RunStatus
from interlock.engine.outputs.checked_reply import output_asked_of
from interlock.engine.outputs.reply_value import read_value
from interlock.engine.state import turns_by
from interlock.ports import OutputValidator
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.live_run import LiveRun

# What is wrong with a value, as a model and a person read it.
FAULT_CHARS_MAX = 500


class OutputVerdicts:
    def __init__(self, validator: OutputValidator) -> None:
        self._validator = validator

    async def with_verdict(self, live: LiveRun, event: ModelReplied) -> ModelReplied:
        """The event with the verdict on its value, if a value was asked for and can be read."""
        state, table = live.run.state, live.run.table
        turn = next((turn for turn in turns_by(state, event.agent) if turn.call == event.call), None)
        asked = None if turn is None else output_asked_of(table, state, turn)
        read = None if asked is None else read_value(event.text, table.is_known_mark)
        if asked is None or read is None or read.fault:
            return event
        verdict = await self._verdict(live, event.agent, asked, read.value)
        return msgspec.structs.replace(event, output=verdict)

    async def of_replacement(self, live: LiveRun, effect: CheckOutput, text: str) -> OutputVerdict | None:
        """The verdict on the text that is to be the output; None if the run ends without a typed value."""
        state, table = live.run.state, live.run.table
        asked = table.outputs.get(state.agent)
        if asked is None or state.value is msgspec.UNSET or effect.status != RunStatus.COMPLETED:
            return None
        read = read_value(text, table.is_known_mark)
        if read.fault:
            return OutputVerdict(fault=read.fault)
        verdict = await self._verdict(live, state.agent, asked, read.value)
        return OutputVerdict(fault=verdict.fault or verdict.at_end)

    async def _verdict(self, live: LiveRun, agent: str, asked: AskedOutput, value: Any) -> OutputVerdict:
        fault = await self._fault(live, asked.schema, value, agent if asked.is_own else "")
        at_end = "" if fault or asked.at_end is None else await self._fault(live, asked.at_end, value, "")
        return OutputVerdict(fault=fault, at_end=at_end)

    async def _fault(self, live: LiveRun, schema: dict[str, Any], value: Any, agent: str) -> str:
        found = await self._validator.fault_in(schema, value, live.crew_ref, agent)
        return as_storable(found)[:FAULT_CHARS_MAX]
