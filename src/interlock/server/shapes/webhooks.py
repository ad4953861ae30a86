"""Bodies about webhooks that could not be delivered."""

from typing import Any

from pydantic import Field

from interlock.server.shapes.fields import RUN, ResponseBody


class DeadLetter(ResponseBody):
    number: int
    hook: str = Field(examples=["ops"])
    key: str = Field(description="The id of the delivery, the same on every try.", examples=[f"{RUN}:32"])
    attempts: int
    error: str = Field(examples=["the receiver answered 500"])
    died_at: int = Field(
        description="The time of the last try, in milliseconds since 1970.", examples=[1_794_800_000_000]
    )
    body: dict[str, Any]


class DeadLetters(ResponseBody):
    letters: list[DeadLetter]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")
