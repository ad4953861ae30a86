"""The rules of a host about tool calls: deny, ask, allow.

Rule 1: deny goes before ask, and ask before allow. A call that no rule decides is left to the code of its tool.
Rule 2: a rule about the tool that is unclear asks, whatever its list. Only a deny that fits goes before it.
Rule 3: `allow` never lifts `needs_approval=True` of code; what the code says is the caller's to add.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from interlock.approvals.patterns import CallArguments, CallPattern, Fit


class Verdict(StrEnum):
    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"
    NONE = ""  # no rule decides


class RuleDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say about a call. `pattern` is the rule that decided; `is_unclear` if it could not."""

    verdict: Verdict = Verdict.NONE
    pattern: CallPattern | None = None
    is_unclear: bool = False

    @property
    def rule(self) -> str:
        return self.pattern.text if self.pattern is not None else ""


NO_DECISION = RuleDecision()


class ApprovalRules(msgspec.Struct, frozen=True, kw_only=True):
    """The lists of `[approvals]`, each in the order of the file."""

    deny: tuple[CallPattern, ...] = ()
    ask: tuple[CallPattern, ...] = ()
    allow: tuple[CallPattern, ...] = ()

    @property
    def patterns(self) -> tuple[CallPattern, ...]:
        return (*self.deny, *self.ask, *self.allow)

    def are_about(self, tool: str) -> bool:
        """Whether any rule names the tool."""
        return any(pattern.is_about(tool) for pattern in self.patterns)

    def decide(self, tool: str, arguments: str) -> RuleDecision:
        call = CallArguments(arguments)
        if denied := _first(self.deny, tool, call, Fit.YES):
            return RuleDecision(verdict=Verdict.DENY, pattern=denied)
        if unclear := _first(self.patterns, tool, call, Fit.UNCLEAR):
            return RuleDecision(verdict=Verdict.ASK, pattern=unclear, is_unclear=True)
        for verdict, patterns in ((Verdict.ASK, self.ask), (Verdict.ALLOW, self.allow)):
            if found := _first(patterns, tool, call, Fit.YES):
                return RuleDecision(verdict=verdict, pattern=found)
        return NO_DECISION

    def denial(self, tool: str, arguments: str) -> str:
        """The rule that denies the call; empty if none does."""
        denied = _first(self.deny, tool, CallArguments(arguments), Fit.YES)
        return denied.text if denied is not None else ""


NO_RULES = ApprovalRules()


def _first(patterns: Iterable[CallPattern], tool: str, call: CallArguments, wanted: Fit) -> CallPattern | None:
    about = (pattern for pattern in patterns if pattern.is_about(tool))
    return next((pattern for pattern in about if pattern.fit(call) is wanted), None)
