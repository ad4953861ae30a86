"""The public events of a run: one frozen class per type, as `run.events()` yields them.

    match event:
        case ModelDeltaEvent(text=text): ...
        case RunFinishedEvent(status=status, text=text): ...

Rule 1: an event holds what `--json`, SSE and `GET …/events` show for it; `to_dict()` gives that dictionary.
Rule 2: a type that this version does not know is an `UnknownEvent`, and no exception.
"""

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

from interlock.engine.events import ToolRequest as ToolRequest
from interlock.engine.events import Usage as Usage
from interlock.engine.routing.candidates import Candidate as Candidate
from interlock.events.envelope import PublicStruct as PublicStruct
from interlock.events.envelope import StoredEvent as StoredEvent
from interlock.events.envelope import UnknownEvent as UnknownEvent
from interlock.events.run_events import (
    BudgetReservedEvent,
    CancelRequestedEvent,
    DriveFailedEvent,
    InputExpiredEvent,
    InputGivenEvent,
    InputRequestedEvent,
    LimitReachedEvent,
    ParkRequestedEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    StaleEvent,
    TimerFiredEvent,
    WarningEvent,
)
from interlock.events.team_events import (
    AgentStateEvent,
    BranchFinishedEvent,
    BroadcastDeliveredEvent,
    BroadcastEmittedEvent,
    BroadcastHeardEvent,
    BroadcastTakenEvent,
    ChildFinishedEvent,
    ChildGoesOnEvent,
    ChildrenSelectedEvent,
    ChildReturnedEvent,
    ChildStartedEvent,
    ChildWaitsEvent,
    GroupJoinedEvent,
    GroupStartedEvent,
    MessageAcknowledgedEvent,
    MessageGivenEvent,
    MessageSentEvent,
    MessageSettledEvent,
    ReportCheckedEvent,
)
from interlock.events.turn_events import (
    ApprovalGivenEvent,
    DecisionEvent,
    ExternalEvent,
    HandoffEvent,
    HookDecidedEvent,
    MemoryWrittenEvent,
    ModelCalledEvent,
    ModelCancelledEvent,
    ModelDeltaEvent,
    ModelFailedEvent,
    ModelLostEvent,
    ModelRepliedEvent,
    NudgedEvent,
    ReasoningDeltaEvent,
    SignalRejectedEvent,
    SignalSeenEvent,
    ToolCalledEvent,
    ToolDecidedEvent,
    ToolHeldEvent,
    ToolLostEvent,
    ToolProgressEvent,
    ToolReturnedEvent,
    TurnStartedEvent,
)

Event = (
    AgentStateEvent
    | ApprovalGivenEvent
    | BranchFinishedEvent
    | BroadcastDeliveredEvent
    | BroadcastEmittedEvent
    | BroadcastHeardEvent
    | BroadcastTakenEvent
    | BudgetReservedEvent
    | CancelRequestedEvent
    | ChildFinishedEvent
    | ChildGoesOnEvent
    | ChildReturnedEvent
    | ChildStartedEvent
    | ChildWaitsEvent
    | ChildrenSelectedEvent
    | DecisionEvent
    | DriveFailedEvent
    | ExternalEvent
    | GroupJoinedEvent
    | GroupStartedEvent
    | HandoffEvent
    | HookDecidedEvent
    | InputExpiredEvent
    | InputGivenEvent
    | InputRequestedEvent
    | LimitReachedEvent
    | MemoryWrittenEvent
    | MessageAcknowledgedEvent
    | MessageGivenEvent
    | MessageSentEvent
    | MessageSettledEvent
    | ModelCalledEvent
    | ModelCancelledEvent
    | ModelDeltaEvent
    | ModelFailedEvent
    | ModelLostEvent
    | ModelRepliedEvent
    | NudgedEvent
    | ParkRequestedEvent
    | ReportCheckedEvent
    | ReasoningDeltaEvent
    | RunFinishedEvent
    | RunPausedEvent
    | RunResumedEvent
    | RunStartedEvent
    | SignalRejectedEvent
    | SignalSeenEvent
    | StaleEvent
    | TimerFiredEvent
    | ToolCalledEvent
    | ToolDecidedEvent
    | ToolHeldEvent
    | ToolLostEvent
    | ToolProgressEvent
    | ToolReturnedEvent
    | TurnStartedEvent
    | WarningEvent
    | UnknownEvent
)

__all__ = [  # noqa: RUF022 - plain order
    "AgentStateEvent",
    "ApprovalGivenEvent",
    "BranchFinishedEvent",
    "BroadcastDeliveredEvent",
    "BroadcastEmittedEvent",
    "BroadcastHeardEvent",
    "BroadcastTakenEvent",
    "BudgetReservedEvent",
    "CancelRequestedEvent",
    "Candidate",
    "ChildFinishedEvent",
    "ChildGoesOnEvent",
    "ChildReturnedEvent",
    "ChildStartedEvent",
    "ChildWaitsEvent",
    "ChildrenSelectedEvent",
    "DecisionEvent",
    "DriveFailedEvent",
    "Event",
    "ExternalEvent",
    "GroupJoinedEvent",
    "GroupStartedEvent",
    "HandoffEvent",
    "HookDecidedEvent",
    "InputExpiredEvent",
    "InputGivenEvent",
    "InputRequestedEvent",
    "LimitReachedEvent",
    "MemoryWrittenEvent",
    "MessageAcknowledgedEvent",
    "MessageGivenEvent",
    "MessageSentEvent",
    "MessageSettledEvent",
    "ModelCalledEvent",
    "ModelCancelledEvent",
    "ModelDeltaEvent",
    "ModelFailedEvent",
    "ModelLostEvent",
    "ModelRepliedEvent",
    "NudgedEvent",
    "ParkRequestedEvent",
    "PublicStruct",
    "ReasoningDeltaEvent",
    "ReportCheckedEvent",
    "RunFinishedEvent",
    "RunPausedEvent",
    "RunResumedEvent",
    "RunStartedEvent",
    "SignalRejectedEvent",
    "SignalSeenEvent",
    "StaleEvent",
    "StoredEvent",
    "TYPES",
    "TimerFiredEvent",
    "ToolCalledEvent",
    "ToolDecidedEvent",
    "ToolHeldEvent",
    "ToolLostEvent",
    "ToolProgressEvent",
    "ToolRequest",
    "ToolReturnedEvent",
    "TurnStartedEvent",
    "UnknownEvent",
    "Usage",
    "WarningEvent",
    "event_of",
]

_CLASSES: tuple[type[PublicStruct], ...] = tuple(kind for kind in get_args(Event) if kind is not UnknownEvent)
# The class of each type of event.
TYPES = {str(kind.__struct_config__.tag): kind for kind in _CLASSES}


def event_of(shown: Mapping[str, Any]) -> Event:
    """The event of a dictionary as `--json`, SSE and `GET …/events` show it."""
    kind = TYPES.get(str(shown.get("type")))
    if kind is not None:
        try:
            return cast("Event", msgspec.convert(shown, kind))
        except msgspec.ValidationError:  # of another version: its fields differ
            pass
    return UnknownEvent(dict(shown))
