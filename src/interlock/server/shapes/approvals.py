"""Bodies about standing approvals."""

from pydantic import Field

from interlock.server.shapes.fields import RUN, ResponseBody


class ApprovalView(ResponseBody):
    """An answer `for this run` or `always`: later calls of the tool that fit the pattern need no other answer."""

    id: str = Field(examples=["ap-4b69f1357c30bf95"])
    tool: str = Field(examples=["pay"])
    pattern: str = Field(description="The calls that it holds for.", examples=["pay:amount <= 50"])
    crew: str = Field(examples=["desk"])
    run: str = Field(description="The run that it holds for, with the runs below it; empty if it holds always.")
    asked_in: str = Field(description="The run that had asked.", examples=[RUN])
    by: str = Field(description="The person who gave it.", examples=["key:boss"])
    at: int = Field(description="Milliseconds since 1970.", examples=[1_794_800_000_000])


class RevokedApprovalView(ApprovalView):
    """An approval that holds no more."""

    revoked_by: str = Field(description="The person who revoked it.", examples=["session:key:boss"])
    revoked_at: int = Field(description="Milliseconds since 1970.", examples=[1_794_800_060_000])


class ApprovalPage(ResponseBody):
    approvals: list[ApprovalView] = Field(description="Those that hold, the newest first.")
    revoked: list[RevokedApprovalView] = Field(description="Those that were revoked, the last one first.")
