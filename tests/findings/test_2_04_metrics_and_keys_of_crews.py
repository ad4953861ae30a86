"""Prometheus gets what an operator needs, with bounded labels; a key may be limited to crews and scopes."""

import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from interlock import __version__
from interlock.adapters.config.server_settings import ServerKey, ServerSettings, read_server_settings
from interlock.cli.main import interlock
from interlock.engine.events import ToolRequest, Usage
from interlock.errors import ModelUnavailable, UsageError
from interlock.ports import ModelReply, ModelRequest
from interlock.server.metrics import VALUES_MAX, Metrics, reason_group
from tests.server.office import CREW, Office, open_office, parrot

DESK = CREW.replace("name: office", "name: desk")
BOTH = {"crew": CREW, "desk": DESK}


def _key(name: str, *scopes: str, crews: tuple[str, ...] | None = None) -> tuple[dict[str, str], ServerKey]:
    text = f"ilk_{name * 43}"[:47]
    return {"authorization": f"Bearer {text}"}, ServerKey(
        sha256=sha256(text.encode()).hexdigest(), scopes=scopes, crews=crews
    )


DESK_ONLY, DESK_KEY = _key("d", "read", "run", "answer", crews=("desk",))
SCRAPER, SCRAPER_KEY = _key("m", "metrics")
ANSWERER, ANSWERER_KEY = _key("a", "answer")
KEYS = ServerSettings(keys={"desk": DESK_KEY, "scraper": SCRAPER_KEY, "answerer": ANSWERER_KEY})


def _samples(text: str) -> dict[str, float]:
    """Every sample; each must have its HELP and TYPE before it."""
    found, known = {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP"):
            known.add(line.split()[2])
            assert len(line.split()) > 3, line
        elif line.startswith("# TYPE"):
            assert line.split()[2] in known, line
        else:
            name, value = line.rsplit(" ", 1)
            family = re.sub(r"_(bucket|sum|count)$", "", name.partition("{")[0])
            assert family in known or name.partition("{")[0] in known, line
            found[name] = float(value)
    return found


async def test_runs_calls_tokens_and_questions_are_counted(tmp_path: Path) -> None:
    async def model(request: ModelRequest) -> ModelReply:
        usage = Usage(input_tokens=100, output_tokens=7, unpriced_calls=1)
        return ModelReply(text=await parrot(request), usage=usage)

    async with open_office(tmp_path, model=model) as asking:
        await asking.finished("hello")
        await asking.finished("wait [WAIT]")
        found = _samples((await asking.get("/metrics")).text)
    assert found['interlock_runs_total{crew="office",status="completed",reason="signal"}'] == 1
    assert found['interlock_runs_paused_total{crew="office",reason="signal"}'] == 1
    assert found['interlock_runs_in_store{crew="office",status="paused"}'] == 1
    assert found['interlock_model_calls_total{crew="office",model="unknown",outcome="ok"}'] == 2
    assert found['interlock_model_tokens_total{crew="office",model="unknown",direction="input"}'] == 200
    assert found['interlock_model_tokens_total{crew="office",model="unknown",direction="output"}'] == 14
    assert found['interlock_model_unpriced_calls_total{crew="office",model="unknown"}'] >= 0
    assert found['interlock_model_call_seconds_count{crew="office",model="unknown"}'] == 2
    assert (found["interlock_questions_open"], found["interlock_question_oldest_seconds"] >= 0) == (1, True)
    assert found[f'interlock_build_info{{version="{__version__}"}}'] == 1
    assert found["interlock_database_bytes"] > 0
    for name in ("schedules", "schedules_failed", "schedule_next_timestamp_seconds", "webhook_letters_waiting"):
        assert found[f"interlock_{name}"] == 0
    for name in ("webhook_letters_dead", "broadcasts_dead", "event_loop_lag_seconds", "runs_under_way"):
        assert f"interlock_{name}" in found


async def test_failures_retries_and_tools_are_counted(tmp_path: Path) -> None:
    crew = CREW.replace("id: clerk,", "id: clerk, tools: [signal_subscribe],")
    asked = 0

    async def model(request: ModelRequest) -> ModelReply:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ModelUnavailable("overloaded")
        calls = (ToolRequest(id="t1", name="signal_subscribe", arguments='{"pattern": "a:b"}'),) if asked == 2 else ()
        return ModelReply(text="" if calls else "Fine. [DONE]", tool_calls=calls)

    async with open_office(tmp_path, model=model, crews={"crew": crew}) as asking:
        assert (await asking.finished())["status"] == "completed"
        found = _samples((await asking.get("/metrics")).text)
    assert found['interlock_model_calls_total{crew="office",model="unknown",outcome="failed"}'] == 1
    assert found['interlock_model_retries_total{crew="office",model="unknown"}'] == 1
    assert found['interlock_tool_calls_total{tool="signal_subscribe",outcome="ok"}'] == 1


async def test_a_run_that_is_cancelled_while_it_waits_counts_for_its_crew(tmp_path: Path) -> None:
    async with open_office(tmp_path) as asking:
        run = (await asking.finished("wait [WAIT]"))["id"]
        await asking.post(f"/v1/runs/{run}/cancel", json={})
        await asking.box.runner.wait_until_settled(run)
        found = _samples((await asking.get("/metrics")).text)
    assert found['interlock_runs_total{crew="office",status="cancelled",reason="cancelled"}'] == 1


def test_labels_cannot_explode_or_break_a_line() -> None:
    metrics = Metrics()
    counter = metrics.counter("things_total", "Things.", "name")
    for n in range(10 * VALUES_MAX):
        counter.add(f'n{n}"}}\n evil 1')
    lines = [line for line in metrics.text(()).splitlines() if line.startswith("interlock_things_total")]
    assert len(lines) == VALUES_MAX + 1
    assert lines[-1] == f'interlock_things_total{{name="other"}} {9 * VALUES_MAX}'
    assert [reason_group(each) for each in ("signal:[X]", "model_error", "Ä: b")] == ["signal", "model_error", "other"]


async def test_metrics_have_a_scope_and_may_be_open(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=KEYS) as asking:
        assert (await asking.get("/metrics", headers=SCRAPER)).status_code == 200
        assert (await asking.get("/metrics")).status_code == 200  # read
        assert (await asking.get("/v1/runs", headers=SCRAPER)).status_code == 403
        assert (await asking.get("/metrics", headers=ANSWERER)).status_code == 403
        assert (await asking.get("/metrics", headers=DESK_ONLY)).status_code == 403
        del asking.headers["authorization"]
        assert (await asking.get("/metrics")).status_code == 401
    async with open_office(tmp_path, settings=ServerSettings(metrics_open=True)) as asking:
        del asking.headers["authorization"]
        assert (await asking.get("/metrics", headers={"host": "10.0.0.7:8321"})).status_code == 200
        assert (await asking.get("/v1/runs", headers={"host": "10.0.0.7:8321"})).status_code == 403


async def test_who_may_answer_may_list_questions(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=KEYS) as asking:
        await asking.finished("wait [WAIT]")
        listed = await asking.get("/v1/questions", headers=ANSWERER)
        assert [each["agent"] for each in listed.json()["questions"]] == ["clerk"]
        assert (await asking.get("/v1/runs", headers=ANSWERER)).status_code == 403


@asynccontextmanager
async def _both(folder: Path) -> AsyncIterator[tuple[Office, str, str]]:
    """A server of two crews with a paused run of each."""
    async with open_office(folder, settings=KEYS, crews=BOTH) as asking:
        other = (await asking.finished("wait [WAIT]"))["id"]
        own = (await asking.post("/v1/runs", json={"crew": "desk", "input": "wait [WAIT]"}, headers=DESK_ONLY)).json()
        await asking.box.runner.wait_until_settled(own["id"])
        asking.headers.update(DESK_ONLY)
        yield asking, own["id"], other


async def test_a_key_of_a_crew_sees_only_that_crew(tmp_path: Path) -> None:
    async with _both(tmp_path) as (asking, own, other):
        assert [run["id"] for run in (await asking.get("/v1/runs")).json()["runs"]] == [own]
        assert (await asking.get("/v1/runs?crew=office")).json()["runs"] == []
        assert [each["run"] for each in (await asking.get("/v1/questions")).json()["questions"]] == [own]
        assert [crew["name"] for crew in (await asking.get("/v1/crews")).json()["crews"]] == ["desk"]
        assert (await asking.get("/v1/session")).json()["crews"] == ["desk"]
        assert (await asking.get("/v1/usage")).json()["runs"] == 1
        for path in ("", "/events", "/explain"):
            assert (await asking.get(f"/v1/runs/{own}{path}")).status_code == 200
            assert (await asking.get(f"/v1/runs/{other}{path}")).json()["code"] == "run-not-found"
        for path in ("", "/graph", "/problems"):
            assert (await asking.get(f"/v1/crews/office{path}")).json()["code"] == "crew-not-served"


async def test_a_key_of_a_crew_moves_only_runs_of_that_crew(tmp_path: Path) -> None:
    async with _both(tmp_path) as (asking, own, other):
        question = (await asking.box.questions())[0]
        assert question.run == other
        refused: list[tuple[str, dict[str, Any]]] = [
            ("/v1/runs", {"crew": "office", "input": "x"}),
            ("/v1/runs", {"crew": "desk", "input": "x", "continue": other}),
            (f"/v1/runs/{other}/resume", {"token": question.token, "input": "x"}),
            (f"/v1/runs/{other}/cancel", {}),
            (f"/v1/runs/{other}/fork", {"after": 1}),
            (f"/v1/runs/{other}/messages", {"type": "X", "to": "clerk", "body": {}}),
            (f"/v1/questions/{question.id}/answer", {"answer": "x"}),
            ("/v1/schedules", {"crew": "office", "input": "x", "every_ms": 3_600_000}),
        ]
        for path, body in refused:
            answer = await asking.post(path, json=body)
            assert answer.status_code == 404, (path, answer.text)
        assert (await asking.post("/v1/engine/signals", json={"type": "a:b"})).status_code == 403
        assert (await asking.get("/v1/engine/signals/events")).status_code == 403
        assert (await asking.post(f"/v1/runs/{own}/cancel", json={})).status_code == 200
        assert (await asking.box.journal.row(other)).status == "paused"


async def test_the_stream_of_everything_shows_a_key_of_a_crew_only_that_crew(tmp_path: Path) -> None:
    async with _both(tmp_path) as (asking, own, other):
        told = await asking.events("/v1/engine/events?after=0&follow=false")
        events = [msgspec.json.decode(each["data"]) for each in told]
        runs = {event["run"] for event in events if "run" in event}
        assert runs == {own} and other not in runs
        assert len(events) > 3


async def test_schedules_of_other_crews_are_not_there(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=KEYS, crews=BOTH) as asking:
        order = {"input": "x", "every_ms": 3_600_000}
        other = (await asking.post("/v1/schedules", json={"crew": "office", **order})).json()["id"]
        own = (await asking.post("/v1/schedules", json={"crew": "desk", **order}, headers=DESK_ONLY)).json()["id"]
        listed = (await asking.get("/v1/schedules", headers=DESK_ONLY)).json()["schedules"]
        assert [each["id"] for each in listed] == [own]
        assert (await asking.post(f"/v1/schedules/{other}/pause", json={}, headers=DESK_ONLY)).status_code == 404
        assert (await asking.delete(f"/v1/schedules/{other}", headers=DESK_ONLY)).status_code == 404
        assert (await asking.delete(f"/v1/schedules/{own}", headers=DESK_ONLY)).status_code == 204


def test_an_empty_list_of_crews_is_refused() -> None:
    key = {"sha256": "0" * 64, "scopes": ["read"], "crews": []}
    with pytest.raises(UsageError, match=r"server\.keys\.desk\.crews is empty"):
        read_server_settings(Path("interlock.toml"), {"keys": {"desk": key}})


def test_a_key_of_a_crew_is_made_by_the_command() -> None:
    made = CliRunner().invoke(interlock, ["key", "desk", "--scope", "run", "--crew", "desk", "--crew", 'the "other"'])
    written = tomllib.loads(made.output.partition("for interlock.toml:")[2])
    (key,) = read_server_settings(Path("interlock.toml"), written["server"]).keys.values()
    assert (key.scopes, key.crews) == (("run",), ("desk", 'the "other"'))


def test_a_key_without_its_sum_is_told_by_name() -> None:
    with pytest.raises(UsageError, match="server: the key 'sha256' is missing"):
        read_server_settings(Path("interlock.toml"), {"keys": {"desk": {"scopes": ["read"]}}})


async def test_the_cost_of_a_priced_model_is_counted_by_crew_and_model(tmp_path: Path) -> None:
    prices = "cost_limits: {input_token_price_per_million: 0.5, output_token_price_per_million: 2}"
    crew = CREW.replace("id: clerk,", f'id: clerk, model: "openai:gpt-4o", {prices},')

    async def model(request: ModelRequest) -> ModelReply:
        usage = Usage(
            input_tokens=1_000, cache_read_tokens=800, cache_write_tokens=100, output_tokens=500, reasoning_tokens=300
        )
        return ModelReply(text=await parrot(request), usage=usage)

    async with open_office(tmp_path, model=model, crews={"crew": crew}) as asking:
        await asking.finished()
        found = _samples((await asking.get("/metrics")).text)
        told = (await asking.get("/v1/usage")).json()
    # Without prices of a cache its tokens cost as others, and it saved nothing.
    assert told["savings"] == told["crews"][0]["agents"][0]["savings"] == {"saved_micros": 0, "unknown_calls": 0}
    assert told["usage"]["cache_read_tokens"] == told["times"][0]["usage"]["cache_read_tokens"] == 800
    assert found['interlock_model_tokens_total{crew="office",model="openai:gpt-4o",direction="input"}'] == 1_000
    assert found['interlock_model_cached_tokens_total{crew="office",model="openai:gpt-4o",kind="read"}'] == 800
    assert found['interlock_model_cached_tokens_total{crew="office",model="openai:gpt-4o",kind="write"}'] == 100
    assert found['interlock_model_reasoning_tokens_total{crew="office",model="openai:gpt-4o"}'] == 300
    assert found['interlock_model_cost_dollars_total{crew="office",model="openai:gpt-4o"}'] == 0.0015
    assert found['interlock_model_unpriced_calls_total{crew="office",model="openai:gpt-4o"}'] == 0
    assert found['interlock_model_call_seconds_count{crew="office",model="openai:gpt-4o"}'] == 1
