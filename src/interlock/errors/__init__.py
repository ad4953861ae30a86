"""The errors of Interlock, split by who must act: crew, usage, run, port.

InterlockError ─┬─ CrewError ─┬─ UnsoundCrew ── UnreadableCrew     defined in crew/unsound.py
                │             └─ SignalError ─┬─ BadSignalFormat  BadDefinition  UnknownSignal  DuplicateSignal
                │                             ├─ EmitterNotAllowed  UnknownEmitter
                │                             └─ UnknownTarget  WrongTarget  InvalidTarget
                ├─ UsageError     the caller named something that does not exist, or a host file is wrong
                │  ├─ FolderServed     one server per data folder
                │  ├─ TooManyQueued     too many runs wait for a worker
                │  ├─ HostLacks     a run was begun with models, deps or functions that this process does not have
                │  ├─ BadCrewModule     a Python module that a command was given for a crew
                │  ├─ BadBroadcast ── BadPattern     an invalid broadcast, subscription or schedule
                │  └─ UnknownSubscriber  NoSuchSignal  NoSuchSchedule  NoSuchApproval
                ├─ RequestRefused     the sender of the request acts; its codes are in server/http/problems.py
                ├─ RunError ──┬─ RunNotFound (RunDeleted)  RunExists  OutOfOrder  NotOwner  OwnedElsewhere
                │             ├─ AlreadyHeard  DamagedRun  OrderPending  OrderRefused  OrderLost  OrderCarriedOut
                │             ├─ AlreadyStarted  AlreadyResumed  NotWaiting (TakesNoInput  TooLate)  InputRefused
                │             ├─ CannotFork
                │             └─ ParentIsOver  JournalDiverged
                └─ PortError ─┬─ ModelRefused ─┬─ PromptTooLong
                              │                └─ ReplyTooLarge
                              ├─ ModelUnavailable ── ReplyCutShort
                              ├─ ScriptExhausted  LeaseLost  ToolFailed ── WrongArguments  Retry
                              └─ StoreFailed ── StorageFull  StoreBroken  DamagedRow  RecordsMissing  CrewMissing
                                                Unstorable  NotLeader     the operator acts

Rule 1: a message names the fact, the thing and the next step; lower case, no full stop.
Rule 2: the object keeps the parts and a stable `code`.
Rule 3: the four sentences of the signal protocol are kept word for word; advice follows after a semicolon.
"""

from interlock.errors.crew import (
    BadDefinition,
    BadSignalFormat,
    CrewError,
    DuplicateSignal,
    EmitterNotAllowed,
    InvalidTarget,
    SignalError,
    UnknownEmitter,
    UnknownSignal,
    UnknownTarget,
    WrongTarget,
)
from interlock.errors.port import (
    CrewMissing,
    DamagedRow,
    LeaseLost,
    ModelRefused,
    ModelUnavailable,
    NotLeader,
    PortError,
    PromptTooLong,
    RecordsMissing,
    ReplyCutShort,
    ReplyTooLarge,
    Retry,
    ScriptExhausted,
    StorageFull,
    StoreBroken,
    StoreFailed,
    ToolFailed,
    Unstorable,
    WrongArguments,
)
from interlock.errors.root import InterlockError
from interlock.errors.run import (
    AlreadyHeard,
    AlreadyResumed,
    AlreadyStarted,
    CannotFork,
    DamagedRun,
    InputRefused,
    JournalDiverged,
    NotOwner,
    NotWaiting,
    OrderCarriedOut,
    OrderLost,
    OrderPending,
    OrderRefused,
    OutOfOrder,
    OwnedElsewhere,
    ParentIsOver,
    RunDeleted,
    RunError,
    RunExists,
    RunNotFound,
    TakesNoInput,
    TooLate,
)
from interlock.errors.suggestions import closest, nearest
from interlock.errors.usage import (
    BadBroadcast,
    BadCrewModule,
    BadPattern,
    FolderServed,
    HostLacks,
    NoSuchApproval,
    NoSuchSchedule,
    NoSuchSignal,
    RequestRefused,
    TooManyQueued,
    UnknownSubscriber,
    UsageError,
)

__all__ = [
    "AlreadyHeard",
    "AlreadyResumed",
    "AlreadyStarted",
    "BadBroadcast",
    "BadCrewModule",
    "BadDefinition",
    "BadPattern",
    "BadSignalFormat",
    "CannotFork",
    "CrewError",
    "CrewMissing",
    "DamagedRow",
    "DamagedRun",
    "DuplicateSignal",
    "EmitterNotAllowed",
    "FolderServed",
    "HostLacks",
    "InputRefused",
    "InterlockError",
    "InvalidTarget",
    "JournalDiverged",
    "LeaseLost",
    "ModelRefused",
    "ModelUnavailable",
    "NoSuchApproval",
    "NoSuchSchedule",
    "NoSuchSignal",
    "NotLeader",
    "NotOwner",
    "NotWaiting",
    "OrderCarriedOut",
    "OrderLost",
    "OrderPending",
    "OrderRefused",
    "OutOfOrder",
    "OwnedElsewhere",
    "ParentIsOver",
    "PortError",
    "PromptTooLong",
    "RecordsMissing",
    "ReplyCutShort",
    "ReplyTooLarge",
    "RequestRefused",
    "Retry",
    "RunDeleted",
    "RunError",
    "RunExists",
    "RunNotFound",
    "ScriptExhausted",
    "SignalError",
    "StorageFull",
    "StoreBroken",
    "StoreFailed",
    "TakesNoInput",
    "TooLate",
    "TooManyQueued",
    "ToolFailed",
    "UnknownEmitter",
    "UnknownSignal",
    "UnknownSubscriber",
    "UnknownTarget",
    "Unstorable",
    "UsageError",
    "WrongArguments",
    "WrongTarget",
    "closest",
    "nearest",
]
