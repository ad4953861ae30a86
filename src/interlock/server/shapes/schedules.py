"""Bodies about scheduled runs."""

from pydantic import Field

from interlock.server.shapes.fields import RequestBody, ResponseBody, WholeNumber


class RepeatView(ResponseBody):
    """An interval in milliseconds, or a local time on some days of the week."""

    everyMs: int = 0  # noqa: N815 - as in schedules of signals
    at: str = ""
    zone: str = ""
    days: list[str] = Field([])


class AddSchedule(RequestBody):
    """Give exactly one of `at`, `every_ms`, `daily` (with `days` for some days of the week) and `cron`."""

    crew: str = Field(max_length=256, examples=["newsroom"])
    input: str = Field("", examples=["The news of the day"])
    at: WholeNumber | None = Field(None, description="Once; milliseconds since 1970.", examples=[None])
    every_ms: WholeNumber | None = Field(None, ge=1, le=2**53, examples=[None])
    daily: str | None = Field(None, max_length=5, description="A local time, HH:MM.", examples=["09:00"])
    days: list[str] = Field([], max_length=7, examples=[["mon", "thu"]])
    cron: str | None = Field(None, max_length=200, description="Five fields.", examples=[None])
    zone: str = Field("UTC", max_length=100, examples=["Europe/Berlin"])


class ScheduleView(ResponseBody):
    id: str
    crew: str
    input: str
    next_at: int = Field(description="Milliseconds since 1970.")
    created_at: int
    repeat: RepeatView | None
    cron: str
    zone: str
    paused: bool
    attempts: int = Field(description="Tries to start the next run.")
    try_at: int
    last_at: int = Field(description="The planned time of the last run; 0 before the first.")
    last_run: str
    problem: str = Field(description="The reason why the last run did not start; empty if it did.")


class SchedulePage(ResponseBody):
    schedules: list[ScheduleView]
