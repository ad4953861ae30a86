"""Bodies about tokens and cost."""

from pydantic import Field

from interlock.server.shapes.fields import ResponseBody


class Used(ResponseBody):
    calls: int
    input_tokens: int
    output_tokens: int
    cost_micros: int = Field(description="Millionths of a dollar, of the calls whose price is known.")
    unpriced_calls: int = Field(description="Calls whose price is unknown; if there are any, the cost is incomplete.")


class AgentUsage(ResponseBody):
    agent: str = Field(examples=["clerk"])
    usage: Used


class CrewUsage(ResponseBody):
    crew: str = Field(examples=["desk"])
    runs: int
    usage: Used
    agents: list[AgentUsage] = Field(description="The highest cost first.")


class UsageAt(ResponseBody):
    at: int = Field(description="The start of the hour or day, in UTC.", examples=[1_794_800_000_000])
    crew: str = Field(examples=["desk"])
    agent: str = Field(description="An agent of that crew; empty if the entry is per crew.", examples=["clerk"])
    usage: Used = Field(
        description="Usage of runs started then: per crew with all runs below them, per agent with its own."
    )


class UsageReport(ResponseBody):
    runs: int
    usage: Used
    crews: list[CrewUsage]
    unread: list[str] = Field(description="Damaged runs, whose usage is unknown.")
    step_ms: int = Field(description="The length of each period.", examples=[3_600_000])
    times: list[UsageAt]
