"""Whole runs on strict providers: thinking models with tools, a crash in the middle, a backup of another provider."""

import asyncio
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Interlock, UsageError
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.models.openai.endpoint import RESPONSES
from interlock.adapters.models.openai.providers import ProviderSettings
from interlock.adapters.tools.python_tools import tool
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host, ProviderFacts
from interlock.engine.events import Event, ModelReplied
from interlock.testing import ManualClock
from tests.adapters.strict_schemas import instance_of
from tests.fakes.dialects.deepseek import DeepSeek
from tests.fakes.dialects.openai_chat import KEY, OpenAIChat
from tests.fakes.dialects.openai_responses import OpenAIResponses
from tests.fakes.dialects.server import Call, DialectServer, Refusal, Reply, Say, Tokens, Use

PATIENCE_SECONDS = 20
MODELS: dict[type[DialectServer], str] = {
    OpenAIChat: "openai:gpt-5",
    OpenAIResponses: "openai:gpt-5",
    DeepSeek: "deepseek:deepseek-v4-pro",
}
ROUNDS = [Say(reasoning=f"Round {n}: look [END] again.", uses=(Use(name="look"),)) for n in range(5)]
LAST = Say(text="Found.\n[END]", reasoning="Shall I say [END]? Yes.", tokens=Tokens(output=9, reasoning=5))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)


def provider_of(server: DialectServer) -> str:
    return MODELS[type(server)].partition(":")[0]


def host_of(*servers: DialectServer, **more: Any) -> HostSettings:
    """A host whose file names these servers as the addresses of their providers."""
    settings = {
        provider_of(server): ProviderSettings(
            url=server.url,
            api=RESPONSES if isinstance(server, OpenAIResponses) else "",
            constrains_with_tools=not isinstance(server, DeepSeek),
            **more,
        )
        for server in servers
    }
    return HostSettings(provider_settings=settings)


def crew_of(folder: Path, *servers: DialectServer, agent: str = "", more: str = "") -> CrewDefinition:
    primary, *backup = (MODELS[type(server)] for server in servers)
    text = f"""\
    version: "2.0"
    name: story
    entry_point: a
    agents:
      - id: a
        tools: [look]
        primary: {{model: "{primary}"}}
        {f'backup: {{model: "{backup[0]}"}}' if backup else ""}
        {agent}
    routing: {{signals: {{a: [{{signal: "[END]"}}]}}}}
    settings: {{retry_backoff_min_millis: 1, signal_position: anywhere{more}}}
    """
    folder.mkdir(exist_ok=True)
    (folder / "crew.yaml").write_text(textwrap.dedent(text), "utf-8")
    facts = {provider_of(server): ProviderFacts(url=server.url) for server in servers}
    return load_definition(folder, host=Host(tools=("look",), providers=tuple(facts), provider_facts=facts))


@tool(idempotent=True)
async def look() -> str:
    """Looks for a thing."""
    return "nothing yet"


async def finished(box: Interlock, crew: CrewDefinition) -> tuple[Any, list[Event], list[dict[str, Any]]]:
    """The result, what is stored, and what watchers saw."""
    async with box, asyncio.timeout(PATIENCE_SECONDS):
        run = await box.start(crew, "go")
        shown = [event async for event in box.runner.follow(run.id)]
        result = await run.result()
        records = await box.journal.records(run.id)
    return result, [event for record in records for event in record.events], shown


@pytest.mark.parametrize("dialect", MODELS)
async def test_a_thinking_model_works_through_five_rounds_of_tools(
    tmp_path: Path, dialect: type[DialectServer]
) -> None:
    with dialect(*ROUNDS, LAST) as server:
        crew = crew_of(tmp_path / "crew", server)
        result, events, _ = await finished(Interlock(tmp_path / "data", host=host_of(server), tools=[look]), crew)
        assert server.refusals == []
    assert (result.status, result.reason, result.text) == ("completed", "signal:[END]", "Found.")
    replied = [event for event in events if isinstance(event, ModelReplied)]
    assert replied[-1].usage.reasoning_tokens == 5
    assert [len(each.reasoning) for each in replied] == ([0] * 6 if dialect is OpenAIChat else [1] * 6)


@pytest.mark.parametrize("dialect", [OpenAIResponses, DeepSeek])
async def test_a_crash_in_the_tool_loop_loses_no_reasoning(tmp_path: Path, dialect: type[DialectServer]) -> None:
    """The second process reads the blocks from the journal: the provider refuses a call without them."""
    begun = asyncio.Event()

    @tool(idempotent=True, name="look")
    async def hang() -> str:
        """Hangs in its third call."""
        if len(server.calls) == 3:
            begun.set()
            await asyncio.Event().wait()
        return "nothing yet"

    with dialect(*ROUNDS, LAST) as server:
        crew = crew_of(tmp_path / "crew", server)
        async with Interlock(tmp_path / "data", host=host_of(server), tools=[hang]) as box:
            await box.start(crew, "go", run_id="r")
            async with asyncio.timeout(PATIENCE_SECONDS):
                await begun.wait()
        async with (
            Interlock(tmp_path / "data", host=host_of(server), tools=[look], recover=True) as box,
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            await box.runner.wait_until_settled("r")
            result = await box.result("r")
        sent = msgspec.json.encode(server.requests[-1]).decode()
        assert (result.status, result.text, server.refusals) == ("completed", "Found.", [])
    assert [sent.count(f"Round {n}: look") for n in range(5)] == [1] * 5


@pytest.mark.parametrize(
    ("first", "second"), [(DeepSeek, OpenAIResponses), (OpenAIResponses, DeepSeek), (DeepSeek, OpenAIChat)]
)
async def test_a_backup_of_another_provider_gets_no_reasoning_of_the_first(
    tmp_path: Path, first: type[DialectServer], second: type[DialectServer]
) -> None:
    down: list[Reply] = [Refusal(503, "busy", "server_error")] * 3
    with first(*ROUNDS[:2], *down) as one, second(*ROUNDS[3:], LAST) as other:
        crew = crew_of(tmp_path / "crew", one, other)
        result, _, _ = await finished(Interlock(tmp_path / "data", host=host_of(one, other), tools=[look]), crew)
        assert (one.refusals, other.refusals) == ([], [])
        sent = msgspec.json.encode(other.requests).decode()
    assert (result.status, result.text) == ("completed", "Found.")
    assert "Round 0" not in sent and "Round 1" not in sent
    assert ("Round 3" in sent) == (second is not OpenAIChat)


async def test_reasoning_is_shown_as_it_comes_and_never_as_text(tmp_path: Path) -> None:
    with DeepSeek(LAST) as server:
        crew = crew_of(tmp_path / "crew", server)
        result, _, shown = await finished(Interlock(tmp_path / "data", host=host_of(server), tools=[look]), crew)
    assert result.text == "Found."
    assert all("Shall I" not in event["text"] for event in shown if event["type"] == "model.delta")


async def test_the_settings_of_an_agent_go_over_the_wire(tmp_path: Path) -> None:
    agent = "reasoning: high\n        max_tokens: 700\n        extra: {verbosity: low}"
    with OpenAIChat(LAST) as server:
        crew = crew_of(tmp_path / "crew", server, agent=agent)
        result, _, _ = await finished(Interlock(tmp_path / "data", host=host_of(server), tools=[look]), crew)
        body = server.requests[0]
    assert result.status == "completed"
    assert (body["reasoning_effort"], body["max_completion_tokens"], body["verbosity"]) == ("high", 700, "low")


async def test_a_model_in_place_of_the_crews_takes_its_settings_or_the_run_does_not_start(tmp_path: Path) -> None:
    with OpenAIChat() as server, DeepSeek() as other:
        crew = crew_of(tmp_path / "crew", server, agent="seed: 7")
        host = host_of(server, other)
        async with Interlock(tmp_path / "data", host=host, tools=[look], model="deepseek:deepseek-v4-pro") as box:
            with pytest.raises(UsageError, match="deepseek does not take seed; remove it"):
                await box.start(crew, "go")
        assert (server.calls, other.calls) == ([], [])


# Typed results

OUTPUT = "{type: object, properties: {order: {type: string}, note: {type: string}}, required: [order]}"


def value(call: Call) -> Say:
    form = call.body.get("response_format", {}).get("json_schema") or call.body.get("text", {}).get("format", {})
    schema = form.get("schema") or msgspec.json.decode(call.body["messages"][0]["content"].rpartition("\n")[2])
    return Say(text=msgspec.json.encode(instance_of(schema, with_nulls=True)).decode(), reasoning="Hm.")


@pytest.mark.parametrize("dialect", MODELS)
async def test_a_typed_result_comes_after_tools_on_every_dialect(tmp_path: Path, dialect: type[DialectServer]) -> None:
    with dialect(ROUNDS[0], value) as server:
        crew = crew_of(tmp_path / "crew", server, agent=f"output: {OUTPUT}")
        result, _, _ = await finished(Interlock(tmp_path / "data", host=host_of(server), tools=[look]), crew)
        assert server.refusals == []
    assert (result.status, result.value["order"]) == ("completed", "words")


# Trouble, by the Responses API


async def test_a_response_is_asked_for_again_when_the_provider_said(tmp_path: Path) -> None:
    clock, moved = ManualClock(), list[int]()
    busy = Refusal(429, "later", "rate_limit_exceeded", {"retry-after": "40"})
    with OpenAIResponses(busy, LAST) as server:
        crew = crew_of(tmp_path / "crew", server)
        host = host_of(server, idempotency_header="Idempotency-Key")
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            Interlock(tmp_path / "data", host=host, clock=clock, tools=[look]) as box,
        ):
            over = asyncio.ensure_future((await box.start(crew, "go")).result())
            while not over.done():
                await asyncio.sleep(0.005)
                wake = clock.next_wake_ms()
                if wake is not None and wake < 500_000:  # the run's own bounds are far away
                    moved.append(wake - clock.monotonic_ms())
                    clock.advance(moved[-1])
        keys = [call.headers["idempotency-key"] for call in server.calls]
    assert over.result().status == "completed"
    assert len(moved) == 1 and 40_000 <= moved[0] <= 50_000
    assert len(keys) == 2 and all(keys)


async def test_a_circuit_that_is_open_sends_the_next_run_to_the_backup_at_once(tmp_path: Path) -> None:
    down: list[Reply] = [Refusal(500, "down", "server_error")] * 9
    with OpenAIResponses(*down) as one, DeepSeek(*[LAST] * 3) as other:
        crew = crew_of(tmp_path / "crew", one, other, more=", max_consecutive_errors: 3")
        for _ in range(3):
            box = Interlock(tmp_path / "data", host=host_of(one, other), tools=[look])
            assert (await finished(box, crew))[0].status == "completed"
        assert (len(one.calls), len(other.calls)) == (3, 3)
