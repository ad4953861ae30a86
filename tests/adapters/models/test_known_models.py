"""`check` tells what a model of Anthropic or Google does not take, with its place and what to do."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock
from tests.fakes.dialects.features import ANTHROPIC, GEMINI, REFUSED, shows

CREW = """\
version: "2.0"
name: desk
entry_point: clerk
agents: [{{id: clerk, model: "{model}", {keys}}}]
routing: {{signals: {{clerk: [{{signal: "[DONE]"}}]}}}}
settings: {{signal_mode: {mode}}}
"""


def problems(folder: Path, model: str, keys: str, mode: str = "text") -> list[str]:
    (folder / "crew.yaml").write_text(CREW.format(model=model, keys=keys, mode=mode), "utf-8")
    words = ["check", str(folder), "--json", "--config", str(folder / "interlock.toml")]
    found = json.loads(CliRunner().invoke(interlock, words).stdout)["problems"]
    codes = ("unsupported-setting", "not-constrained")
    return [f"{each['message']}; {each['fix']}" for each in found if each["code"] in codes]


@pytest.fixture(autouse=True)
def _toml(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_text("", "utf-8")


@shows("seed", ANTHROPIC, by=REFUSED)
def test_anthropic_takes_no_seed(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "anthropic:claude-sonnet-4-6", "seed: 3")
    assert "anthropic does not take seed; remove it" in found


@shows("cache", GEMINI, by=REFUSED)
@shows("parallel_tool_calls", GEMINI, by=REFUSED)
@shows("extra", GEMINI, by=REFUSED)
@pytest.mark.parametrize("provider", ["gemini", "google"])
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("cache: 1h", "cache is 1h, but {} decides itself what it caches"),
        ("cache: off", "cache is off, but {} decides itself what it caches"),
        ("parallel_tool_calls: false", "{} does not take parallel_tool_calls"),
        ("extra: {a: 1}", "{} does not take extra"),
    ],
)
def test_gemini_takes_less(tmp_path: Path, provider: str, keys: str, words: str) -> None:
    (found,) = problems(tmp_path, f"{provider}:gemini-3-flash", keys)
    assert words.format(provider) in found


@pytest.mark.parametrize(
    ("model", "keys", "words"),
    [
        ("anthropic:claude-haiku-4-5", "reasoning: 4000, max_tokens: 2000", "where a reply has at most 2000"),
        ("anthropic:claude-sonnet-4-6", "reasoning: high, temperature: 0.2", "temperature 0.2 while it reasons"),
        ("anthropic:claude-sonnet-4-6", "extra: {messages: []}", "extra has messages, which Interlock sets itself"),
        ("anthropic:claude-sonnet-4-6", "extra: {thinking: {}}", "use the key 'reasoning'"),
        ("anthropic:claude-opus-4-8", "temperature: 0.2", "does not take temperature; remove it"),
        ("anthropic:claude-opus-5-5", "reasoning: off", "cannot stop reasoning; write low or medium or high"),
        ("google:gemini-3-pro-preview", "reasoning: medium", "has no reasoning 'medium'; write low or high"),
    ],
)
def test_the_limits_of_a_model_are_told_before_a_run(tmp_path: Path, model: str, keys: str, words: str) -> None:
    (found,) = problems(tmp_path, model, keys)
    assert words in found


def test_what_a_model_takes_is_no_problem(tmp_path: Path) -> None:
    keys = "reasoning: low, cache: 1h, max_tokens: 900, stop: [END], parallel_tool_calls: false, service_tier: auto"
    assert problems(tmp_path, "anthropic:claude-sonnet-4-6", keys) == []
    keys = "reasoning: low, max_tokens: 900, stop: [END], seed: 4, service_tier: flex"
    assert problems(tmp_path, "google:gemini-3-flash", keys) == []


def test_a_model_that_can_be_held_to_its_marks_is_no_problem(tmp_path: Path) -> None:
    for model in ("anthropic:claude-sonnet-4-6", "google:gemini-3-flash"):
        assert problems(tmp_path, model, "tools: [memory_read]", "constrained") == []
    assert problems(tmp_path, "google:gemini-2.5-flash", "tools: []", "constrained") == []
    (found,) = problems(tmp_path, "google:gemini-2.5-flash", "tools: [memory_read]", "constrained")
    assert "cannot call tools in a constrained reply" in found


def test_two_models_of_one_provider_may_differ(tmp_path: Path) -> None:
    keys = "tools: [], backup: {provider: anthropic, model: claude-opus-4-0}"
    (found,) = problems(tmp_path, "anthropic:claude-sonnet-4-6", keys, "constrained")
    assert "anthropic:claude-opus-4-0 is not known to constrain" in found
