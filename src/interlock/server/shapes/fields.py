"""The two kinds of bodies, and fields that several of them use. Unknown keys are refused."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

RUN = "01a1e2ac96f34f33c417"
TOKEN = f"{RUN}:8.0"

# No crew's limit is larger.
LongText = Annotated[str, Field(max_length=64 * 1024 * 1024)]


def _as_whole_number(value: object) -> object:
    """Accepts 12.0 as 12: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_as_whole_number)]


class RequestBody(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ResponseBody(BaseModel):
    """A response body."""

    model_config = ConfigDict(extra="forbid")
