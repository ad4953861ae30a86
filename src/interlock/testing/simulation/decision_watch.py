"""Watches the decisions about calls in a simulation: of hooks, of rules, of the code of tools, and of people.

Rule 1: what hooks must see, they see, and what is decided is not asked again.
Rule 2: a tool that rules or code are about runs only if the journal approves the call, and never if a rule denies it.
Rule 3: a process that has lost the run cannot know that, and is not checked.
"""

from collections import Counter
from collections.abc import Sequence

from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.approvals.rules import ApprovalRules
from interlock.engine.kinds import HookPoint
from interlock.engine.state import turns_of
from interlock.ids import run_of
from interlock.ports.hooks import Hook
from interlock.testing.simulation.invariants import InvariantChecker

# The point that a call of this kind must pass.
_POINTS = {"tool": HookPoint.BEFORE_TOOL, "model": HookPoint.BEFORE_MODEL}


class DecisionWatch:
    def __init__(
        self, checker: InvariantChecker, hooks: Sequence[Hook], rules: ApprovalRules, tools: PythonToolbox
    ) -> None:
        self._checker, self._rules, self._tools = checker, rules, tools
        self._points = {point for point in HookPoint if any(hasattr(hook, point) for hook in hooks)}
        # How often the last hook of a point let a call pass in a process, less the calls that were made then.
        self._passed: Counter[tuple[int, HookPoint, str]] = Counter()

    def on_asked(self, process: int, point: HookPoint, key: str) -> None:
        """Notes that a hook is asked; what the journal has decided must not be asked again."""
        is_before = point in _POINTS.values()
        if is_before and self._is_owned(process, key) and self._is_decided(point, key):
            self._checker.report_violation("hooks decide once", f"{point} is asked about {key}, which is decided")

    def on_passed(self, process: int, point: HookPoint, key: str) -> None:
        self._passed[process, point, key] += 1

    def on_call_started(self, process: int, kind: str, key: str) -> None:
        """Checks a call that starts: the hooks let it pass just now, or the journal holds their decision."""
        point = _POINTS[kind]
        if not self._is_owned(process, key):
            return
        if kind == "tool":
            self._check_approval(key)
        if point not in self._points or self._is_decided(point, key):
            return
        self._passed[process, point, key] -= 1
        if self._passed[process, point, key] < 0:
            self._checker.report_violation("hooks see it first", f"{kind} call {key} is made, and no {point} let it")

    def _check_approval(self, key: str) -> None:
        model = self._checker.runs[run_of(key)]
        short, turns = model.ledger.short_key(key), turns_of(model.shadow.state)
        for tool in (each for turn in turns for each in turn.tools if short in (each.key, each.first_key)):
            name = tool.request.name
            if rule := self._rules.denial(name, tool.arguments):
                self._checker.report_violation("nothing denied runs", f"{name} {key} runs, and '{rule}' denies it")
            if self._is_guarded(name) and not tool.approved:
                self._checker.report_violation("nothing runs undecided", f"{name} {key} runs without an approval")

    def _is_guarded(self, name: str) -> bool:
        if self._rules.are_about(name) or self._tools.needs_approval(name):
            return True
        return self._tools.has_approval_function(name)

    def _is_owned(self, process: int, key: str) -> bool:
        return process == self._checker.runs[run_of(key)].owner

    def _is_decided(self, point: HookPoint, key: str) -> bool:
        """Whether the journal holds a decision that lets the call be made."""
        model = self._checker.runs[run_of(key)]
        short, turns = model.ledger.short_key(key), turns_of(model.shadow.state)
        if point is HookPoint.BEFORE_MODEL:
            return any(turn.hooked and turn.call == short for turn in turns)
        tools = (tool for turn in turns for tool in turn.tools if tool.output is None and tool.hooked)
        return any(short in (tool.key, tool.first_key) for tool in tools)
