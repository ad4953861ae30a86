"""What runs have cost, as the commands tell it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock
from interlock.cli.view.columns import cost, dollars
from interlock.engine.events import Usage

CREW = """\
version: "2.0"
name: pair
entry_point: asker
agents: [{id: asker}, {id: teller}]
routing: {signals: {asker: [{signal: "[NEXT]", target: teller}], teller: [{signal: "[END]"}]}}
"""
SCRIPT = """\
replies:
  asker: [{text: "why?\\n[NEXT]", usage: {input_tokens: 1200, cache_read_tokens: 900, output_tokens: 30, cost: 0.25}}]
  teller: [{text: "so.\\n[END]", usage: {input_tokens: 1300, output_tokens: 4}}]
"""


@pytest.fixture
def run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("crew.yaml").write_text(CREW)
    Path("script.yaml").write_text(SCRIPT)
    return str(json.loads(said("run", "crew.yaml", "go", "--script", "script.yaml", "--json").splitlines()[0])["run"])


def said(*words: str) -> str:
    result = CliRunner().invoke(interlock, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_show_ends_with_what_each_agent_has_cost(run_id: str) -> None:
    assert said("runs", "show", run_id).splitlines()[-4:] == [
        "agent   calls  tokens in  cached  tokens out     cost",
        "asker       1      1,200     75%          30  $0.2500",
        "teller      1      1,300       -           4        -",
        "all         2      2,500     36%          34  $0.2500",
    ]
    told = json.loads(said("runs", "show", run_id, "--json"))
    assert told["usage_by_agent"]["teller"] == {
        "calls": 1,
        "input_tokens": 1300,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 4,
        "reasoning_tokens": 0,
        "cost_micros": 0,
        "unpriced_calls": 0,
    }


def test_list_says_what_each_run_has_cost(run_id: str) -> None:
    assert said("runs", "list").split()[3:6] == ["completed", "$0.2500", "pair"]


def test_usage_is_told_by_crew_and_agent(run_id: str) -> None:
    assert said("runs", "usage").splitlines() == [
        "crew  agent   runs  calls  tokens in  cached  tokens out     cost    saved",
        "pair             1      2      2,500     36%          34  $0.2500  unknown",
        "      asker             1      1,200     75%          30  $0.2500  unknown",
        "      teller            1      1,300       -           4        -        -",
    ]
    whole = json.loads(said("runs", "usage", "--json"))
    assert (whole["runs"], whole["crews"][0]["agents"]["asker"]["cost_micros"]) == (1, 250_000)
    assert whole["savings"] == whole["crews"][0]["savings"] == {"saved_micros": 0, "unknown_calls": 1}


def test_what_caching_saved_is_told_at_the_prices_of_the_time(run_id: str) -> None:
    prices = "input_token_price_per_million: 10, cache_read_token_price_per_million: 1, "
    limits = f"cost_limits: {{{prices}cache_write_token_price_per_million: 20}}"
    Path("crew.yaml").write_text(
        CREW.replace("name: pair", "name: priced").replace(
            "{id: asker}, {id: teller}", f"{{id: asker, {limits}}}, {{id: teller, {limits}}}"
        )
    )
    usage = "input_tokens: 1000, cache_read_tokens: 900", "input_tokens: 1000, cache_write_tokens: 100"
    replies = [f"[{{text: '[{mark}]', usage: {{{used}}}}}]" for mark, used in zip(("NEXT", "END"), usage, strict=True)]
    Path("script.yaml").write_text(f"replies: {{asker: {replies[0]}, teller: {replies[1]}}}")
    said("run", "crew.yaml", "go", "--script", "script.yaml", "--json")
    assert said("runs", "usage", "--crew", "priced").splitlines()[1:] == [
        "priced             1      2      2,000     45%           0  $0.0129   $0.0071",
        "        teller            1      1,000       -           0  $0.0110  -$0.0010",
        "        asker             1      1,000     90%           0  $0.0019   $0.0081",
    ]
    found = json.loads(said("runs", "usage", "--crew", "priced", "--json"))["crews"][0]["savings_by_agent"]
    assert found["asker"] == {"saved_micros": 8_100, "unknown_calls": 0}


def test_several_crews_have_a_sum(run_id: str) -> None:
    Path("crew.yaml").write_text(CREW.replace("name: pair", "name: couple"))
    said("run", "crew.yaml", "go", "--script", "script.yaml", "--json")
    assert [line.split()[0] for line in said("runs", "usage").splitlines()] == [
        *("crew", "couple", "asker", "teller", "pair", "asker", "teller", "all")
    ]
    assert said("runs", "usage").splitlines()[-1].split() == [
        "all",
        "2",
        "4",
        "5,000",
        "36%",
        "68",
        "$0.5000",
        "unknown",
    ]


def test_a_run_as_a_script_keeps_the_tokens_by_bucket(run_id: str) -> None:
    Path("again.yaml").write_text(said("runs", "script", run_id))
    assert "cache_read_tokens: 900" in Path("again.yaml").read_text()
    again = json.loads(said("run", "crew.yaml", "go", "--script", "again.yaml", "--json").splitlines()[-1])
    assert again["usage"] == json.loads(said("runs", "show", run_id, "--json"))["usage"]


def test_only_some_runs_are_asked_about(run_id: str) -> None:
    assert said("runs", "usage", "--crew", "nobody") == "no matching runs\n"
    assert said("runs", "usage", "--days", "0") == "no matching runs\n"
    assert "pair" in said("runs", "usage", "--days", "1")


def test_money_has_as_many_digits_as_somebody_reads() -> None:
    assert (dollars(1), dollars(99_999_999), dollars(1_234_567_890)) == ("$0.0000", "$100.0000", "$1,234.57")
    assert (cost(Usage()), cost(Usage(cost_micros=50))) == ("-", "$0.0001")
