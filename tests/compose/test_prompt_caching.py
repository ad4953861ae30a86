"""Runs of real clients against a cache with Anthropic's rules: what is read, what it costs, and what it saved."""

from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Result, load_crew
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.models.openai.providers import ProviderSettings
from interlock.adapters.models.price_table import table_cost
from interlock.compose.usage import CostReport
from interlock.engine.events import Usage
from interlock.testing import ManualClock
from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.anthropic_cache import LIFE_MS, PromptCache
from tests.fakes.dialects.clients import SONNET, use
from tests.fakes.dialects.openai_chat import KEY, OpenAIChat
from tests.fakes.dialects.server import Say, Tokens, Use

CALLS = 30
CREW = f"""\
version: "2.0"
name: looker
entry_point: a
agents: [{{id: a, model: "{SONNET.name}", system_prompt: "PROMPT", tools: [look], SETTINGS}}]
settings: {{max_rounds: 60, LIMITS}}
routing: {{signals: {{a: [{{signal: "[END]"}}]}}}}
"""


async def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: nothing but grass. " * 8


class Loop:
    """A run of one agent that calls `wide` tools at a time, `calls` calls long."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch, self.clock = folder, monkeypatch, ManualClock()
        self.result: Result | None = None
        self.report: CostReport | None = None
        self.requests: list[dict[str, object]] = []

    async def run(
        self, *, calls: int = CALLS, wide: int = 1, settings: str = "", limits: str = "", pause_ms: int = 0
    ) -> Usage:
        text = CREW.replace("PROMPT", "Look around, and be kind. " * 200)
        (self.folder / "crew.yaml").write_text(text.replace("SETTINGS", settings).replace("LIMITS", limits), "utf-8")

        async def look_slowly(place: str) -> str:
            self.clock.advance(pause_ms // wide)
            return await look(place)

        look_slowly.__name__, look_slowly.__doc__ = "look", look.__doc__
        asked = [
            Say(uses=tuple(Use(name="look", arguments={"place": f"{n}.{m}"}) for m in range(wide)))
            for n in range(calls - 1)
        ]
        with AnthropicServer(*asked, Say(text="Done.\n[END]"), has_cache=True) as server:
            server.cache = PromptCache(self.clock.now_ms)
            use(server, "anthropic", self.monkeypatch)
            async with Interlock(self.folder / "data", clock=self.clock) as box:
                crew = load_crew(self.folder / "crew.yaml", tools=[look_slowly])
                self.result = await (await box.start(crew, "Find the well")).result()
                self.report = await box.usage()
            self.requests = server.requests
        assert self.result.status != "failed", self.result.detail
        return self.result.usage


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(tmp_path, monkeypatch)


def hit_rate(usage: Usage) -> float:
    return usage.cache_read_tokens / usage.input_tokens


async def test_a_tool_loop_of_thirty_calls_reads_nine_tenths_of_its_tokens_from_the_cache(loop: Loop) -> None:
    usage = await loop.run()
    assert (usage.calls, hit_rate(usage) >= 0.9) == (CALLS, True), hit_rate(usage)
    # Each token is written once, when it is new; the rest is read.
    assert usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens
    assert usage.cache_write_tokens < usage.input_tokens / CALLS * 2


async def test_what_it_cost_is_what_the_table_says_of_its_buckets(loop: Loop) -> None:
    usage = await loop.run()
    by_table = table_cost(SONNET, usage)
    assert by_table is not None and 0 <= usage.cost_micros - by_table <= CALLS  # each call is rounded up
    without = table_cost(SONNET, Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens))
    assert without is not None and loop.report is not None
    savings = loop.report.savings
    assert savings.unknown_calls == 0 and abs(savings.saved_micros - (without - usage.cost_micros)) <= CALLS
    assert usage.cost_micros < without / 4


async def test_many_tools_in_one_reply_are_no_reason_to_read_nothing(loop: Loop) -> None:
    """A reply with 15 calls adds more blocks than the cache looks back over."""
    assert hit_rate(await loop.run(calls=12, wide=15)) > 0.75


@pytest.mark.parametrize(("cache", "is_read"), [("on", False), ("1h", True)])
async def test_slow_tools_need_a_cache_of_an_hour(loop: Loop, cache: str, is_read: bool) -> None:
    usage = await loop.run(calls=6, settings=f"cache: {cache}", pause_ms=LIFE_MS["5m"] + 1_000)
    assert (usage.cache_read_tokens > 0) == is_read
    by_table = table_cost(SONNET, usage, cached_for_1h=cache == "1h")
    assert by_table is not None and 0 <= usage.cost_micros - by_table <= 6


async def test_nothing_is_cached_where_the_agent_says_so(loop: Loop) -> None:
    usage = await loop.run(calls=3, settings="cache: off")
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (0, 0)
    assert "cache_control" not in str(loop.requests)


async def test_a_limit_in_dollars_counts_what_was_paid_not_what_was_shown(loop: Loop) -> None:
    """The run costs a quarter of what its prompts would cost in full; a limit of half of that does not stop it."""
    usage = await loop.run()
    without = table_cost(SONNET, Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens))
    assert without is not None and usage.cost_micros < without / 4
    await loop.run(limits=f"max_cost_per_run: {without / 2_000_000}")
    assert loop.result is not None and loop.result.status == "completed"
    await loop.run(limits=f"max_cost_per_run: {usage.cost_micros / 2_000_000}")
    assert loop.result.reason == "budget:cost"


async def run_on_openai(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limits: str, *replies: Say
) -> tuple[Result, Any]:
    """A run of the native client against a strict stand-in of OpenAI, and its last `model.replied`."""
    text = 'version: "2.0"\nname: gpt\nentry_point: a\nagents: [{id: a, model: "openai:gpt-5"}]\n'
    text += f"settings: {{{limits}}}\n"
    text += 'routing: {signals: {a: [{signal: "[ON]", type: route, target: a}, {signal: "[END]"}]}}\n'
    (folder / "crew.yaml").write_text(text, "utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIChat(*replies) as server:
        host = HostSettings(provider_settings={"openai": ProviderSettings(url=server.url)})
        async with Interlock(folder / "data", host=host) as box:
            run = await box.start(load_crew(folder / "crew.yaml"), "go")
            told = [event async for event in box.runner.follow(run.id) if event["type"] == "model.replied"]
            return await run.result(), told[-1]


# The figures of the issue: 99 % of the prompt is cached.
CACHED = Tokens(input=100_000, cache_read=99_000, output=10)


async def test_a_prompt_that_is_cached_costs_in_the_journal_what_the_table_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was $0.1251 in the journal; by the table it is $0.0137."""
    result, replied = await run_on_openai(tmp_path, monkeypatch, "", Say(text="Done.\n[END]", tokens=CACHED))
    assert replied["usage"]["cache_read_tokens"] == 99_000
    assert (replied["usage"]["cost_micros"], replied["uncached_micros"]) == (13_725, 125_100)
    assert result.usage.cost_micros == 13_725


async def test_a_run_whose_prompts_are_cached_does_not_stop_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten calls for $0.14 under a limit of $0.50, which ten at the full price would have passed with the fifth."""
    replies = [Say(text=f"Word {n}.\n[ON]", tokens=CACHED) for n in range(9)]
    limits = "max_cost_per_run: 0.5, max_cost_per_day: 0.5, loop_window: 0"
    result, _ = await run_on_openai(tmp_path, monkeypatch, limits, *replies, Say(text="Done.\n[END]", tokens=CACHED))
    assert (result.status, result.usage.calls, result.usage.cost_micros) == ("completed", 10, 137_250)
