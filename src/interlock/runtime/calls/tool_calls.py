"""Tool calls: in a task of their own, within the time limit of the crew.

The way of a call: `call_in_task`, `_call_handling_errors`, `_call_bus_or_host`.
"""

import asyncio

import msgspec

from interlock.crew.definition import AgentDefinition
from interlock.engine.builtin_tools import DELEGATION_TOOLS
from interlock.engine.effects import RunTool
from interlock.engine.events import ApprovalNeeded, IncomingEvent, ToolReturned
from interlock.engine.prompt.phrases import truncate
from interlock.engine.state import turns_by
from interlock.errors import NotOwner, StoreFailed, ToolFailed, WrongArguments
from interlock.ids import root_of
from interlock.ports import Clock, Toolbox, ToolCall
from interlock.runtime.broadcasts import BroadcastHub
from interlock.runtime.calls.approvals import ApprovalDecisions, HostApprovals
from interlock.runtime.calls.bus_tools import BUS_TOOLS, ToolCaller, run_bus_tool
from interlock.runtime.calls.hook_checks import HookChecks
from interlock.runtime.calls.model_calls import Answer
from interlock.runtime.calls.model_request import builtin_tool_schemas
from interlock.runtime.calls.run_access import CallAccess, OnProgress
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.live_run import LiveRun


class ToolCalls:
    def __init__(
        self,
        *,
        toolbox: Toolbox,
        clock: Clock,
        hub: BroadcastHub,
        on_progress: OnProgress,
        answer: Answer,
        approvals: HostApprovals,
        checks: HookChecks,
    ) -> None:
        self._toolbox, self._clock, self._hub, self._answer = toolbox, clock, hub, answer
        self._on_progress = on_progress
        self._approvals, self._checks = ApprovalDecisions(approvals, toolbox), checks
        self.in_progress = 0

    def can_run_again(self, live: LiveRun, effect: RunTool) -> bool:
        """True if a call may be repeated after a crash; also one that is not decided yet and never ran."""
        if effect.name in BUS_TOOLS or self._toolbox.is_idempotent(effect.name, live.crew_ref):
            return True
        return self._approvals.is_undecided(live, effect)

    async def call_in_task(self, live: LiveRun, effect: RunTool) -> None:
        if not live.is_awaiting(effect):  # it was cancelled before it began
            return
        self.in_progress += 1
        live.begun.add(effect.key)
        try:
            event = await self._call_handling_errors(live, effect)
        except NotOwner as error:
            live.fail(error)
            return
        finally:
            self.in_progress -= 1
            live.begun.discard(effect.key)
        self._answer(live, event)

    async def _call_handling_errors(self, live: LiveRun, effect: RunTool) -> IncomingEvent:
        settings, ok = live.crew.settings, False
        access = CallAccess(live, effect, self._on_progress)
        seconds = settings.tool_execution_timeout_seconds
        try:
            self._require_own_tool(live, live.conversation.agents[effect.agent], effect)
            if (decided := await self._checks.before_tool(live, effect)) is not None:
                return decided
            if self._approvals.is_undecided(live, effect):
                return await self._approvals.decide(live, tool_call_of(live, effect, access))
            if (denied := self._approvals.denial_of_approved(effect)) is not None:
                return denied
            live.require_lease()
            async with asyncio.timeout(seconds):
                output = await self._call_bus_or_host(live, effect, access)
            ok = True
        except TimeoutError:
            output = f"tool '{effect.name}' took longer than {seconds:g} s"
        except ToolFailed as error:
            if effect.edited and isinstance(error, WrongArguments):  # the person who wrote them can write others
                return ApprovalNeeded(call=effect.key, fault=as_storable(str(error)))
            output = str(error)
        finally:
            writes = access.end_call()
        returned = ToolReturned(call=effect.key, ok=ok, output=as_storable(output), memory=writes if ok else {})
        returned = await self._checks.after_tool(live, effect, returned)
        output = truncate(returned.output, settings.max_tool_output_chars)
        return msgspec.structs.replace(returned, output=output)

    async def _call_bus_or_host(self, live: LiveRun, effect: RunTool, access: CallAccess) -> str:
        key = live.key(effect.idempotency_key or effect.key)
        if effect.name not in BUS_TOOLS:
            return await self._toolbox.run(tool_call_of(live, effect, access))
        hops = live.at_work.get(effect.agent, 0)
        caller = ToolCaller(crew=live.crew.name, agent=effect.agent, key=key, now=self._clock.now_ms(), hops=hops)
        try:
            output = await run_bus_tool(self._hub.bus, effect.name, effect.arguments, caller)
        except StoreFailed as error:
            raise ToolFailed(str(error)) from error
        self._hub.on_queue_changed()
        return output

    def _require_own_tool(self, live: LiveRun, agent: AgentDefinition, effect: RunTool) -> None:
        """`ToolFailed` unless the agent has the tool, by its name in the crew file or the name the model was shown."""
        turns, name = turns_by(live.run.state, effect.agent), effect.name
        mine = [turn for turn in turns for tool in turn.tools if tool.key == effect.key]
        own = [schema for turn in mine for schema in builtin_tool_schemas(live.crew, agent, turn, live.run.state)]
        shown = tuple(schema.name for schema in (*self._toolbox.schemas(agent.tools, live.crew_ref), *own))
        if name in DELEGATION_TOOLS or (name not in shown and name not in agent.tools):
            unshown = (tool for tool in agent.tools if not tool.startswith("mcp:"))
            owned = ", ".join(dict.fromkeys((*unshown, *shown))) or "none"
            raise ToolFailed(f"agent '{agent.id}' has no tool '{name}'; it has {owned}")


def tool_call_of(live: LiveRun, effect: RunTool, access: CallAccess) -> ToolCall:
    return ToolCall(
        name=effect.name,
        arguments=effect.arguments,
        key=live.key(effect.idempotency_key or effect.key),
        run=live.id,
        root=root_of(live.id),
        agent=effect.agent,
        crew=live.crew.name,
        crew_sha=live.row.crew_sha,
        call=effect.key,
        epoch=live.row.epoch,
        user=live.run.state.user,
        access=access,
    )
