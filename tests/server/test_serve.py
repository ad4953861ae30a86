"""`interlock serve` as people start and stop it: real processes, real sockets, real signals."""

import asyncio
import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock
from tests.server.office import Sse
from tests.server.process import COMMAND, PLAIN, Served, read_events, serving, stream

WAITING = """\
replies:
  clerk: ["Which colour? [WAIT]", "Blue it is. [DONE]"]
"""
SLOW = """\
replies:
  clerk: [{text: "Over to you. [NEXT]", delay_seconds: 1}, {text: "Again. [NEXT]", delay_seconds: 1}]
  boss: [{text: "Once more. [RETRY]", delay_seconds: 1}, {text: "Enough. [DONE]", delay_seconds: 1}]
"""
# No run of it ends, however long a busy machine takes until it is told to stop.
STUCK = SLOW.replace('"Again. [NEXT]", delay_seconds: 1', '"Again. [NEXT]", delay_seconds: 600')
ENDLESS = "replies: {clerk: [{text: 'never [DONE]', delay_seconds: 600}]}\n"


def started(client: httpx2.Client, text: str = "hello") -> str:
    answer = client.post("/v1/runs", json={"crew": "office", "input": text})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_the_page_gets_in_by_the_printed_address_starts_a_run_answers_it_and_sees_it_end(tmp_path: Path) -> None:
    with serving(tmp_path, "--print-code", script=WAITING) as server:
        origin = {"origin": server.address}
        with httpx2.Client(base_url=server.address, headers=origin, **PLAIN) as page:
            assert page.get("/").headers["content-type"].startswith("text/html")
            assert page.get("/v1/runs").status_code == 401
            assert page.post("/v1/session", json={"code": server.code}).status_code == 200
            events = stream(page, "/v1/engine/events?after=0")
            run = started(page)
            seen = [next(event.data for event in events if event.data["type"] == "run.paused")]
            (question,) = page.get("/v1/questions").json()["questions"]
            assert (question["run"], question["question"]) == (run, "Which colour?")
            assert page.post(f"/v1/questions/{question['id']}/answer", json={"answer": "blue"}).status_code == 200
            seen.append(next(event.data for event in events if event.data["type"] == "run.finished"))
            assert [event["run"] for event in seen] == [run, run]
        assert server.stopped() == 0
        assert {json.loads(line)["level"] for line in server.log.splitlines()} == {"info"}


def test_a_second_server_of_a_folder_is_told_who_serves_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        command = [COMMAND, "serve", "crew.yaml", "--data", "data", "--port", "0"]
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert f"data folder is served by pid {server.process.pid}" in second.stderr
        assert server.stopped() == 0
    with serving(tmp_path) as server:
        assert server.stopped() == 0


def test_sigterm_takes_nothing_in_waits_for_calls_stores_them_and_lets_streams_go(tmp_path: Path) -> None:
    with serving(tmp_path, script=SLOW) as server, server.asking() as client, server.asking() as other:
        assert other.get("/readyz").status_code == 200
        run = started(client)
        events = stream(client, f"/v1/runs/{run}/events")
        seen = [event for event, _ in zip(events, range(3), strict=False)]
        assert seen[-1].data["type"] == "model.called"
        server.tell(signal.SIGTERM)
        while other.get("/readyz").status_code == 200:  # the signal is on its way
            pass
        refused = other.post("/v1/runs", json={"crew": "office"})
        assert (refused.status_code, refused.json()["code"]) == (503, "draining")
        assert int(refused.headers["retry-after"]) > 0
        assert other.get("/healthz").status_code == 200
        seen += list(events)
        assert seen[-1].data["reason"] == "draining"
        assert int(seen[-1]["retry"]) > 0
        assert seen[-2].data["type"] == "model.called"  # the call in progress came back, and the next one waits
        assert server.process.wait(60) == 0
    with serving(tmp_path, script=SLOW) as server, server.asking() as client:
        rest = list(stream(client, f"/v1/runs/{run}/events", seen[-2]["id"]))
        whole = journal([*seen, *rest])
        assert whole == [(run, seq) for seq in range(1, len(whole) + 1)]
        assert rest[-2].data["type"] == "run.finished"
        replied = [event.data["call"] for event in [*seen, *rest] if event.data.get("type") == "model.replied"]
        assert len(replied) == len(set(replied)) == 4


def journal(events: list[Sse]) -> list[tuple[str, int]]:
    return [(event.data["run"], event.data["seq"]) for event in events if "seq" in event.data]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_twice_it_ends_at_once_and_the_run_goes_on_later(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, script=ENDLESS) as server, server.asking() as client:
        run = started(client)
        server.tell(number)
        while client.get("/readyz").status_code == 200:
            pass
        server.tell(number)
        assert server.process.wait(60) == 128 + number
    with serving(tmp_path) as server, server.asking() as client:
        *_, last, closed = stream(client, f"/v1/runs/{run}/events")
        assert (last.data["type"], last.data["status"]) == ("run.finished", "completed")
        assert closed.data["reason"] == "run-over"


def test_calls_that_take_longer_than_the_drain_are_given_up_and_the_exit_code_is_0(tmp_path: Path) -> None:
    toml = "[server]\ndrain_timeout_seconds = 0.05\n"
    with serving(tmp_path, script=ENDLESS, toml=toml) as server, server.asking() as client:
        run = started(client)
        assert server.stopped() == 0
        assert "the next process makes them again" in server.log
    with serving(tmp_path) as server, server.asking() as client:
        assert list(stream(client, f"/v1/runs/{run}/events"))[-2].data["status"] == "completed"


class Following:
    """Reads one run to its end, whatever happens to the server meanwhile."""

    def __init__(self, run: str) -> None:
        self.run, self.seen = run, list[Sse]()

    @property
    def has_ended(self) -> bool:
        return bool(self.seen) and self.seen[-1].data.get("reason") == "run-over"

    async def read(self, client: httpx2.AsyncClient) -> None:
        """As long as this server lets it."""
        last = next((event["id"] for event in reversed(self.seen) if "id" in event), "")
        headers = {"accept": "text/event-stream", **({"last-event-id": last} if last else {})}
        path = f"/v1/runs/{self.run}/events?deltas=false"
        with suppress(httpx2.TransportError):
            async with client.stream("GET", path, headers=headers) as answer:
                async for event in read_events(answer):
                    self.seen.append(event)

    @property
    def journal(self) -> list[tuple[str, int]]:
        return journal(self.seen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restart_in_the_middle_of_100_runs_loses_nothing_and_every_reader_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    toml = "[server]\nrequests_per_second = 100000\nstreams_per_key_max = 200\ndrain_timeout_seconds = 2\n"
    following: list[Following] = []

    with serving(tmp_path, script=STUCK, toml=toml) as server:
        async with server.asking_async() as client:
            starting = [client.post("/v1/runs", json={"crew": "office"}) for _ in range(100)]
            following.extend(Following(answer.json()["id"]) for answer in await asyncio.gather(*starting))
            reading = [asyncio.ensure_future(each.read(client)) for each in following]
            while sum(len(each.seen) for each in following) < 400:
                await asyncio.sleep(0)
            server.tell(number)
            await asyncio.gather(*reading)
            code = server.process.wait(60)
        assert code == (0 if number == signal.SIGTERM else -number)
        assert not any(each.has_ended for each in following)
    with serving(tmp_path, script=SLOW, toml=toml) as server, server.asking() as client:
        await all_read(server, following)
        for each in following:
            assert each.journal == [(each.run, seq) for seq in range(1, len(each.journal) + 1)]
            assert [e.data["status"] for e in each.seen if e.data.get("type") == "run.finished"] == ["completed"]
            page = client.get(f"/v1/runs/{each.run}/events", params={"limit": 1000}).json()["events"]
            assert [event.data for event in each.seen if "seq" in event.data] == page
        assert len(client.get("/v1/runs", params={"limit": 1000}).json()["runs"]) == 100
        assert server.stopped() == 0


async def all_read(server: Served, following: list[Following]) -> None:
    async with server.asking_async() as client:
        await asyncio.gather(*(each.read(client) for each in following))


def test_without_keys_only_on_the_loopback_and_said_aloud(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-auth") as server:
        assert "authentication is off; anyone who can reach this address has full access" in server.lines[1]
        with httpx2.Client(base_url=server.address, **PLAIN) as anybody:
            assert anybody.get("/v1/runs").status_code == 200
            assert anybody.get("/v1/runs", headers={"host": "evil.example"}).status_code == 403
        assert not (tmp_path / "data" / "server.key").exists()
    refused = CliRunner().invoke(interlock, ["serve", str(tmp_path / "crew.yaml"), "--no-auth", "--host", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "only on the loopback" in refused.output


def test_the_key_is_the_owners_alone_stays_over_a_restart_and_is_nowhere_else(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.asking() as client:
        key = server.key
        started(client, "hello")
        client.get("/v1/runs", headers={"idempotency-key": "x"})
        client.get(f"/{key}")
        assert (tmp_path / "data" / "server.key").stat().st_mode & 0o777 == 0o600
        assert server.stopped() == 0
    with serving(tmp_path) as server:
        assert server.key == key
    held = [file.name for file in sorted(tmp_path.rglob("*")) if file.is_file() and key.encode() in file.read_bytes()]
    assert held == ["server.key"]


@pytest.mark.parametrize(("mode", "text"), [(0o644, None), (0o600, ""), (0o600, "short\n")])
def test_a_key_file_that_is_open_to_others_or_holds_no_key_is_refused(
    tmp_path: Path, mode: int, text: str | None
) -> None:
    with serving(tmp_path) as server:
        key = server.key
    file = tmp_path / "data" / "server.key"
    file.write_text(key if text is None else text, "ascii")
    file.chmod(mode)
    command = ["serve", str(tmp_path / "crew.yaml"), "--data", str(tmp_path / "data"), "--port", "0"]
    refused = subprocess.run([COMMAND, *command], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "server.key" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        port = server.address.rpartition(":")[2]
        command = [COMMAND, "serve", "crew.yaml", "--data", "other", "--port", port]
        refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in refused.stderr


def test_a_crew_with_problems_is_shown_and_does_not_run(tmp_path: Path) -> None:
    tmp_path.joinpath("broken.yaml").write_text(
        'version: "2.0"\nname: broken\nentry_point: a\nagents: [{id: a}]\n'
        'routing: {signals: {a: [{signal: "[NEXT]", target: b}]}}\n',
        "utf-8",
    )
    with serving(tmp_path, "broken.yaml") as server, server.asking() as client:
        crews = {crew["name"]: crew["sound"] for crew in client.get("/v1/crews").json()["crews"]}
        assert crews == {"office": True, "broken": False}
        problems: dict[str, Any] = client.get("/v1/crews/broken/problems").json()
        assert not problems["ok"]
        assert "unknown-target" in {problem["code"] for problem in problems["problems"]}
        assert client.post("/v1/runs", json={"crew": "broken"}).json()["code"] == "unsound-crew"
        assert "unknown-target" in server.log


def test_a_key_is_made_with_what_belongs_into_the_file(tmp_path: Path) -> None:
    made = CliRunner().invoke(interlock, ["key", "ci", "--scope", "read", "--scope", "run"])
    assert made.exit_code == 0
    head, _, toml = made.output.partition("for interlock.toml:\n")
    key = head.strip().rpartition(" ")[2]
    with serving(tmp_path, toml=toml) as server, server.asking(headers={"authorization": f"Bearer {key}"}) as client:
        assert client.get("/v1/session").json() == {"id": "key:ci", "scopes": ["read", "run"]}
        assert key not in toml


def test_a_crew_that_nobody_answers_for_is_said_aloud(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("[]", "utf-8")
    words = ["serve", "examples/travel", str(tmp_path / "none.yaml"), "--data", str(tmp_path / "data")]
    told = CliRunner().invoke(interlock, words)
    assert told.exit_code == 2
    assert "no run of crew 'travel' can start: no model is set for 'planner', 'flights'" in told.stderr
    with_script = CliRunner().invoke(interlock, [*words, "--script", "examples/travel/script.yaml"])
    assert "fix the errors above" in with_script.stderr
    assert "no model answers" not in with_script.stderr
