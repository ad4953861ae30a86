"""A model without a known price under a cost limit is a problem; a cost that is unknown is never shown as $0."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.config.extras import install_line
from interlock.adapters.config.host_file import HostSettings, read_host_file
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.models import known_models, price_table
from interlock.adapters.models.openai.providers import ProviderSettings
from interlock.cli.main import interlock
from interlock.crew.host import Host
from interlock.crew.problem import Problem, Severity
from interlock.engine.events import Usage
from interlock.ports import ModelReply
from tests.adapters.hostile_server import hostile_server, replies, said
from tests.server.office import open_office

CREW = """\
version: "{version}"
name: desk
entry_point: clerk
agents: [{{id: clerk, model: "{model}"}}]
routing: {{signals: {{clerk: [{{signal: "[DONE]"}}{more}]}}}}
settings: {{{settings}}}
"""
LIMIT = "max_cost_per_day: 1"


@pytest.fixture(autouse=True)
def _a_table_of_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is installed, and knows one model."""
    monkeypatch.setattr(known_models, "has_table", lambda: True)
    monkeypatch.setattr(known_models, "is_priced", lambda model: model.name == "openai:known")
    monkeypatch.setattr(price_table, "has_table", lambda: False)


def missing(folder: Path, text: str, host: Host | None = None) -> list[Problem]:
    (folder / "crew.yaml").write_text(text, "utf-8")
    return [problem for problem in read_crew(folder, host).problems if problem.code == "missing-price"]


def crew(model: str, settings: str = LIMIT, version: str = "2.0", more: str = "") -> str:
    return CREW.format(model=model, settings=settings, version=version, more=more)


def test_a_provider_of_the_hosts_file_needs_a_price_too(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text('[providers.office]\nurl = "https://models.example.org/v1"\n', "utf-8")
    (problem,) = missing(tmp_path, crew("office:large"), read_host_file(file))
    assert problem.severity is Severity.ERROR
    assert problem.message == "max_cost_per_day applies to 'clerk', but the price of office:large is unknown"
    assert "[providers.<id>] in interlock.toml" in problem.fix
    priced = file.read_text("utf-8") + "input_token_price_per_million = 0\n"
    file.write_text(priced, "utf-8")
    assert missing(tmp_path, crew("office:large"), read_host_file(file)) == []


def test_limits_hold_for_sub_crews_too(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    inner = crew("openai:new-one", settings="").replace("name: desk", "name: letters")
    (tmp_path / "letters" / "crew.yaml").write_text(inner, "utf-8")
    call = ", {signal: '[LETTER]', type: sub_crew, target_crew: letters}"
    text = crew("openai:known", more=call) + "sub_crews: {letters: {config_path: letters}}\n"
    (problem,) = missing(tmp_path, text)
    assert (problem.severity, problem.path) == (Severity.ERROR, "sub_crews.letters")
    assert "'clerk' of the sub-crew 'letters', but the price of openai:new-one" in problem.message
    capped = text.replace(LIMIT, "").replace(
        "config_path: letters", "config_path: letters, settings: {max_cost_per_run: 1}"
    )
    assert len(missing(tmp_path, capped)) == 1
    assert missing(tmp_path, text.replace(LIMIT, "")) == []


def test_it_is_a_warning_in_old_files_and_where_there_is_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = missing(tmp_path, crew("openai:new-one", version="1.0"))
    assert old.severity is Severity.WARNING
    monkeypatch.setattr(known_models, "has_table", lambda: False)
    (unsure,) = missing(tmp_path, crew("openai:new-one"))
    assert unsure.severity is Severity.WARNING
    assert install_line("llm") in unsure.fix


@pytest.mark.parametrize("model", ["ollama:llama3", "local:smollm2", "vllm:m", "llama.cpp:m", "openai:known"])
def test_what_runs_at_your_own_place_is_free(tmp_path: Path, model: str) -> None:
    assert missing(tmp_path, crew(model)) == []


async def played(folder: Path, model: Any, settings: str = "") -> tuple[Usage, list[dict[str, Any]]]:
    (folder / "crew.yaml").write_text(crew("house:m", settings), "utf-8")

    async with Interlock(folder / "data", models=model) as box:
        run = await box.start(load_crew(folder, host=Host(providers=("house",))), "go", run_id="r")
        told = [event async for event in box.runner.follow(run.id)]
        return (await run.result()).usage, told


def test_an_unknown_cost_is_counted_and_shown_as_unknown(tmp_path: Path) -> None:
    usage, told = asyncio.run(played(tmp_path, lambda _request: "Fine.\n[DONE]"))
    assert (usage.calls, usage.cost_micros, usage.unpriced_calls) == (1, 0, 1)
    assert told[-1]["usage"]["unpriced_calls"] == 1

    def shown(*words: str) -> str:
        return CliRunner().invoke(interlock, [*words, "--data", str(tmp_path / "data")]).stdout

    assert "unknown" in shown("runs", "list")
    assert "unknown" in shown("runs", "show", "r")
    assert "unknown" in shown("runs", "usage")
    assert json.loads(shown("runs", "usage", "--json"))["usage"]["unpriced_calls"] == 1


async def test_a_cost_that_a_model_says_is_known(tmp_path: Path) -> None:
    usage, _ = await played(tmp_path, lambda _request: ModelReply(text="Fine.\n[DONE]", usage=Usage(cost_micros=7)))
    assert (usage.cost_micros, usage.unpriced_calls) == (7, 0)


async def test_a_call_that_a_limit_cannot_count_is_warned_of_in_the_run(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(crew("house:m", LIMIT, version="1.0"), "utf-8")

    async with Interlock(tmp_path / "data", models=lambda _request: "Fine.\n[DONE]") as box:
        run = await box.start(load_crew(tmp_path, host=Host(providers=("house",))), "go")
        told = [event async for event in box.runner.follow(run.id)]
    assert [event["code"] for event in told if event["type"] == "warning"] == ["unpriced-call"]


async def test_a_server_tells_how_many_calls_have_no_price(tmp_path: Path) -> None:
    async with open_office(tmp_path) as there:
        run_id = (await there.post("/v1/runs", json={"crew": "office", "input": "hi"})).json()["id"]
        await there.service.box.runner.wait_until_settled(run_id)
        run, usage = (await there.get(f"/v1/runs/{run_id}")).json(), (await there.get("/v1/usage")).json()
    assert (run["usage"]["unpriced_calls"], usage["usage"]["unpriced_calls"]) == (1, 1)


@pytest.mark.parametrize(("prices", "expected"), [((2.0, 10.0), (92, 0)), ((0.0, 0.0), (0, 0)), ((None, None), (0, 1))])
async def test_a_provider_of_the_hosts_file_may_have_prices(
    tmp_path: Path, prices: tuple[float | None, float | None], expected: tuple[int, int]
) -> None:
    (tmp_path / "crew.yaml").write_text(crew("house:m", ""), "utf-8")
    definition = load_crew(tmp_path, host=Host(providers=("house",)))

    async with hostile_server(replies(said("Fine.\n[DONE]"))) as server:
        settings = ProviderSettings(
            url=server.url, input_token_price_per_million=prices[0], output_token_price_per_million=prices[1]
        )
        host = HostSettings(provider_settings={"house": settings})
        async with Interlock(tmp_path / "data", host=host) as box:
            usage = (await (await box.start(definition, "go")).result()).usage
    assert (usage.cost_micros, usage.unpriced_calls) == expected


@pytest.mark.parametrize(
    ("version", "settings", "prices", "is_refused"),
    [
        ("2.0", LIMIT, "", True),
        ("2.0", LIMIT, "input_token_price_per_million = 1\n", False),
        ("2.0", "", "", False),
        ("1.0", LIMIT, "", False),
    ],
)
def test_a_model_named_on_the_command_line_needs_a_price_too(
    tmp_path: Path, version: str, settings: str, prices: str, is_refused: bool
) -> None:
    (tmp_path / "crew.yaml").write_text(crew("openai:known", settings, version), "utf-8")
    config = tmp_path / "interlock.toml"
    config.write_text(f'[providers.office]\nurl = "http://127.0.0.1:9/v1"\n{prices}', "utf-8")
    words = ["run", str(tmp_path), "hi", "--model", "office:large", "--config", str(config)]
    ran = CliRunner().invoke(interlock, [*words, "--data", str(tmp_path / "data")])
    sentence = "--model 'office:large': the crew 'desk' limits its cost, but the price of this model is unknown; "
    assert (sentence in ran.stderr, ran.exit_code == 2) == (is_refused, is_refused), ran.output
