"""Bodies about broadcasts: emit, subscribe, deliver later, dead letters."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from interlock.server.shapes.fields import RequestBody, ResponseBody, WholeNumber


class Emit(RequestBody):
    type: str = Field(max_length=1024, description="The type, in segments.", examples=["build:project-x:done"])
    data: Any = Field(None, description="Any JSON, or null.", examples=[{"ok": True}])


class Subscribe(RequestBody):
    crew: str = Field(min_length=1, max_length=256, examples=["desk"])
    agent: str = Field(min_length=1, max_length=256, examples=["clerk"])
    pattern: str = Field(max_length=1024, description="`*` matches one segment.", examples=["build:*:done"])
    silent: bool = Field(
        True, description="True: shown with the agent's next turn. False: the agent gets a turn for it."
    )


class ScheduleSignal(RequestBody, title="Schedule"):
    __qualname__ = "Schedule"  # its name in the OpenAPI document

    type: str = Field(max_length=1024, examples=["report:due"])
    data: Any = Field(None, examples=[None])
    deliver_at: WholeNumber | None = Field(
        None, alias="deliverAt", description="Milliseconds since 1970.", examples=[None]
    )
    in_ms: WholeNumber | None = Field(
        None, alias="inMs", ge=0, le=2**53, description="Or milliseconds from now.", examples=[60_000]
    )
    repeat_key: str | None = Field(
        None,
        alias="repeatKey",
        description="A signal with the same type and key replaces this one.",
        examples=["daily"],
    )


class SourceView(ResponseBody):
    type: Literal["system", "agent", "webhook", "process"]
    id: str = ""


class BroadcastView(BaseModel):
    """A broadcast."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(examples=["k3x9p2q8w7e6r5t4y3u2i1o0"])
    type: str = Field(examples=["build:project-x:done"])
    source: SourceView
    createdAt: int = Field(examples=[1_794_800_000_000])  # noqa: N815 - the name is the protocol's


class BroadcastPage(ResponseBody):
    events: list[BroadcastView]


class SubscriptionView(ResponseBody):
    crew: str
    agent: str
    pattern: str
    silent: bool
    origin: Literal["file", "tool", "api"]


class SubscriptionPage(ResponseBody):
    subscriptions: list[SubscriptionView]


class DelayedView(BroadcastView):
    """A delayed signal."""

    deliverAt: int  # noqa: N815 - the name is the protocol's
    attempts: int


class DelayedPage(ResponseBody):
    delayed: list[DelayedView]


class DeadBroadcast(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str
    broadcast: BroadcastView
    reason: str
    at: int
    crew: str = Field("", description="The crew of the receiving agent.")
    agent: str = Field("", description="The receiving agent; empty if it was delivered to no agent.")


class DeadBroadcasts(ResponseBody):
    dead: list[DeadBroadcast]


class Revived(ResponseBody):
    revived: int = Field(description="The number of deliveries that are tried again.")
