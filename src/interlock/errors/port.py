"""Errors for which the operator must act: a model, a tool or the store failed."""

from interlock.errors.root import InterlockError


class PortError(InterlockError):
    """The operator acts: a model, a tool or the store failed."""

    code = "port-error"
    usage: object = None  # the `Usage` of a model call that failed, if the provider counted it: it has to be paid


class ModelRefused(PortError):
    """The provider refuses this call; a retry does not help."""

    code = "model-refused"


class PromptTooLong(ModelRefused):
    """The provider reports that the prompt does not fit its context."""

    code = "prompt-too-long"


class ReplyTooLarge(ModelRefused):
    """The reply is larger than the limit; a retry would be too."""

    code = "reply-too-large"

    def __init__(self, model: str, bytes_max: int) -> None:
        super().__init__(
            f"the reply of {model} is larger than {bytes_max:,} bytes and was cut off; "
            "ask for less, or raise max_reply_kb of its provider in interlock.toml"
        )
        self.bytes_max = bytes_max


class ModelUnavailable(PortError):
    """The call failed and may succeed later; not before `retry_after_ms`, if the provider gives it.

    `is_overloaded`: the provider has too many calls, so other calls are to wait too.
    """

    code = "model-unavailable"

    def __init__(self, message: str, *, retry_after_ms: int = 0, is_overloaded: bool = False) -> None:
        super().__init__(message)
        self.retry_after_ms, self.is_overloaded = retry_after_ms, is_overloaded


class ReplyCutShort(ModelUnavailable):
    """The provider stopped at its token limit. `text` is the part that arrived; it counts only if it is complete."""

    code = "reply-cut-short"

    def __init__(self, model: str, text: str, tokens: int = 0) -> None:
        after = f" after {tokens} tokens" if tokens else ""
        super().__init__(f"the reply of {model} hit the token limit{after} without finishing (finish_reason length)")
        self.text = text


class ScriptExhausted(PortError):
    """A scripted model has no answer left."""

    code = "script-exhausted"


class ToolFailed(PortError):
    """A tool failed; the model gets the message."""

    code = "tool-failed"


class WrongArguments(ToolFailed):
    """The tool was not run: its arguments are wrong."""

    code = "wrong-arguments"


class Retry(ToolFailed):
    """Raised by a tool: the model gets the text, with the request to call the tool again with other arguments."""

    code = "tool-retry"


class StoreFailed(PortError):
    """The data folder cannot be read or written. `passes` is true if a retry may help."""

    code = "store-failed"
    passes = True


class StoreBroken(StoreFailed):
    """The store cannot write again in this process; waiting does not help."""

    code = "store-broken"
    passes = False


class NotLeader(StoreFailed):
    """A write of a leader is refused: another process leads now."""

    code = "not-leader"
    passes = False

    def __init__(self, name: str) -> None:
        super().__init__(f"another process leads '{name}' now and continues the work")
        self.name = name


class CrewMissing(StoreFailed):
    """The crew of a run is missing in the store, or damaged."""

    code = "crew-missing"
    passes = False


class Unstorable(StoreFailed):
    """The value cannot be represented in the store."""

    code = "unstorable"
    passes = False


class LeaseLost(PortError):
    """Another process may drive the runs of this one: it was stopped, or cut off from the store, for too long."""

    code = "lease-lost"

    def __init__(self, store: str) -> None:
        super().__init__(
            f"this process was stopped, or cut off from {store}, for longer than its lease, and others drive its runs"
            " now; start it again"
        )


class StorageFull(StoreFailed):
    code = "storage-full"


class DamagedRow(StoreFailed):
    """An essential row of the database is damaged."""

    code = "damaged-row"

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what} is damaged in the database; {advice}")


class RecordsMissing(StoreFailed):
    """The database lacks acknowledged records: its log was damaged, cut or deleted, or an old copy was restored."""

    code = "records-missing"

    def __init__(self, folder: str, records: int, changes: int) -> None:
        counts = ((records, "record"), (changes, "other change"))
        missing = " and ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count > 0)
        super().__init__(
            f"{missing} that the data folder '{folder}' has acknowledged {'is' if records + changes == 1 else 'are'}"
            " missing from its database; restore the database with its log, or accept the loss with"
            f" 'interlock doctor --accept-loss --data {folder}'"
        )
        self.folder, self.records, self.changes = folder, records, changes
