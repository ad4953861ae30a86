"""Settings over the wire: strict providers take what is sent, and what a model does not take is refused before."""

from collections.abc import Callable
from typing import Any

import pytest

from interlock.adapters.models.openai.endpoint import CallLimits
from interlock.adapters.models.pydantic_ai.call_settings import call_settings
from interlock.crew.definition import ModelRef, ModelSettings
from interlock.errors import ModelRefused, ReplyCutShort
from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.clients import FIND, FLASH, SONNET, reply_from, request_of, use
from tests.fakes.dialects.features import ANTHROPIC, GEMINI, shows
from tests.fakes.dialects.gemini import GeminiServer
from tests.fakes.dialects.server import DialectServer, Say, Tokens


def claude(name: str) -> ModelRef:
    return ModelRef(provider="anthropic", model=f"claude-{name}")


def gemini(name: str) -> ModelRef:
    return ModelRef(provider="google", model=f"gemini-{name}")


SERVERS: dict[str, Callable[..., DialectServer]] = {"anthropic": AnthropicServer, "google": GeminiServer}


async def sent_to(model: ModelRef, monkeypatch: pytest.MonkeyPatch, **parts: Any) -> dict[str, Any]:
    """The body of one call that a strict provider has taken."""
    with SERVERS[model.provider](Say(text="done")) as server:
        use(server, model.provider, monkeypatch)
        assert (await reply_from(model, request_of(**parts))).text == "done"
        assert server.refusals == []
        (body,) = server.requests
    return body


async def refused_by(model: ModelRef, monkeypatch: pytest.MonkeyPatch, **parts: Any) -> str:
    """Why a call is refused before it is made."""
    with SERVERS[model.provider]() as server:
        use(server, model.provider, monkeypatch)
        with pytest.raises(ModelRefused) as refused:
            await reply_from(model, request_of(**parts))
        assert server.requests == []
    return str(refused.value)


@shows("max_tokens", ANTHROPIC)
@shows("stop", ANTHROPIC)
@shows("parallel_tool_calls", ANTHROPIC)
@shows("service_tier", ANTHROPIC)
@shows("extra", ANTHROPIC)
async def test_anthropic_gets_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ModelSettings(
        max_tokens=77,
        stop=("END", "STOP"),
        parallel_tool_calls=False,
        service_tier="standard_only",
        extra={"metadata": {"user_id": "u1"}},
    )
    body = await sent_to(SONNET, monkeypatch, settings=settings, tools=(FIND,), temperature=0.0, top_k=5)
    assert (body["max_tokens"], body["stop_sequences"], body["service_tier"]) == (77, ["END", "STOP"], "standard_only")
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert (body["metadata"], body["temperature"], body["top_k"]) == ({"user_id": "u1"}, 0.0, 5)


@shows("max_tokens", GEMINI)
@shows("stop", GEMINI)
@shows("seed", GEMINI)
@shows("service_tier", GEMINI)
async def test_gemini_gets_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ModelSettings(max_tokens=77, stop=("END",), seed=4, service_tier="flex")
    body = await sent_to(FLASH, monkeypatch, settings=settings, temperature=0.0, top_k=5)
    config = body["generationConfig"]
    assert (config["maxOutputTokens"], config["stopSequences"], config["seed"]) == (77, ["END"], 4)
    assert (config["temperature"], config["topK"], body["serviceTier"]) == (0.0, 5, "flex")


async def test_nothing_is_sent_that_was_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    body = await sent_to(SONNET, monkeypatch, settings=ModelSettings(cache="off"))
    assert sorted(body) == ["max_tokens", "messages", "model", "stream", "system"]
    assert sorted(await sent_to(FLASH, monkeypatch)) == ["contents", "generationConfig", "systemInstruction"]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("opus-4-1", 4_096), ("haiku-4-5", 64_000), ("sonnet-4-6", 128_000), ("opus-5", 128_000), ("next", 16_384)],
)
async def test_anthropic_wants_a_number_of_tokens_and_gets_the_most_of_the_model(
    name: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await sent_to(claude(name), monkeypatch))["max_tokens"] == tokens


async def test_a_reply_that_max_tokens_cuts_off_is_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"anthropic": (AnthropicServer, "max_tokens"), "google": (GeminiServer, "MAX_TOKENS")}
    for model in (SONNET, FLASH):
        server_of, reason = said[model.provider]
        with server_of(Say(text="wel", stop=reason)) as server:
            use(server, model.provider, monkeypatch)
            with pytest.raises(ReplyCutShort):
                await reply_from(model, request_of(settings=ModelSettings(max_tokens=3)))


@shows("reasoning", ANTHROPIC)
@pytest.mark.parametrize(
    ("name", "asked", "thinking", "effort"),
    [
        ("haiku-4-5", "low", {"type": "enabled", "budget_tokens": 2_048}, None),
        ("haiku-4-5", "high", {"type": "enabled", "budget_tokens": 16_384}, None),
        ("haiku-4-5", 3_000, {"type": "enabled", "budget_tokens": 3_000}, None),
        ("haiku-4-5", "off", None, None),
        ("sonnet-4-6", "medium", {"type": "adaptive"}, "medium"),
        ("sonnet-4-6", 3_000, {"type": "enabled", "budget_tokens": 3_000}, None),
        ("opus-4-8", "high", {"type": "adaptive", "display": "summarized"}, "high"),
        ("opus-5", "off", {"type": "disabled"}, None),
        ("sonnet-5-5", "off", {"type": "between_tools"}, None),
        ("opus-5-5", "low", {"type": "adaptive", "display": "summarized"}, "low"),
    ],
)
async def test_anthropic_is_asked_to_reason_as_its_model_takes_it(
    name: str,
    asked: str | int,
    thinking: dict[str, Any] | None,
    effort: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = await sent_to(claude(name), monkeypatch, settings=ModelSettings(reasoning=asked))
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


async def test_the_budget_of_a_level_stays_below_max_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ModelSettings(reasoning="high", max_tokens=4_000)
    body = await sent_to(claude("haiku-4-5"), monkeypatch, settings=settings)
    assert body["thinking"]["budget_tokens"] == 2_000


@shows("reasoning", GEMINI)
@pytest.mark.parametrize(
    ("name", "asked", "thinking"),
    [
        ("2.5-flash", "low", {"include_thoughts": True, "thinking_budget": 2_048}),
        ("2.5-flash", 500, {"include_thoughts": True, "thinking_budget": 500}),
        ("2.5-flash", "off", {"thinking_budget": 0}),
        ("3-flash", "medium", {"include_thoughts": True, "thinking_level": "MEDIUM"}),
        ("3-pro-preview", "high", {"include_thoughts": True, "thinking_level": "HIGH"}),
    ],
)
async def test_gemini_is_asked_to_reason_as_its_model_takes_it(
    name: str, asked: str | int, thinking: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = await sent_to(gemini(name), monkeypatch, settings=ModelSettings(reasoning=asked))
    assert body["generationConfig"]["thinkingConfig"] == thinking


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        (SONNET, {"seed": 3}, "takes no seed"),
        (FLASH, {"parallel_tool_calls": False}, "takes no parallel_tool_calls"),
        (FLASH, {"extra": {"a": 1}}, "takes no extra"),
        (SONNET, {"service_tier": "flex"}, "write auto or standard_only"),
        (FLASH, {"reasoning": "off"}, "cannot stop reasoning"),
    ],
)
async def test_what_a_model_does_not_take_is_refused_before_the_call(
    model: ModelRef, settings: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words in await refused_by(model, monkeypatch, settings=ModelSettings(**settings))


async def test_a_temperature_that_the_library_would_drop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    words = await refused_by(claude("opus-4-8"), monkeypatch, temperature=0.5, top_p=0.9)
    assert words == "anthropic:claude-opus-4-8 does not take temperature; remove it"


@pytest.mark.parametrize(
    ("profile", "settings", "words"),
    [
        ({}, {"reasoning": "low"}, "does not reason"),
        ({"supports_thinking": True, "thinking_always_enabled": True}, {"reasoning": "off"}, "cannot stop reasoning"),
        ({"supports_thinking": True}, {"reasoning": 2_000}, "no number of tokens"),
        ({}, {"service_tier": "flex"}, "takes no service_tier"),
    ],
)
def test_for_other_providers_the_library_knows(profile: Any, settings: dict[str, Any], words: str) -> None:
    from pydantic_ai.models.test import TestModel as SilentModel

    client, model = SilentModel(profile=profile), ModelRef(provider="groq", model="m")
    with pytest.raises(ModelRefused, match=words):
        call_settings(client, model, request_of(settings=ModelSettings(**settings)), CallLimits())


def test_other_providers_are_asked_by_the_library() -> None:
    from pydantic_ai.models.test import TestModel as SilentModel

    client, model = SilentModel(profile={"supports_thinking": True}), ModelRef(provider="groq", model="m")
    for asked, thinking in (("off", False), ("high", "high")):
        request = request_of(settings=ModelSettings(reasoning=asked), temperature=0.0, top_p=0.5, top_k=3)
        written = call_settings(client, model, request, CallLimits())
        assert (written["thinking"], written["max_retries"]) == (thinking, 0)
        assert (written["temperature"], written["top_p"], written["top_k"]) == (0.0, 0.5, 3)
    assert not {"temperature", "top_p", "top_k"} & set(call_settings(client, model, request_of(), CallLimits()))


@shows("cache", ANTHROPIC)
@pytest.mark.parametrize(("cache", "kept"), [("on", "5m"), ("1h", "1h"), ("off", None)])
async def test_anthropic_is_asked_to_cache(cache: str, kept: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    body = await sent_to(SONNET, monkeypatch, settings=ModelSettings(cache=cache), tools=(FIND,))
    ends = [body["tools"][-1], body["system"][-1], body["messages"][-1]["content"][-1]]
    mark = {"type": "ephemeral", "ttl": kept} if kept else None
    assert [end.get("cache_control") for end in ends] == [mark] * 3


@shows("cache usage", ANTHROPIC)
async def test_anthropic_counts_by_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(input=1_000, cache_read=700, cache_write=200, output=50, reasoning=20)
    with AnthropicServer(Say(reasoning="hm", text="done", tokens=tokens)) as server:
        use(server, "anthropic", monkeypatch)
        usage = (await reply_from(SONNET, request_of(settings=ModelSettings(reasoning="low")))).usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (1_000, 700, 200)
    assert (usage.output_tokens, usage.reasoning_tokens) == (50, 20)


@shows("cache usage", GEMINI)
async def test_gemini_counts_by_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(input=1_000, cache_read=700, output=50, reasoning=20)
    with GeminiServer(Say(reasoning="hm", text="done", tokens=tokens)) as server:
        use(server, "google", monkeypatch)
        usage = (await reply_from(FLASH, request_of())).usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (1_000, 700, 0)
    assert (usage.output_tokens, usage.reasoning_tokens) == (50, 20)


@shows("implicit cache", GEMINI)
async def test_gemini_caches_without_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with GeminiServer(Say(text="one"), Say(text="two")) as server:
        use(server, "google", monkeypatch)
        for words, is_read in (("first", False), ("second", True)):
            request = request_of(system=f"{'Be kind. ' * 1_000}", settings=ModelSettings(stop=(words,)))
            usage = (await reply_from(FLASH, request)).usage
            assert (usage.cache_read_tokens > 0.9 * usage.input_tokens) == is_read
        assert "cache" not in str(server.requests).lower()
