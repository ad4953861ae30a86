"""Errors for which the caller must act: a command, a request or a host file is wrong."""

from collections.abc import Sequence

from interlock.errors.root import InterlockError


class UsageError(InterlockError):
    """The caller acts: the call is wrong, or names something that does not exist."""

    code = "usage-error"


class FolderServed(UsageError):
    """Another server has the data folder; there is one server per folder."""

    code = "folder-served"

    def __init__(self, folder: str, pid: str) -> None:
        super().__init__(f"data folder is served by pid {pid}; stop it, or name another folder than '{folder}'")
        self.folder, self.pid = folder, pid


class TooManyQueued(UsageError):
    """Too many runs of an organization wait for a worker."""

    code = "too-many-queued"

    def __init__(self, organization: str, queued_max: int) -> None:
        whose = f"of organization '{organization}' " if organization else ""
        super().__init__(
            f"{queued_max} runs {whose}wait for a worker already; try again later, start more workers, or raise"
            " queued_runs under [limits] in interlock.toml"
        )
        self.organization, self.queued_max = organization, queued_max


class HostLacks(UsageError):
    """This process cannot give what a run was begun with; `missing` names it: `models`, `deps`, tools, hooks, types."""

    code = "host-lacks"

    def __init__(self, run: str, missing: Sequence[str]) -> None:
        advice = [f"give {way}" for part, way in _WAYS_TO_GIVE.items() if part in missing]
        advice += [way for start, way in _WAYS_BY_KIND.items() if any(part.startswith(start) for part in missing)]
        if any(part not in _WAYS_TO_GIVE and not part.startswith(tuple(_WAYS_BY_KIND)) for part in missing):
            advice.append(
                "name the modules of the tools under [tools] in interlock.toml, or give tools=… in Python, "
                "or 'resume --crew FILE.py:NAME'"
            )
        super().__init__(
            f"run '{run}' needs from its host what this process does not have: {', '.join(missing)}; "
            f"{'; '.join(advice)}"
        )
        self.run, self.missing = run, tuple(missing)


_WAYS_TO_GIVE = {
    "models": "--script FILE, --model M or, in Python, models=…",
    "deps": "deps=… in Python",
}
# By how the name of what is missing and not a tool begins.
_WAYS_BY_KIND = {
    "hook ": "give hooks of these names in Python: Interlock(hooks=[…])",
    "approval of ": "declare these tools with needs_approval, as they were when the run began",
    "output type of ": "start the run again under its id with the same crew in Python, or 'resume --crew FILE.py:NAME'",
    "newer version of ": "upgrade Interlock here, or leave the run to a newer worker",
}


class BadCrewModule(UsageError):
    """A Python module that a command was given for a crew, and that cannot be imported or has no such crew."""

    code = "bad-crew-module"

    def __init__(self, file: str, line: int, fault: str) -> None:
        place = f"{file}:{line}" if line else file
        super().__init__(" ".join(f"{place} {fault}".split()))
        self.file, self.line, self.fault = file, line, fault


class RequestRefused(InterlockError):
    """An HTTP request that is refused, with one of the server's codes."""

    def __init__(self, code: str, message: str, *, retry_after_s: int | None = None, **more: object) -> None:
        super().__init__(message)
        self.code, self.retry_after_s, self.more = code, retry_after_s, more


class BadBroadcast(UsageError):
    """An invalid part of a broadcast, a subscription or a schedule; `what` names the part."""

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
    """The data folder has no such crew, or the crew has no such agent."""

    code = "unknown-subscriber"


class NoSuchSignal(UsageError):
    """There is no scheduled signal, subscription or dead letter of this name."""

    code = "no-such-signal"


class NoSuchApproval(UsageError):
    """No standing approval has this id: it was revoked, or there never was one."""

    code = "no-such-approval"

    def __init__(self, approval: str) -> None:
        others = "shows those that do, --revoked the others"
        super().__init__(f"no approval '{approval[:80]}' holds; 'interlock runs approvals list' {others}")
        self.approval = approval


class NoSuchSchedule(UsageError):
    """No run schedule has this id, or several ids begin with it."""

    code = "no-such-schedule"

    def __init__(self, name: str, found: Sequence[str]) -> None:
        advice = f"it matches {', '.join(found[:5])}" if found else "'interlock schedule list' shows all"
        super().__init__(f"there is no schedule '{name[:80]}'; {advice}")
        self.name, self.found = name, tuple(found)
