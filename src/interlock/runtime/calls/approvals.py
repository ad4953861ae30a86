"""Decisions about tool calls before they run: by the host's rules, by the tool's own code, by standing approvals.

Rule 1: a call that the host decides about runs only after the decision is stored as an event.
Rule 2: everything that cannot be decided asks a person: code that raises or takes too long, a store that is away.
Rule 3: a standing approval is looked up at the moment the call would ask, so that a revoked one counts no more.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from interlock.approvals.rules import NO_RULES, ApprovalRules, RuleDecision, Verdict
from interlock.approvals.standing import StandingApproval
from interlock.engine.effects import Effect, RunTool, StoreApproval
from interlock.engine.events import ApprovalNeeded, ApprovalTerms, IncomingEvent, ToolDecided
from interlock.errors import PortError
from interlock.ids import root_of
from interlock.limits import APPROVAL_FUNCTION_SECONDS_MAX
from interlock.ports import StandingApprovals, Toolbox, ToolCall
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.live_run import LiveRun

_log = logging.getLogger("interlock")


class HostApprovals(NamedTuple):
    """What a host decides by: its rules, the approvals that people gave, and how long a question waits (0: forever)."""

    rules: ApprovalRules = NO_RULES
    standing: StandingApprovals | None = None
    deadline_ms: int = 0


NO_APPROVALS = HostApprovals()


class ApprovalDecisions:
    def __init__(self, host: HostApprovals, toolbox: Toolbox) -> None:
        self._host, self._toolbox = host, toolbox

    def is_undecided(self, live: LiveRun, effect: RunTool) -> bool:
        """Whether the host has yet to decide about the call; then it has not run."""
        if effect.approved:
            return False
        name, crew, toolbox = effect.name, live.crew_ref, self._toolbox
        if self._host.rules.are_about(name) or toolbox.needs_approval(name, crew):
            return True
        return toolbox.has_approval_function(name, crew)

    async def decide(self, live: LiveRun, call: ToolCall) -> IncomingEvent:
        """The decision as an event; the tool is not run."""
        ruled = self._host.rules.decide(call.name, call.arguments)
        if ruled.verdict is Verdict.DENY:
            return ToolDecided(call=call.call, tool=call.name, verdict=str(Verdict.DENY), rule=ruled.rule)
        terms = await self._terms_if_asked(live, call, ruled)
        allowed = ToolDecided(call=call.call, tool=call.name, verdict=str(Verdict.ALLOW), rule=ruled.rule)
        if terms is None:
            return allowed
        standing = await self._standing_approval(live, call)
        if standing is None:
            return ApprovalNeeded(call=call.call, terms=terms)
        return ToolDecided(
            call=call.call,
            tool=call.name,
            verdict=str(Verdict.ALLOW),
            rule=ruled.rule,
            approval=standing.id,
            by=standing.by,
        )

    def denial_of_approved(self, effect: RunTool) -> IncomingEvent | None:
        """The denial of a call that a person or an earlier decision approved: with other arguments, or other rules."""
        rule = self._host.rules.denial(effect.name, effect.arguments) if effect.approved else ""
        if not rule:
            return None
        if effect.edited:  # the person who wrote the arguments can write others
            return ApprovalNeeded(call=effect.key, fault=f"rule '{rule}' denies these arguments")
        return ToolDecided(call=effect.key, tool=effect.name, verdict=str(Verdict.DENY), rule=rule)

    async def _terms_if_asked(self, live: LiveRun, call: ToolCall, ruled: RuleDecision) -> ApprovalTerms | None:
        """The terms of the question, or None if the call may run without one."""
        name = call.name
        if ruled.verdict is Verdict.ASK and ruled.pattern is not None:
            if ruled.is_unclear:
                why = "an argument that it compares is missing or of another type"
                return self._terms(f"rule '{ruled.rule}' cannot be decided: {why}", "")
            return self._terms(f"rule '{ruled.rule}' asks", ruled.pattern.for_tool(name))
        if self._toolbox.needs_approval(name, live.crew_ref):
            return self._terms(f"{name} always needs approval", name)
        if ruled.verdict is Verdict.ALLOW or not self._toolbox.has_approval_function(name, live.crew_ref):
            return None
        return await self._terms_if_code_asks(call)

    async def _terms_if_code_asks(self, call: ToolCall) -> ApprovalTerms | None:
        """Asks the function of the tool. Only a plain False lets the call run."""
        name, seconds = call.name, APPROVAL_FUNCTION_SECONDS_MAX
        asking = asyncio.ensure_future(self._toolbox.call_approval_function(call))
        try:
            # Not asyncio.timeout: a function that swallows its cancellation must not hold the call up.
            await asyncio.wait({asking}, timeout=seconds)
            if not asking.done():
                return self._terms(f"the approval function of {name} took longer than {seconds} s", "")
            if asking.cancelled():
                return self._terms(f"the approval function of {name} was cancelled", "")
            if (error := asking.exception()) is not None:
                return self._terms(f"the approval function of {name} failed: {error}", "")
            return None if asking.result() is False else self._terms(f"the approval function of {name} asks", name)
        finally:
            asking.add_done_callback(_drop_outcome)
            asking.cancel()

    def _terms(self, because: str, pattern: str) -> ApprovalTerms:
        return ApprovalTerms(because=as_storable(because), pattern=pattern, deadline_ms=self._host.deadline_ms)

    async def _standing_approval(self, live: LiveRun, call: ToolCall) -> StandingApproval | None:
        if self._host.standing is None:
            return None
        try:
            found = await self._host.standing.standing_approvals(call.name)
        except PortError as error:
            _log.warning("run %s: approvals cannot be read now, a person is asked: %s", live.id, error)
            return None
        crew, arguments = live.crew.name, call.arguments
        return next((each for each in found if each.covers(crew, live.id, call.name, arguments)), None)


def approvals_to_store(live: LiveRun, effects: Sequence[Effect], at: int) -> tuple[StandingApproval, ...]:
    """The approvals that a record gives, for its transaction."""
    return tuple(
        StandingApproval(
            id=effect.id,
            tool=effect.tool,
            pattern=effect.pattern,
            crew=live.crew.name,
            run=root_of(live.id) if effect.for_run else "",
            asked_in=live.id,
            by=effect.by,
            at=at,
        )
        for effect in effects
        if isinstance(effect, StoreApproval)
    )


def _drop_outcome(asked: "asyncio.Future[object]") -> None:
    """Takes the error of a function that is no longer waited for, so that it is not reported as unhandled."""
    if not asked.cancelled():
        asked.exception()
