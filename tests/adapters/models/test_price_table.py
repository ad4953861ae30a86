"""The bundled table of prices: read without a network, asked only about providers it is sure of."""

import socket
from pathlib import Path

import pytest

from interlock.adapters.config.extras import install_line
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.models import price_table
from interlock.adapters.models.price_table import is_priced, table_cost
from interlock.crew.definition import ModelRef
from interlock.crew.problem import Severity
from interlock.engine.events import Usage

CLAUDE = ModelRef(provider="anthropic", model="claude-sonnet-4-5")

CREW = """\
version: "VERSION"
name: talk
entry_point: a
agents:
  - {id: a, model: "MODEL", is_terminal: true, cost_limits: {LIMITS}}
settings: {SETTINGS}
"""


def test_prices_need_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("a price was asked for outside")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert table_cost(CLAUDE, Usage(input_tokens=1_000, output_tokens=1_000)) == 18_000
    assert table_cost(CLAUDE, Usage(input_tokens=1)) == 3


def test_a_prompt_that_is_99_percent_cached_costs_a_ninth() -> None:
    """The figures of the issue: $0.1251 in the journal before, $0.0137 by the table."""
    gpt = ModelRef(provider="openai", model="gpt-5")
    call = Usage(input_tokens=100_000, output_tokens=10)
    assert table_cost(gpt, call) == 125_100
    assert table_cost(gpt, call + Usage(cache_read_tokens=99_000)) == 13_725


@pytest.mark.parametrize(
    ("used", "cached_for_1h", "micros"),
    [
        (Usage(input_tokens=1_000), False, 3_000),
        (Usage(input_tokens=1_000, cache_read_tokens=1_000), False, 300),
        (Usage(input_tokens=1_000, cache_write_tokens=1_000), False, 3_750),
        (Usage(input_tokens=1_000, cache_write_tokens=1_000), True, 6_000),
        (Usage(input_tokens=1_000, cache_read_tokens=600, cache_write_tokens=300), True, 180 + 1_800 + 300),
        (Usage(input_tokens=10, cache_read_tokens=1_000), False, 300),  # counts that contradict each other
        (Usage(output_tokens=1_000, reasoning_tokens=900), False, 15_000),
    ],
)
def test_each_bucket_has_its_price(used: Usage, cached_for_1h: bool, micros: int) -> None:
    assert table_cost(CLAUDE, used, cached_for_1h=cached_for_1h) == micros


def test_a_model_without_prices_for_its_cache_costs_as_without_one() -> None:
    grok = ModelRef(provider="xai", model="grok-4")
    written = Usage(input_tokens=1_000, cache_write_tokens=1_000)
    assert table_cost(grok, written) == table_cost(grok, Usage(input_tokens=1_000)) == 3_000


@pytest.mark.parametrize(
    "model",
    [
        ModelRef(provider="anthropic", model="nobody-knows-it"),
        ModelRef(provider="openai-compatible", model="gpt-4o"),
        ModelRef(provider="my-openai", model="gpt-4o"),
        ModelRef(provider="openai", model="gpt-4o", provider_url="https://proxy.example/v1"),
        ModelRef(provider="ollama", model="llama3"),
    ],
)
def test_what_only_resembles_something_has_no_price(model: ModelRef) -> None:
    assert not is_priced(model)
    assert is_priced(ModelRef(provider="openai", model="gpt-4o"))


def found(
    folder: Path, model: str, *, settings: str = "", limits: str = "", version: str = "2.0"
) -> list[tuple[str, Severity]]:
    text = CREW.replace("MODEL", model).replace("SETTINGS", settings).replace("LIMITS", limits)
    (folder / "crew.yaml").write_text(text.replace("VERSION", version), "utf-8")
    return [(problem.code, problem.severity) for problem in read_crew(folder).problems]


@pytest.mark.parametrize(
    ("settings", "limits"), [("max_cost_per_run: 1", ""), ("max_cost_per_hour: 1", ""), ("", "max_cost_per_day_usd: 1")]
)
def test_a_cost_budget_without_a_price_is_a_problem(tmp_path: Path, settings: str, limits: str) -> None:
    budget = {"settings": settings, "limits": limits}
    assert found(tmp_path, "openai:nobody-knows-it", **budget) == [("missing-price", Severity.ERROR)]
    assert found(tmp_path, "openai:gpt-4o", **budget) == []
    assert found(tmp_path, "scripted:replies.yaml", **budget) != [("missing-price", Severity.ERROR)]


def test_prices_of_the_agent_come_first_and_0_is_one(tmp_path: Path) -> None:
    prices = "input_token_price_per_million: 0"
    assert found(tmp_path, "ollama:llama3", settings="max_cost_per_run: 1", limits=prices) == []
    assert found(tmp_path, "ollama:llama3", settings="max_tokens_per_run: 1") == []


def test_without_a_table_nobody_can_be_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_table, "is_installed", lambda _module: False)
    monkeypatch.setattr("interlock.adapters.models.known_models.has_table", lambda: False)
    assert found(tmp_path, "openai:gpt-4o", settings="max_cost_per_run: 1") == [("missing-price", Severity.WARNING)]
    assert install_line("llm") in read_crew(tmp_path).problems[0].fix


def test_a_client_that_is_not_installed_is_a_warning_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.adapters.models.pydantic_ai.other_providers.is_installed", lambda _module: False)
    assert found(tmp_path, "anthropic:claude-sonnet-4-5") == [("missing-package", Severity.WARNING)]
    assert read_crew(tmp_path).problems[0].fix == f"install it with: {install_line('llm')}"
    assert found(tmp_path, "openai:gpt-4o") == []
