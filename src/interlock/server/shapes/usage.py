"""Bodies about tokens and cost."""

from pydantic import Field

from interlock.server.shapes.fields import ResponseBody


class Used(ResponseBody):
    calls: int
    input_tokens: int = Field(description="Of the whole prompts, the cached parts included.")
    cache_read_tokens: int = Field(description="The part of the input that providers read from their caches.")
    cache_write_tokens: int = Field(description="The part of the input that providers wrote to their caches.")
    output_tokens: int = Field(description="Of the whole replies, reasoning included.")
    reasoning_tokens: int = Field(description="The part of the output that was reasoning.")
    cost_micros: int = Field(description="Millionths of a dollar, of the calls whose price is known.")
    unpriced_calls: int = Field(description="Calls whose price is unknown; if there are any, the cost is incomplete.")


class Savings(ResponseBody):
    saved_micros: int = Field(
        description="Millionths of a dollar that caching saved, at the prices of each call's time; less than 0 if "
        "writing to caches cost more than reading from them saved."
    )
    unknown_calls: int = Field(
        description="Calls with cached tokens whose saving is unknown; if there are any, the sum is incomplete."
    )


class AgentUsage(ResponseBody):
    agent: str = Field(examples=["clerk"])
    usage: Used
    savings: Savings


class CrewUsage(ResponseBody):
    crew: str = Field(examples=["desk"])
    runs: int
    usage: Used
    savings: Savings
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
    savings: Savings
    crews: list[CrewUsage]
    unread: list[str] = Field(description="Damaged runs, whose usage is unknown.")
    step_ms: int = Field(description="The length of each period.", examples=[3_600_000])
    times: list[UsageAt]
