"""Workers and a server that drives nothing, as real processes on one store."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.migrate import migrate
from tests.postgres import Cluster as Postgres
from tests.postgres import shared_schemas
from tests.server.busy_provider import busy_provider
from tests.server.process import PLAIN, Served, stream
from tests.server.workers import CALLS_PER_RUN, Cluster, start

# The clock of a server is known to the process within this.
CLOCKS_DIFFER_S = 0.5


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "sqlite":
        yield Cluster(tmp_path, f"sqlite:{tmp_path / 'data'}")
        return
    with shared_schemas().borrow() as url:
        yield Cluster(tmp_path, url)


def asking(served: Served) -> httpx2.Client:
    return httpx2.Client(base_url=served.address, **PLAIN)


def events(client: httpx2.Client) -> Iterator[dict[str, Any]]:
    """All events of the store, from its first one."""
    for event in stream(client, "/v1/engine/events", last="0"):
        yield json.loads(event["data"])


def finished(seen: Iterator[dict[str, Any]], runs: set[str]) -> list[str]:
    """The runs in the order in which they finished, once all of them have."""
    order: list[str] = []
    for event in seen:
        if event["type"] == "run.finished" and event["run"] in runs:
            assert event["status"] == "completed", event
            order.append(event["run"])
            if set(order) == runs:
                return order
    raise AssertionError(f"the stream ended with {order}")


def stored_calls(client: httpx2.Client, runs: set[str]) -> set[str]:
    """The keys of the calls whose outcome is stored."""
    pages = {run: client.get(f"/v1/runs/{run}/events", params={"limit": 1000}).json()["events"] for run in runs}
    return {
        f"{run}:{each['call']}" for run, found in pages.items() for each in found if each["type"] == "tool.returned"
    }


def test_workers_drive_what_a_server_creates_and_one_that_is_killed_is_replaced(cluster: Cluster) -> None:
    """A call whose outcome is stored is not made again; one that was in progress may be."""
    with cluster.serving() as served, asking(served) as client, cluster.working() as first:
        runs = set(start(client, 10))
        seen = events(client)
        while next(seen)["type"] != "tool.returned":
            pass
        # From here to the snapshot no call ends: what the second worker makes again has no outcome in it.
        cluster.hold_calls()
        held = set(start(client, 20))
        runs |= held
        while held:
            event = next(seen)
            held -= {event["run"]} if event["type"] == "tool.called" else set()
        with cluster.working() as second:
            first.process.kill()
            first.process.wait(60)
            stored = stored_calls(client, runs)
            cluster.release_calls()
            finished(events(client), runs)
            assert '"status":"ok"' in second.get("/healthz")
            assert "interlock_runs_under_way 0" in second.get("/metrics")
    done, begun = cluster.ledger.done(), cluster.ledger.begun()
    assert set(begun) == set(done) and len(done) == CALLS_PER_RUN * len(runs)
    assert {key: count for key, count in begun.items() if count > 1 and key in stored} == {}
    pids = Counter(pid for _, pid in cluster.ledger.lines("done"))
    assert set(pids) == {first.process.pid, second.process.pid}
    of_first = {key for key, pid in cluster.ledger.lines("begun") if pid == first.process.pid}
    assert {key for key, count in begun.items() if count > 1} <= of_first


def test_a_worker_that_is_stopped_hands_its_runs_over_and_no_call_is_made_twice(cluster: Cluster) -> None:
    with cluster.serving() as served, asking(served) as client, cluster.working() as first:
        runs = set(start(client, 20))
        seen = events(client)
        while next(seen)["type"] != "tool.returned":
            pass
        with cluster.working():
            assert first.stopped() == 0
            finished(events(client), runs)
    assert cluster.ledger.begun() == cluster.ledger.done() == Counter(dict.fromkeys(cluster.ledger.done(), 1))
    assert len(cluster.ledger.done()) == CALLS_PER_RUN * len(runs)


@pytest.mark.parametrize("cluster", ["postgres"], indirect=True)
def test_a_worker_that_was_stopped_for_longer_than_its_lease_ends_itself(cluster: Cluster) -> None:
    """On a data folder a process that is stopped keeps its lock, and so its runs."""
    with cluster.serving() as served, asking(served) as client, cluster.working() as first:
        runs = set(start(client, 10))
        seen = events(client)
        while next(seen)["type"] != "tool.returned":
            pass
        first.process.send_signal(signal.SIGSTOP)
        stored = stored_calls(client, runs)
        with cluster.working():
            finished(events(client), runs)
            first.process.send_signal(signal.SIGCONT)
            assert first.process.wait(60) == 3
        assert {client.get(f"/v1/runs/{run}").json()["status"] for run in runs} == {"completed"}
    assert {key: count for key, count in cluster.ledger.begun().items() if count > 1 and key in stored} == {}
    assert len(cluster.ledger.done()) == CALLS_PER_RUN * len(runs)


def test_two_organizations_share_a_worker(cluster: Cluster) -> None:
    """Runs of one organization wait behind many of another for no longer than their share asks."""
    with cluster.serving() as served, asking(served) as client:
        many, few = start(client, 12, "one"), start(client, 3, "two")
        with cluster.working("--runs-max", "2"):
            order = finished(events(client), {*many, *few})
    assert max(order.index(run) for run in few) <= 8


def test_a_worker_claims_only_what_it_is_told_to(cluster: Cluster) -> None:
    with cluster.serving() as served, asking(served) as client:
        (mine,), (other,) = start(client, 1, "one"), start(client, 1, "two")
        with cluster.working("one.yaml", "--only-crews"):
            finished(events(client), {mine})
        with cluster.working("--only-organizations", "org-one"):
            (mine,) = start(client, 1, "one")
            finished(events(client), {mine})
        assert client.get(f"/v1/runs/{other}").json()["status"] == "running"
    assert not [key for key in cluster.ledger.begun() if key.startswith(other)]


def test_a_full_queue_is_answered_with_429_and_when_to_come_back(cluster: Cluster) -> None:
    cluster.configure("[limits]\nqueued_runs = 2")
    with cluster.serving() as served, asking(served) as client:
        runs = set(start(client, 2, "one"))
        refused = client.post("/v1/runs", json={"crew": "one", "input": "go"})
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-queued")
        assert int(refused.headers["retry-after"]) > 0
        runs.update(start(client, 1, "two"))
        detached = cluster.command("run", "one.yaml", "go", "--detach")
        assert (detached.returncode, "2 runs of organization 'org-one' wait" in detached.stderr) == (1, True)
        with cluster.working():
            finished(events(client), runs)
        runs = set(start(client, 1, "one"))


def test_answers_and_cancels_reach_runs_by_a_server_that_drives_nothing(cluster: Cluster) -> None:
    (cluster.folder / "script.yaml").write_text(
        "replies: {a: ['which?\\n[ASK]', 'on\\n[NEXT]'], b: ['fine\\n[END]']}\n", "utf-8"
    )
    with cluster.serving() as served, asking(served) as client, cluster.working():
        run, other = start(client, 2)
        seen = events(client)
        paused: set[str] = set()
        while paused != {run, other}:
            event = next(seen)
            if event["type"] == "run.paused":
                paused.add(event["run"])
        token = client.get(f"/v1/runs/{run}").json()["token"]
        answer = client.post(f"/v1/runs/{run}/resume", json={"token": token, "input": "this one"})
        assert answer.status_code == 200, answer.text
        finished(events(client), {run})
        again = client.post(f"/v1/runs/{run}/resume", json={"token": token, "input": "another"})
        assert (again.status_code, again.json()["code"]) == (409, "already-resumed")
        cancelled = client.post(f"/v1/runs/{other}/cancel")
        assert cancelled.status_code == 200, cancelled.text
        assert cancelled.json()["status"] == "cancelled"


def test_a_private_run_is_left_to_the_command_that_began_it(cluster: Cluster) -> None:
    """A run with --script or --model would be continued by other models."""
    (cluster.folder / "slow.yaml").write_text('replies: {a: [{text: "on", delay_seconds: 3600}]}\n', "utf-8")
    with cluster.serving() as served, asking(served) as client, cluster.working():
        with cluster._started("run", "one.yaml", "go", "--script", "slow.yaml", "--json") as process:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            process.kill()
            process.wait(60)
        (shared,) = start(client, 1)
        finished(events(client), {shared})
        assert client.get(f"/v1/runs/{first['run']}").json()["status"] == "running"
        status = json.loads(cluster.command("store", "status", "--json").stdout)
        while len(status["processes"]) > 2:  # on PostgreSQL a process that was killed is found dead after 1.5 s
            status = json.loads(cluster.command("store", "status", "--json").stdout)
        assert (status["waiting"], sorted(each["is_worker"] for each in status["processes"])) == (0, [False, True])
        assert status["private_undriven"] == [first["run"]]


def test_calls_that_were_lost_with_a_killed_worker_count_in_budgets_and_handed_over_ones_do_not(
    cluster: Cluster,
) -> None:
    """A worker is killed while it calls models, the next one is stopped between calls, a third one finishes."""
    cluster.write_crew_with_budgets()
    with cluster.serving("budgets.yaml") as served, asking(served) as client:
        with cluster.working(script="slow.yaml") as first:
            runs = set(start(client, 3, "budgets"))
            called, seen = set(runs), events(client)
            while called:
                event = next(seen)
                called -= {event["run"]} if event["type"] == "model.called" else set()
            first.process.kill()
            first.process.wait(60)
        with cluster.working() as second:
            assert second.stopped() == 0
        with cluster.working():
            finished(events(client), runs)
        for run in runs:
            stored = client.get(f"/v1/runs/{run}/events", params={"limit": 1000}).json()["events"]
            (lost,) = [each for each in stored if each["type"] == "model.lost"]
            (reserved,) = [each for each in stored if each["type"] == "budget.reserved"]
            assert lost["usage"]["input_tokens"] == reserved["tokens"] > 0
            assert client.get(f"/v1/runs/{run}").json()["usage"]["calls"] == 2
    explained = cluster.command("runs", "explain", run).stdout
    assert "a call of a was lost with its process and is made again" in explained


def test_a_worker_waits_for_a_provider_that_told_another_worker_to_wait(cluster: Cluster) -> None:
    with busy_provider(wait_s=10) as provider:
        cluster.configure(f'[providers.busy]\nurl = "{provider.url}"\n')
        cluster.write_crews_with_models("busy")
        with (
            cluster.serving() as served,
            asking(served) as client,
            cluster.working("one.yaml", "--only-crews", script=""),
        ):
            runs, seen = start(client, 1, "one"), events(client)
            while next(seen)["type"] != "model.failed":
                pass
            with cluster.working("two.yaml", "--only-crews", script=""):
                runs += start(client, 1, "two")
                finished(events(client), set(runs))
    (arrived_s,) = [at_s for model, at_s in provider.calls if model == "two"]
    assert arrived_s > provider.wait_s - CLOCKS_DIFFER_S


def read_whole(client: httpx2.Client, path: str, count: int | None, last: str = "0") -> list[tuple[str, str]]:
    """Ids and data of the events of a stream: so many, or all of them to its end."""
    found = []
    for event in stream(client, path, last):
        if "event" not in event:  # the reason of the end
            found.append((event["id"], event["data"]))
        if len(found) == count:
            break
    return found


def test_a_stream_continues_at_another_server_with_exactly_the_rest(tmp_path: Path) -> None:
    with shared_schemas().borrow() as url:
        cluster = Cluster(tmp_path, url)
        with cluster.serving() as one, cluster.serving() as two, asking(one) as first, asking(two) as second:
            with cluster.working():
                runs = start(first, 2) + start(second, 1)
                path = f"/v1/runs/{runs[0]}/events"
                cluster.hold_calls()
                seen = read_whole(first, path, 3)
                cluster.release_calls()
                seen += read_whole(second, path, None, seen[-1][0])  # the run continues meanwhile
                assert set(finished(events(second), set(runs))) == set(runs)
            assert seen == read_whole(first, path, None) == read_whole(second, path, None)
            assert len({each for each, _ in seen}) == len(seen) > 10
            everything = "/v1/engine/events"
            count = sum(len(read_whole(first, f"/v1/runs/{run}/events", None)) for run in runs)
            whole = read_whole(first, everything, count)
            assert read_whole(second, everything, count) == whole and {*seen} < {*whole}
            for n, (last, _) in enumerate(whole[:-1]):
                rest = whole[n + 1 :]
                assert read_whole((first, second)[n % 2], everything, len(rest), last) == rest
            for n, (last, _) in enumerate(seen[:-1]):
                assert read_whole((second, first)[n % 2], path, None, last) == seen[n + 1 :]


def test_a_server_that_drives_nothing_needs_no_models_and_warns_of_none(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, f"sqlite:{tmp_path / 'data'}")
    with cluster.serving(), cluster.working():
        assert "no model is set" not in (tmp_path / "log").read_text("utf-8")


def test_a_client_is_not_shown_where_a_store_is_that_is_away(tmp_path: Path) -> None:
    postgres = Postgres()
    try:
        migrate(PostgresAddress(postgres.url("kept")))
        cluster = Cluster(tmp_path, postgres.url("kept"))
        with cluster.serving() as served, asking(served) as client:
            postgres.stop()
            answer = client.get("/v1/runs")
            assert (answer.status_code, answer.json()["code"]) == (503, "store-failed"), answer.text
            assert str(postgres.folder) not in answer.text and "data folder" not in answer.text
            assert str(postgres.folder) in (tmp_path / "log").read_text("utf-8")
    finally:
        postgres.end()
