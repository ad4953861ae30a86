"""Standing approvals: a person's yes that holds for later calls too, of a run or of all runs.

Rule 1: it holds for the calls of one tool of one crew whose arguments clearly fit its pattern, and for no other.
Rule 2: it answers a question that would be asked. It never lifts a deny.
Rule 3: `run` is the outermost run that it holds for; empty if it holds always.
"""

import hashlib

import msgspec

from interlock.approvals.patterns import BadCallPattern, CallArguments, CallPattern, Fit, parse_pattern
from interlock.ids import root_of


class StandingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """`by` is the person who gave it, `at` when, in milliseconds since 1970, `asked_in` the run that had asked."""

    id: str
    tool: str
    pattern: str
    crew: str
    run: str = ""
    asked_in: str
    by: str
    at: int

    def covers(self, crew: str, run: str, tool: str, arguments: str) -> bool:
        """Whether a call needs no other answer."""
        if (self.crew, self.tool) != (crew, tool) or self.run not in ("", root_of(run)):
            return False
        try:
            return is_pattern_for(parse_pattern(self.pattern), tool, arguments)
        except BadCallPattern:
            return False


class RevokedApproval(StandingApproval, frozen=True, kw_only=True):
    """An approval that holds no more, and who ended it. It is kept for people to read, and approves nothing."""

    revoked_by: str
    revoked_at: int

    def covers(self, crew: str, run: str, tool: str, arguments: str) -> bool:
        return False


def as_revoked(approval: StandingApproval, by: str, at: int) -> RevokedApproval:
    return RevokedApproval(**msgspec.structs.asdict(approval), revoked_by=by, revoked_at=at)


def is_pattern_for(pattern: CallPattern, tool: str, arguments: str) -> bool:
    """Whether a pattern is of this tool alone, and the arguments fit it."""
    return pattern.tool == tool and pattern.fit(CallArguments(arguments)) is Fit.YES


def approval_id(token: str) -> str:
    """The id of the approval that the answer to a question gives: the same whenever it is stored."""
    return f"ap-{hashlib.sha256(token.encode('utf-8', 'replace')).hexdigest()[:16]}"
