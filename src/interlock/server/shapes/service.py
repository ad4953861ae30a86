"""Bodies about the server: sessions, health, refusals."""

from pydantic import BaseModel, ConfigDict, Field

from interlock.server.shapes.fields import RequestBody, ResponseBody


class OpenByCode(RequestBody):
    code: str = Field(description="The code from the address that `interlock serve` printed; it works once.")


class OpenByKey(RequestBody):
    key: str = Field(description="A key of this server.")


class Session(ResponseBody):
    id: str = Field(examples=["owner"])
    scopes: list[str] = Field(
        description="All scopes; `admin` is listed beside the scopes that it includes.",
        examples=[["admin", "answer", "approve", "metrics", "read", "run"]],
    )
    crews: list[str] = Field(
        default=[],
        description="The crews that it is limited to; empty for all.",
        examples=[["desk"]],
    )


class Health(ResponseBody):
    status: str = Field(examples=["ok"])


class ProblemBody(BaseModel, title="Problem"):
    """RFC 9457. `code` is stable; `detail` is for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:interlock:problem:run-not-found"])
    title: str = Field(examples=["There is no such run"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no run 'x'; 'interlock runs list' shows those there are"])
    code: str = Field(examples=["run-not-found"])
