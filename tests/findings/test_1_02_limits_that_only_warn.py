"""`enforce: false` and `block_on_…: false` only warn; a budget that stops a run says which, whose and how large."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock
from tests.server.office import open_office

# An agent file as the original program's own examples have it.
OLD_AGENT = """\
id: helper
name: Helper
role: Support
model: llama3
provider: ollama
system_prompt: "Help the person with the computer, step by step, and be kind about it."
is_terminal: true
cost_limits:
  max_tokens_per_call: 5
  max_tokens_per_day: 10
  max_cost_per_day_usd: 0.000001
  alert_threshold: 0.5
  {switch}
error_limits: {{max_consecutive: 3, max_per_day: 9, enforce: false}}
memory_limits: {{max_per_call_mb: 100, enforce: false}}
"""
SCRIPT = "replies: {helper: [{text: 'Turn it off and on.', usage: {input_tokens: 40, output_tokens: 9}}]}\n"


def old_crew(folder: Path, switch: str) -> Path:
    (folder / "agents").mkdir()
    (folder / "agents" / "helper.yaml").write_text(OLD_AGENT.format(switch=switch), "utf-8")
    (folder / "crew.yaml").write_text('version: "1.0"\nname: it\nentry_point: helper\nagents: [helper]\n', "utf-8")
    (folder / "script.yaml").write_text(SCRIPT, "utf-8")
    return folder


def invoked(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(interlock, [*words, "--data", str(folder / "data")])


def run(folder: Path, *more: str) -> Result:
    return invoked(folder, "run", str(folder), "Help", "--script", str(folder / "script.yaml"), *more)


def events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("switch", ["enforce: false", "block_on_cost_exceed: false"])
def test_an_agent_whose_limits_only_warn_gets_past_its_first_call(tmp_path: Path, switch: str) -> None:
    told = events(run(old_crew(tmp_path, switch), "--json"))
    assert (told[-1]["type"], told[-1]["status"]) == ("run.finished", "completed")
    warned = [event["message"] for event in told if event.get("code") == "budget-exceeded"]
    assert any("max_tokens_per_call of agent 'helper' is 5 tokens" in message for message in warned)
    assert any("max_tokens_per_day of helper" in message for message in warned)


def test_a_limit_that_is_enforced_stops_the_run_and_says_which_it_is_and_how_large(tmp_path: Path) -> None:
    result = run(old_crew(tmp_path, "enforce: true"), "--json")
    told = events(result)
    (reached,) = [event for event in told if event["type"] == "limit.reached"]
    assert (reached["limit"], reached["most"]) == ("max_tokens_per_day of helper", 10) or (
        reached["limit"],
        reached["most"],
    ) == ("max_tokens_per_call", 5)
    assert told[-1]["reason"] == "budget:tokens"
    assert told[-1]["detail"] == reached["message"]
    assert f"{reached['call']:,} tokens" in reached["message"]
    assert "agent 'helper'" in reached["message"]


STRICT = """\
version: "2.0"
name: desk
entry_point: clerk
agents: [{{id: clerk, system_prompt: "Serve the customer.", cost_limits: {{input_token_price_per_million: 100}}}}]
routing: {{signals: {{clerk: [{{signal: "[DONE]"}}]}}}}
settings: {{{settings}}}
"""


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ("max_tokens_per_call: 3", "is 3 tokens"),
        ("max_cost_per_call: 0.0001", "is $0.0001"),
    ],
)
def test_every_door_says_the_sentence(tmp_path: Path, settings: str, size: str) -> None:
    file = tmp_path / "crew.yaml"
    file.write_text(STRICT.format(settings=settings), "utf-8")
    (tmp_path / "script.yaml").write_text("replies: {clerk: ['Fine.\\n[DONE]']}\n", "utf-8")
    ran = invoked(tmp_path, "run", str(file), "Hello", "--script", str(tmp_path / "script.yaml"), "--plain")
    name = settings.partition(":")[0]
    sentence = f"{name} of crew 'desk' {size}; this call of agent 'clerk' needs about "
    assert sentence in ran.stdout
    shown = ran.stdout.split()[ran.stdout.split().index("run") + 1]
    assert sentence in invoked(tmp_path, "runs", "show", shown).stdout
    assert sentence in invoked(tmp_path, "runs", "explain", shown).stdout

    async def asked() -> dict[str, Any]:
        crews = {"crew": STRICT.format(settings=settings)}
        async with open_office(tmp_path / "served", crews=crews) as there:
            started = await there.post("/v1/runs", json={"crew": "desk", "input": "Hello"})
            run_id = started.json()["id"]
            await there.service.box.runner.wait_until_settled(run_id)
            return dict((await there.get(f"/v1/runs/{run_id}")).json())

    (tmp_path / "served").mkdir()
    detail = asyncio.run(asked())
    assert detail["status"] == "stopped"
    assert sentence in detail["detail"]


def test_a_limit_of_the_day_says_what_is_used_of_it(tmp_path: Path) -> None:
    file = tmp_path / "crew.yaml"
    file.write_text(STRICT.format(settings="max_calls_per_day: 1"), "utf-8")
    (tmp_path / "script.yaml").write_text("replies: {clerk: ['Fine.\\n[DONE]']}\n", "utf-8")
    words = ("run", str(file), "Hello", "--script", str(tmp_path / "script.yaml"), "--plain")
    assert invoked(tmp_path, *words).exit_code == 0
    sentence = "max_calls_per_day of crew 'desk' is 1 call; used: 1 call; this call of agent 'clerk' needs 1 call"
    assert sentence in invoked(tmp_path, *words).stdout


OUTER = """\
version: "2.0"
name: outer
entry_point: x
agents: [{{id: x}}]
sub_crews: {{s: {{config_path: inner}}}}
routing:
  signals: {{x: [{{signal: "[CALL]", type: sub_crew, target_crew: s, on_error: fail}}, {{signal: "[DONE]"}}]}}
settings: {{{settings}}}
"""
INNER = """\
version: "2.0"
name: inner
entry_point: y
agents: [{{id: y}}]
routing: {{signals: {{y: [{{signal: "[NEXT]", target: y}}, {{signal: "[DONE]"}}]}}}}
settings: {{{settings}}}
"""


@pytest.mark.parametrize(
    ("outer", "inner", "reason", "limit"),
    [
        (
            "max_calls_per_run: 3",
            "",
            "budget:calls",
            "max_calls_per_run of crew 'outer' is 3 calls, 2 calls of it",
        ),
        ("", "max_calls_per_run: 2", "child_failed", "max_calls_per_run of crew 'inner' is 2 calls; used: 2 calls"),
        ("max_calls_per_day: 3", "", "budget:calls", "max_calls_per_day of crew 'outer' is 3 calls; used: 3 calls"),
        ("", "max_calls_per_day: 2", "child_failed", "max_calls_per_day of crew 'inner' is 2 calls; used: 2 calls"),
    ],
)
def test_a_limit_that_a_sub_crew_reaches_names_its_owner_and_its_own_size(
    tmp_path: Path, outer: str, inner: str, reason: str, limit: str
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "crew.yaml").write_text(OUTER.format(settings=outer), "utf-8")
    (tmp_path / "inner" / "crew.yaml").write_text(INNER.format(settings=inner), "utf-8")
    script = "replies: {x: ['a [CALL]'], y: ['1 [NEXT]', '2 [NEXT]', '3 [NEXT]']}\n"
    (tmp_path / "script.yaml").write_text(script, "utf-8")
    told = [each for each in events(run(tmp_path, "--json")) if each["type"] in ("limit.reached", "run.finished")]
    assert (told[-1]["run"], told[-1]["reason"]) == (told[0]["run"].partition("~")[0], reason)
    assert [each.get("message") or each["detail"] for each in told] == [told[0]["message"]] * len(told)
    assert told[0]["message"].startswith(limit) and told[0]["message"].endswith("; this call of agent 'y' needs 1 call")
    assert told[0]["message"] in invoked(tmp_path, "runs", "show", told[-1]["run"]).stdout
