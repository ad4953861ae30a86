"""Errors for which the caller must act: a run cannot do what was asked."""

from collections.abc import Sequence

from interlock.errors.root import InterlockError


class RunError(InterlockError):
    """The caller acts; `run` is the id of the run."""

    code = "run-error"

    def __init__(self, run: str, message: str) -> None:
        super().__init__(message)
        self.run = run


class RunNotFound(RunError):
    code = "run-not-found"

    def __init__(self, run: str) -> None:
        super().__init__(run, f"there is no run '{run}'; 'interlock runs list' shows all runs")


class RunDeleted(RunNotFound):
    """The run was deleted; its tombstone tells where its hash chain ended."""

    code = "run-deleted"

    def __init__(self, run: str) -> None:
        RunError.__init__(self, run, f"run '{run}' was deleted; import it if you have an export of it")


class RunExists(RunError):
    code = "run-exists"

    def __init__(self, run: str) -> None:
        super().__init__(run, f"run '{run}' exists already; choose another id")


class AlreadyStarted(RunError):
    """The id belongs to a run that began with another crew, text or history."""

    code = "already-started"

    def __init__(self, run: str, what: str) -> None:
        super().__init__(run, f"run '{run}' was already started with another {what}; choose another id")
        self.what = what


class AlreadyHeard(RunError):
    code = "already-heard"

    def __init__(self, run: str, broadcast: str) -> None:
        super().__init__(run, f"run '{run}' does not start: another run has already received broadcast '{broadcast}'")


class OutOfOrder(RunError):
    """Another writer has appended to the run since it was read."""

    code = "out-of-order"

    def __init__(self, run: str, expected: int, got: int) -> None:
        super().__init__(run, f"run '{run}' is at seq {expected}, cannot append at {got}; read it again")
        self.expected, self.got = expected, got


class NotOwner(RunError):
    """The epoch of an append is not the run's: another process owns the run now."""

    code = "not-owner"

    def __init__(self, run: str) -> None:
        super().__init__(run, f"run '{run}' was taken over by another process, which continues it")


class OwnedElsewhere(RunError):
    code = "owned-elsewhere"

    def __init__(self, run: str, owner: str) -> None:
        super().__init__(run, f"run '{run}' is driven by process {owner}; wait for it, or stop that process")
        self.owner = owner


class OrderPending(RunError):
    """The process that drives the run has not carried out an order yet; the order is kept for it."""

    code = "order-pending"

    def __init__(self, run: str, kind: str, seconds: int) -> None:
        super().__init__(
            run,
            f"order posted, not yet taken: the process that drives run '{run}' has not carried out '{kind}' within"
            f" {seconds} s; it stays posted for a day, 'interlock runs show {run}' shows the run's status",
        )
        self.kind = kind


class OrderRefused(RunError):
    """The process that drives the run refused an order for a reason without an error class here."""

    code = "order-refused"

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(run, f"the process that drives run '{run}' refused: {reason}")


class OrderLost(RunError):
    """An order is no longer stored, so its outcome cannot be read."""

    code = "order-lost"

    def __init__(self, key: str) -> None:
        unknown = f"the outcome of order '{key}' is unknown: it was deleted, or is damaged"
        super().__init__("", f"{unknown}; look at the run, then ask again")


class OrderCarriedOut(RunError):
    """The order has an outcome already: the run's former process has carried it out."""

    code = "order-carried-out"

    def __init__(self, run: str, key: str) -> None:
        super().__init__(run, f"order '{key}' of run '{run}' has an outcome already; read it")


class DamagedRun(RunError):
    code = "damaged-run"

    def __init__(self, run: str, what: str) -> None:
        super().__init__(run, f"the journal of run '{run}' is damaged: {what}; run 'interlock doctor' for details")


class AlreadyResumed(RunError):
    """The token was answered before; `same` is true if the answer was the same."""

    code = "already-resumed"

    def __init__(self, run: str, token: str | None, *, same: bool) -> None:
        super().__init__(run, f"'{token}' of run '{run}' was answered before; the first answer counts")
        self.token, self.same = token, same


class ParentIsOver(RunError):
    """The run's caller has ended without it."""

    code = "parent-is-over"

    def __init__(self, run: str, parent: str) -> None:
        self.run, self.parent = run, parent
        super().__init__(
            run, f"run '{run}' was called by run '{parent}', which has ended; its result is no longer needed"
        )


class NotWaiting(RunError):
    code = "not-waiting"

    def __init__(self, run: str, token: str | None, waits: Sequence[str], because: str = "") -> None:
        if token is None and waits:
            message = f"run '{run}' waits for {len(waits)} answers; name a token: {', '.join(waits)}"
        elif token is None:
            message = f"run '{run}' is not waiting for input" + (f": {because}" if because else "")
        else:
            message = f"run '{run}' does not wait for token '{token}'; it waits for {', '.join(waits) or 'nothing'}"
        super().__init__(run, message)
        self.token = token


class TakesNoInput(NotWaiting):
    """The run is parked and has no question."""

    def __init__(self, run: str) -> None:
        message = f"run '{run}' is parked and has no question; 'interlock resume {run}' without input continues it"
        RunError.__init__(self, run, message)
        self.token = None


class TooLate(NotWaiting):
    """The deadline of a question has passed, and the run continues without the answer: `instead` says how."""

    def __init__(
        self, run: str, token: str, question: str, default: str | None, *, was_answered: bool, instead: str = ""
    ) -> None:
        instead = instead or "its agent continues without an answer"
        instead = f"its default was used: {default}" if default is not None else instead
        unused = "; the answer given now is not used" if was_answered else ""
        message = f"the deadline of the question '{question}' of run '{run}' has passed; {instead}{unused}"
        RunError.__init__(self, run, message)
        self.token, self.question, self.default = token, question, default


class InputRefused(RunError):
    """A hook of the host did not let an answer in: it refused, failed, or asks; the run still waits for one."""

    code = "input-refused"

    def __init__(self, run: str, why: str) -> None:
        super().__init__(run, f"the answer to run '{run}' is not taken: {why}; the run still waits")


class CannotFork(RunError):
    """The run is not between two steps at that event; `near` are the closest events where it is."""

    code = "cannot-fork"

    def __init__(self, run: str, after: int, near: Sequence[int]) -> None:
        advice = f"nearest: {', '.join(map(str, near))}" if near else "it has no event to fork at"
        why = "it is inside a step, or a branch, sub-crew, task or question is open there"
        message = f"can't fork run '{run}' at event {after} ({why})"
        super().__init__(run, f"{message}; {advice}")
        self.after, self.near = after, tuple(near)


class JournalDiverged(RunError):
    """Replaying the journal gave other conclusions than are stored in it."""

    code = "journal-diverged"

    def __init__(self, run: str, seq: int) -> None:
        super().__init__(
            run, f"run '{run}' replays differently from event {seq} on; its journal was written under other rules"
        )
        self.seq = seq
