"""Which settings each provider takes: what is not taken is a problem of `check`, at its line."""

from pathlib import Path
from typing import Any

import pytest

from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.models.model_features import FEATURES, RESPONSES_FEATURES, faults_in_settings
from interlock.adapters.models.openai.endpoint import CHAT, RESPONSES
from interlock.crew.definition import ModelRef, ModelSettings
from interlock.crew.host import PROVIDERS, Host, ProviderFacts
from interlock.crew.problem import Problem
from tests.fakes.dialects.features import DEEPSEEK, OPENAI_CHAT, OPENAI_RESPONSES, REFUSED, shows

CREW = """\
version: "2.0"
name: desk
entry_point: clerk
agents:
  - id: clerk
    model: {model}
    is_terminal: true
    {line}
"""
BY_RESPONSES = Host(providers=("openai",), provider_facts={"openai": ProviderFacts(api=RESPONSES)})


def problems(folder: Path, model: str, line: str, host: Host | None = None) -> list[Problem]:
    (folder / "crew.yaml").write_text(CREW.format(model=model, line=line), "utf-8")
    found = read_crew(folder, host).problems
    return [problem for problem in found if problem.code == "unsupported-setting"]


def refused(folder: Path, model: str, line: str, host: Host | None = None) -> None:
    (problem,) = problems(folder, model, line, host)
    assert (problem.line, problem.severity) == (8, "error")
    assert problem.fix and problem.path.startswith(f"agents[0].{line.partition(':')[0]}")


def test_every_provider_has_a_row() -> None:
    assert set(FEATURES) == set(PROVIDERS) - {"scripted"}


@pytest.mark.parametrize("provider", FEATURES)
def test_what_the_table_names_is_taken_and_nothing_else(provider: str) -> None:
    row = FEATURES[provider]
    model = ModelRef(provider=provider, model="gpt-5.1")
    values: dict[str, Any] = {
        "max_tokens": 9, "seed": 0, "stop": ("x",), "parallel_tool_calls": False, "service_tier": "flex",
        "extra": {"own": 1},
    }  # fmt: skip
    for key, value in values.items():
        faults = list(faults_in_settings(model, ModelSettings(**{key: value}), CHAT))
        # OpenAI's model here reasons, and takes no stop.
        assert bool(faults) == (key not in row.keys or (provider, key) == ("openai", "stop"))
    for word in ("off", "low", "medium", "high", 2_000):
        faults = list(faults_in_settings(model, ModelSettings(reasoning=word), CHAT))
        name = word if isinstance(word, str) else "a number of tokens"
        assert bool(faults) == (name not in row.reasoning)
    for cache in ("on", "off", "1h"):
        assert bool(list(faults_in_settings(model, ModelSettings(cache=cache), CHAT))) == (cache not in row.cache)


@shows("cache", OPENAI_CHAT, by=REFUSED)
@pytest.mark.parametrize("line", ["cache: 1h", "cache: off", "reasoning: 2000", "reasoning: off", 'stop: ["x"]'])
def test_chat_completions_do_not_take_it(tmp_path: Path, line: str) -> None:
    refused(tmp_path, "openai:gpt-5", line)


@shows("cache", OPENAI_RESPONSES, by=REFUSED)
@shows("seed", OPENAI_RESPONSES, by=REFUSED)
@shows("stop", OPENAI_RESPONSES, by=REFUSED)
@pytest.mark.parametrize("line", ["cache: 1h", "seed: 7", 'stop: ["x"]', "reasoning: 2000"])
def test_responses_do_not_take_it(tmp_path: Path, line: str) -> None:
    refused(tmp_path, "openai:gpt-5.1", line, BY_RESPONSES)
    if "stop" not in line and "seed" not in line:
        return
    refused(tmp_path, "openai:gpt-5-pro", line)


@shows("cache", DEEPSEEK, by=REFUSED)
@shows("seed", DEEPSEEK, by=REFUSED)
@shows("parallel_tool_calls", DEEPSEEK, by=REFUSED)
@shows("service_tier", DEEPSEEK, by=REFUSED)
@pytest.mark.parametrize("line", ["cache: off", "seed: 7", "parallel_tool_calls: true", "service_tier: flex"])
def test_deepseek_does_not_take_it(tmp_path: Path, line: str) -> None:
    refused(tmp_path, "deepseek:deepseek-v4-pro", line)


@pytest.mark.parametrize(
    "line",
    ["reasoning: high", "max_tokens: 9", "seed: 7", "service_tier: flex", "extra: {verbosity: low}", "cache: on"],
)
def test_what_is_taken_is_no_problem(tmp_path: Path, line: str) -> None:
    assert problems(tmp_path, "openai:gpt-5", line) == []
    assert problems(tmp_path, "openai-compatible:m", line) == []


@pytest.mark.parametrize(
    ("extra", "path"),
    [
        ("{model: x}", "model"),
        ("{messages: []}", "messages"),
        ("{stream: false}", "stream"),
        ("{tools: []}", "tools"),
        ("{response_format: {}}", "response_format"),
        ("{n: 2}", "n"),
        ("{max_completion_tokens: 5}", "max_completion_tokens"),
        ("{temperature: 1}", "temperature"),
        ("{reasoning: {effort: low}}", "reasoning.effort"),
        ("{reasoning: low}", "reasoning"),
    ],
)
def test_extra_cannot_replace_what_interlock_sets(tmp_path: Path, extra: str, path: str) -> None:
    (problem,) = problems(tmp_path, "openai:gpt-5", f"extra: {extra}")
    assert (problem.path, problem.line) == (f"agents[0].extra.{path}", 8)


def test_extra_may_have_what_the_provider_has_and_no_key_of_an_agent_sets(tmp_path: Path) -> None:
    assert problems(tmp_path, "deepseek:deepseek-v4-pro", "extra: {parallel_tool_calls: true, user_id: u}") == []
    assert problems(tmp_path, "openrouter:z/m", "extra: {reasoning: {exclude: true}, provider: {sort: price}}") == []
    assert problems(tmp_path, "openai:gpt-5", "extra: {text: {verbosity: low}}", BY_RESPONSES) == []
    # GLM and Kimi stop reasoning by it; Interlock sets it for DeepSeek only.
    assert problems(tmp_path, "vllm:glm", "extra: {thinking: {type: disabled}}") == []
    assert problems(tmp_path, "deepseek:deepseek-v4-pro", "extra: {thinking: {type: disabled}}") != []
    assert problems(tmp_path, "openai:gpt-5", "extra: {store: true}", BY_RESPONSES) != []


def test_the_backup_takes_the_settings_too(tmp_path: Path) -> None:
    line = 'backup: {model: "deepseek:deepseek-v4-pro"}\n    seed: 7'
    (problem,) = problems(tmp_path, "openai:gpt-5", line)
    assert (problem.line, "deepseek does not take seed" in problem.message) == (9, True)


@pytest.mark.parametrize(
    ("model", "line", "host", "count"),
    [
        ("openai:gpt-5.5", "tools: [memory_read]", None, 1),
        ("openai:gpt-5.5", "tools: [memory_read]", BY_RESPONSES, 0),
        ("openai:gpt-5.5", "reasoning: off\n    tools: [memory_read]", None, 0),
        ("openai:gpt-5.5", "reasoning: low", None, 0),
        ("openai:gpt-5.4", "tools: [memory_read]", None, 0),
        ("openai:gpt-5.4", "reasoning: low\n    tools: [memory_read]", None, 1),
        ("openai:gpt-5", "reasoning: low\n    tools: [memory_read]", None, 0),
        ("openai-compatible:gpt-5.5", "tools: [memory_read]", None, 0),
    ],
)
def test_models_that_take_no_tools_while_they_reason(
    tmp_path: Path, model: str, line: str, host: Host | None, count: int
) -> None:
    found = problems(tmp_path, model, line, host)
    assert len(found) == count
    assert all('api = "responses"' in problem.fix for problem in found)


def test_a_script_takes_everything(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("replies: {clerk: [hi]}", "utf-8")
    assert problems(tmp_path, "scripted:s.yaml", "service_tier: flex") == []


def test_the_table_of_responses_has_no_seed_and_no_stop() -> None:
    assert not {"seed", "stop"} & set(RESPONSES_FEATURES.keys)
