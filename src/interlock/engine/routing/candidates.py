"""Candidates: the routed marks of a reply, what each would cause, and what became of it."""

from enum import StrEnum

import msgspec

from interlock.signals.matching import MatchMethod


class Verb(StrEnum):
    """The actions that a reply can cause."""

    HAND_OVER = "hand_over"
    CALL = "call"
    FORK = "fork"
    AWAIT = "await"
    TELL = "tell"
    END = "end"


# They hand control over; the others end the run, wait, or only notify.
TRANSFERS = (Verb.HAND_OVER, Verb.FORK, Verb.CALL)


class CandidateOutcome(StrEnum):
    """The outcome of a candidate."""

    WON = "won"
    JOINED = "joined"  # a sub-crew call that runs together with the winning one
    LOST = "lost"
    TOLD = "told"
    NOTED = "noted"  # an acknowledgement, which steers nothing


# Every reply asks for these; in Python 3.11 a look into the class of an enum costs as much as ten comparisons.
HAND_OVER, CALL, WON, TOLD = Verb.HAND_OVER, Verb.CALL, CandidateOutcome.WON, CandidateOutcome.TOLD

STEERING = (CandidateOutcome.WON, CandidateOutcome.JOINED, CandidateOutcome.LOST)
CHOSEN = (CandidateOutcome.WON, CandidateOutcome.JOINED)


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A routed mark of the reply, with everything the choice depends on. Emitted signals are on line 0."""

    signal: str
    method: MatchMethod = MatchMethod.EXACT
    start: int
    end: int
    line: int = 1
    priority: int = 50
    order: int = 0
    verb: Verb = Verb.HAND_OVER
    target: str
    outcome: CandidateOutcome = CandidateOutcome.WON
    conflicts: bool = False
