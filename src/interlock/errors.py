"""What Interlock raises, split by who must act.

InterlockError ─┬─ CrewError ─┬─ UnsoundCrew ── UnreadableCrew     defined in crew/unsound.py
                │             └─ SignalError ─┬─ BadSignalFormat  BadDefinition  UnknownSignal  DuplicateSignal
                │                             ├─ EmitterNotAllowed  UnknownEmitter
                │                             └─ UnknownTarget  WrongTarget  InvalidTarget
                ├─ UsageError     the caller named something that is not there, or a host file is wrong
                │  ├─ FolderServed     one server a data folder
                │  └─ BadBroadcast  NoSuchSignal  NoSuchSchedule     what is announced, heard or planned cannot be
                ├─ RequestRefused     whoever sent the request acts; its codes stand in server/problems.py
                ├─ RunError ──┬─ RunNotFound  RunExists  AlreadyHeard  OutOfOrder  NotOwner  OwnedElsewhere  DamagedRun
                │             ├─ OrderPending  OrderRefused  OrderLost  OrderCarriedOut
                │             └─ AlreadyResumed  NotWaiting (TakesNoInput  TooLate)  ParentIsOver  JournalDiverged
                └─ PortError ─┬─ ModelRefused ─┬─ PromptTooLong
                              │                └─ ReplyTooLarge
                              ├─ ModelUnavailable ── ReplyCutShort
                              ├─ ScriptExhausted  ToolFailed ── WrongArguments
                              └─ StoreFailed ── StorageFull  StoreBroken  DamagedRow  RecordsMissing  CrewMissing
                                                Unstorable     the operator acts

Rule 1: a message says what, which, and what now; lower case, no full stop.
Rule 2: the object keeps the parts and a stable `code`.
Rule 3: the four sentences of the signal protocol are kept word for word; advice follows after a semicolon.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Self


class InterlockError(Exception):
    """The root of everything raised on purpose."""

    code = "interlock-error"


class CrewError(InterlockError):
    """The crew's author acts."""

    code = "crew-error"


class UsageError(InterlockError):
    """The caller acts: the call named something that does not exist."""

    code = "usage-error"


class FolderServed(UsageError):
    """One server a data folder: another one has it."""

    code = "folder-served"

    def __init__(self, folder: str, pid: str) -> None:
        super().__init__(f"data folder is served by pid {pid}; stop it, or name another folder than '{folder}'")
        self.folder, self.pid = folder, pid


class RequestRefused(InterlockError):
    """A request over HTTP that is not carried out; which of the server's codes it has is said where it is raised."""

    def __init__(self, code: str, message: str, *, retry_after_s: int | None = None, **more: object) -> None:
        super().__init__(message)
        self.code, self.retry_after_s, self.more = code, retry_after_s, more


class BadBroadcast(UsageError):
    """A part of a broadcast, a subscription or a schedule that cannot be; `what` names the part."""

    code = "bad-broadcast"

    def __init__(self, what: str, value: str, fault: str) -> None:
        super().__init__(f"{what} '{value}' {fault}" if value else f"{what} {fault}")
        self.what, self.value, self.fault = what, value, fault


class BadPattern(BadBroadcast):
    """A pattern that cannot be subscribed to."""

    code = "bad-format"

    def __init__(self, value: str, fault: str) -> None:
        super().__init__("pattern", value, fault)


class UnknownSubscriber(UsageError):
    """There is no such crew in this data folder, or no such agent in it."""

    code = "unknown-subscriber"


class NoSuchSignal(UsageError):
    """Nothing is scheduled, subscribed or dead under this name."""

    code = "no-such-signal"


class NoSuchSchedule(UsageError):
    """No schedule of runs has this id, or several begin like this."""

    code = "no-such-schedule"

    def __init__(self, name: str, found: Sequence[str]) -> None:
        advice = f"it fits {', '.join(found[:5])}" if found else "'interlock schedule list' shows all"
        super().__init__(f"there is no schedule '{name[:80]}'; {advice}")
        self.name, self.found = name, tuple(found)


class SignalError(CrewError):
    """A signal was refused: the protocol's sentence, and advice that follows it after a semicolon."""

    code = "signal-error"

    def __init__(self, signal: str, sentence: str, advice: str) -> None:
        super().__init__(f"{sentence}; {advice}")
        self.signal, self.sentence, self.advice = signal, sentence, advice

    # Whose route it is about, where it was found in a routing table.
    agent = ""

    def in_route_of(self, agent: str) -> Self:
        """The same error, which names the agent whose route it is about."""
        self.agent = agent
        self.args = (f"{self.sentence}; routed by agent '{agent}'; {self.advice}",)
        return self


class BadSignalFormat(SignalError):
    code = "bad-format"

    def __init__(self, signal: object) -> None:
        super().__init__(
            str(signal),
            f"signal '{signal}' has invalid format - must match [NAME]",
            "letters, digits, '_', '-' and single spaces between square brackets, such as [NEXT]",
        )


class BadDefinition(SignalError):
    """A field of a definition holds something it cannot hold."""

    code = "bad-value"

    def __init__(self, signal: str, field: str, rule: str, got: object) -> None:
        super().__init__(signal, f"signal '{signal}' has {field} {got!r}", f"{field} must be {rule}")
        self.field = field


class UnknownSignal(SignalError):
    code = "unregistered-signal"

    def __init__(self, signal: str, known: Sequence[str]) -> None:
        super().__init__(
            signal,
            f"signal '{signal}' is not registered (unknown signal)",
            nearest(signal, known, "register it first"),
        )


class DuplicateSignal(SignalError):
    code = "duplicate-signal"

    def __init__(self, signal: str) -> None:
        super().__init__(signal, f"signal '{signal}' is already registered", "pass replace=True to override it")


class EmitterNotAllowed(SignalError):
    code = "emitter-not-allowed"

    def __init__(self, signal: str, agent: str, allowed: Sequence[str]) -> None:
        super().__init__(
            signal,
            f"agent '{agent}' is not allowed to emit signal '{signal}'",
            f"add it to allowed_agents ({', '.join(allowed)}) or use another signal",
        )
        self.agent, self.allowed = agent, tuple(allowed)


class UnknownEmitter(SignalError):
    """Routes of an agent that is not there."""

    code = "unknown-agent"

    def __init__(self, signal: str, agent: str, known: Sequence[str]) -> None:
        otherwise = f"known: {', '.join(known[:12])}" if known else "there are no agents"
        super().__init__(
            signal, f"signal '{signal}' is routed by unknown agent '{agent}'", nearest(agent, known, otherwise)
        )
        self.agent = agent


class UnknownTarget(SignalError):
    code = "unknown-target"

    def __init__(self, signal: str, target: str, known: Sequence[str]) -> None:
        otherwise = f"known: {', '.join(known[:12])}" if known else "there are no agents"
        super().__init__(
            signal, f"signal '{signal}' targets unknown agent '{target}'", nearest(target, known, otherwise)
        )
        self.target = target


class WrongTarget(SignalError):
    """The target does not fit what the signal does."""

    code = "wrong-target"

    @classmethod
    def of_termination(cls, signal: str, target: str) -> "WrongTarget":
        return cls(
            signal,
            f"termination signal '{signal}' must have empty target, got '{target}'",
            "empty the target, or use a routing signal",
        )

    @classmethod
    def missing(cls, signal: str) -> "WrongTarget":
        return cls(signal, f"routing signal '{signal}' must have a target agent", "name an agent or a group")

    @classmethod
    def missing_group(cls, signal: str) -> "WrongTarget":
        return cls(
            signal,
            f"parallel signal '{signal}' must have a target group",
            "name a group, or list parallel_targets",
        )

    @classmethod
    def no_agent(cls, signal: str, target: str) -> "WrongTarget":
        return cls(
            signal,
            f"pause signal '{signal}' goes on at an agent, got group '{target}'",
            "name an agent, or leave the target empty to go on at the same one",
        )

    @classmethod
    def no_group(cls, signal: str, target: str) -> "WrongTarget":
        return cls(
            signal,
            f"parallel signal '{signal}' must have a target group, got agent '{target}'",
            "name a group, or use type: route",
        )


class InvalidTarget(SignalError):
    code = "invalid-target"

    def __init__(self, signal: str, target: str, valid: Sequence[str]) -> None:
        super().__init__(
            signal,
            f"signal '{signal}' cannot target '{target}' (valid: [{' '.join(valid)}])",
            "use one of them, or add it to valid_targets",
        )
        self.target, self.valid = target, tuple(valid)


class RunError(InterlockError):
    """The caller acts; `run` says on which run."""

    code = "run-error"

    def __init__(self, run: str, message: str) -> None:
        super().__init__(message)
        self.run = run


class RunNotFound(RunError):
    code = "run-not-found"

    def __init__(self, run: str) -> None:
        super().__init__(run, f"there is no run '{run}'; 'interlock runs list' shows those there are")


class RunDeleted(RunNotFound):
    """The run is gone on purpose; its tombstone says where its chain ended."""

    code = "run-deleted"

    def __init__(self, run: str) -> None:
        RunError.__init__(self, run, f"run '{run}' was deleted; import it if you have exported it before")


class RunExists(RunError):
    code = "run-exists"

    def __init__(self, run: str) -> None:
        super().__init__(run, f"there is a run '{run}' already; choose another id")


class AlreadyHeard(RunError):
    code = "already-heard"

    def __init__(self, run: str, broadcast: str) -> None:
        super().__init__(run, f"run '{run}' does not start: another one has heard the broadcast '{broadcast}'")


class OutOfOrder(RunError):
    """Somebody else has written to the run since it was read."""

    code = "out-of-order"

    def __init__(self, run: str, expected: int, got: int) -> None:
        super().__init__(run, f"run '{run}' is at seq {expected}, cannot append at {got}; read it again")
        self.expected, self.got = expected, got


class NotOwner(RunError):
    """The epoch of an append is not the run's: another process has taken the run over."""

    code = "not-owner"

    def __init__(self, run: str) -> None:
        super().__init__(run, f"run '{run}' was taken over by another process; it goes on there")


class OwnedElsewhere(RunError):
    code = "owned-elsewhere"

    def __init__(self, run: str, owner: str) -> None:
        super().__init__(run, f"run '{run}' is being worked on by process {owner}; wait for it, or stop that process")
        self.owner = owner


class OrderPending(RunError):
    """The process that drives the run has not carried an order out yet; the order is kept for it."""

    code = "order-pending"

    def __init__(self, run: str, kind: str, seconds: int) -> None:
        super().__init__(
            run,
            f"order posted, not yet taken: the process that drives run '{run}' has not carried out '{kind}' within"
            f" {seconds} s; it stays posted for a day, 'interlock runs show {run}' tells how the run stands",
        )
        self.kind = kind


class OrderRefused(RunError):
    """The process that drives the run refused an order for a reason that has no error of its own here."""

    code = "order-refused"

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(run, f"the process that drives run '{run}' refused: {reason}")


class OrderLost(RunError):
    """An order is no longer kept, so that its outcome cannot be read."""

    code = "order-lost"

    def __init__(self, key: str) -> None:
        unknown = f"what became of order '{key}' is not known: it was deleted, or is damaged"
        super().__init__("", f"{unknown}; look at the run, then ask again")


class OrderCarriedOut(RunError):
    """The order has an outcome already: whoever drove the run before has carried it out."""

    code = "order-carried-out"

    def __init__(self, run: str, key: str) -> None:
        super().__init__(run, f"order '{key}' of run '{run}' has an outcome already; read it")


class DamagedRun(RunError):
    code = "damaged-run"

    def __init__(self, run: str, what: str) -> None:
        super().__init__(run, f"the journal of run '{run}' is damaged: {what}; 'interlock doctor' tells more")


class AlreadyResumed(RunError):
    """The token was answered before; `same` says whether with the same words."""

    code = "already-resumed"

    def __init__(self, run: str, token: str | None, *, same: bool) -> None:
        super().__init__(run, f"'{token}' of run '{run}' was answered before; the first answer counts")
        self.token, self.same = token, same


class ParentIsOver(RunError):
    """What called the run has ended without it."""

    code = "parent-is-over"

    def __init__(self, run: str, parent: str) -> None:
        self.run, self.parent = run, parent
        super().__init__(run, f"run '{run}' was called by run '{parent}', which is over; nobody waits for it any more")


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
    """The run is parked, and nobody is asked anything."""

    def __init__(self, run: str) -> None:
        message = f"run '{run}' is parked and asks nothing; 'interlock resume {run}' without input continues it"
        RunError.__init__(self, run, message)
        self.token = None


class TooLate(NotWaiting):
    """The deadline of a question has passed: what was to happen then has happened, and the run continues."""

    def __init__(self, run: str, token: str, question: str, default: str | None, *, was_answered: bool) -> None:
        instead = (
            f"its default was taken: {default}" if default is not None else "its agent continues without an answer"
        )
        unused = "; the answer given now is not used" if was_answered else ""
        message = f"the deadline of the question '{question}' of run '{run}' has passed; {instead}{unused}"
        RunError.__init__(self, run, message)
        self.token, self.question, self.default = token, question, default


class CannotFork(RunError):
    """Something is open at that place; `near` are the closest places where nothing is."""

    code = "cannot-fork"

    def __init__(self, run: str, after: int, near: Sequence[int]) -> None:
        places = " or ".join(str(seq) for seq in near)
        advice = f"the nearest places are after {places}" if near else "there is no such place in it"
        message = f"run '{run}' cannot be forked after seq {after}: only where it goes on and nothing is open"
        super().__init__(run, f"{message}; {advice}")
        self.after, self.near = after, tuple(near)


class JournalDiverged(RunError):
    """Replaying the journal gave other conclusions than it holds."""

    code = "journal-diverged"

    def __init__(self, run: str, seq: int) -> None:
        super().__init__(run, f"run '{run}' replays differently from seq {seq} on; its journal was made by other rules")
        self.seq = seq


class PortError(InterlockError):
    """The operator acts: something outside failed."""

    code = "port-error"


class ModelRefused(PortError):
    """The provider will not answer this call, now or later."""

    code = "model-refused"


class PromptTooLong(ModelRefused):
    """The provider says that what it was shown does not fit its context."""

    code = "prompt-too-long"


class ReplyTooLarge(ModelRefused):
    """The reply grew beyond what is kept of one; asked again, it would grow again."""

    code = "reply-too-large"

    def __init__(self, model: str, bytes_max: int) -> None:
        super().__init__(
            f"the reply of {model} is larger than {bytes_max:,} bytes and was cut off; "
            "ask for less, or raise max_reply_kb of its provider in interlock.toml"
        )
        self.bytes_max = bytes_max


class ModelUnavailable(PortError):
    """The call failed, and may succeed later; not before `retry_after_ms`, if the provider says so."""

    code = "model-unavailable"

    def __init__(self, message: str, *, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class ReplyCutShort(ModelUnavailable):
    """The provider stopped at its own limit of tokens. `text` is what there is: no reply, unless it ended already."""

    code = "reply-cut-short"

    def __init__(self, model: str, text: str) -> None:
        super().__init__(f"the reply of {model} broke off at the provider's limit of tokens (finish_reason length)")
        self.text = text


class ScriptExhausted(PortError):
    """A scripted model has no answer left."""

    code = "script-exhausted"


class ToolFailed(PortError):
    """What the model is told of a tool that failed."""

    code = "tool-failed"


class WrongArguments(ToolFailed):
    """The tool was not run: what it was called with is not what it takes."""

    code = "wrong-arguments"


class StoreFailed(PortError):
    """The data folder cannot be read or written. `passes` says whether to try again may help."""

    code = "store-failed"
    passes = True


class StoreBroken(StoreFailed):
    """The store will not write again in this process; waiting does not help."""

    code = "store-broken"
    passes = False


class CrewMissing(StoreFailed):
    """The store does not have the crew that a run names, or has it damaged."""

    code = "crew-missing"
    passes = False


class Unstorable(StoreFailed):
    """What is to be stored has no form in the store."""

    code = "unstorable"
    passes = False


class StorageFull(StoreFailed):
    code = "storage-full"


class DamagedRow(StoreFailed):
    """A row without which nothing can be answered is not as it was written."""

    code = "damaged-row"

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what} is damaged in the database; {advice}")


class RecordsMissing(StoreFailed):
    """The database lacks what it was known to hold: its log was damaged, cut or deleted, or an old copy put back."""

    code = "records-missing"

    def __init__(self, folder: str, records: int, changes: int) -> None:
        counts = ((records, "record"), (changes, "other change"))
        missing = " and ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count > 0)
        super().__init__(
            f"{missing} that the data folder '{folder}' has acknowledged {'is' if records + changes == 1 else 'are'}"
            " missing from its database; restore the database with its log, or give up what is missing with"
            f" 'interlock doctor --accept-loss --data {folder}'"
        )
        self.folder, self.records, self.changes = folder, records, changes


def nearest(word: str, known: Sequence[str], otherwise: str) -> str:
    """Advice for a word that is not known: the closest one that is, or `otherwise`."""
    near = closest(word, known)
    return f"did you mean '{near}'?" if near is not None else otherwise


def closest(word: str, known: Sequence[str]) -> str | None:
    if len(known) > 200:  # comparing with thousands of names would cost more than the advice is worth
        known = [name for name in known if name[:2] == word[:2] and abs(len(name) - len(word)) < 3][:200]
    # Brackets and case are alike in all signals, so they must not make two of them look alike.
    inner = {name.strip("[]").lower(): name for name in reversed(known)}
    found = get_close_matches(word.strip("[]").lower(), list(reversed(inner)), n=1, cutoff=0.6)
    return inner[found[0]] if found else None
