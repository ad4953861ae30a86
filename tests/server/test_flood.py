"""Ten thousand connections at once: those beyond the bound are refused, and those within it notice nothing."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from tests.server.process import Served, serving, stream

# What Python has open besides; a system that lets a process open fewer files is flooded with as many as it lets.
OTHER_FILES = 100
HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
COUNT = 10_000 if HARD_LIMIT == resource.RLIM_INFINITY else min(10_000, HARD_LIMIT - OTHER_FILES)
BOUND = 200
# A connection within bounds costs some 10 kB, an answer that is not read some 300 kB more.
GROWTH_KB_MAX = 128 * 1024

# Connections of the one who asks stay open, however long nothing is asked.
KEPT = httpx2.Limits(keepalive_expiry=None)

TOML = f"""\
[server]
requests_per_second = 100000
connections_max = {BOUND}
header_timeout_seconds = 300
stream_send_timeout_seconds = 300
"""


@contextmanager
def flooded(server: Served) -> Iterator[dict[str, int]]:
    """While ten thousand connections are open, or were; what became of them."""
    command = [sys.executable, "-m", "tests.server.flood", str(urlsplit(server.address).port)]
    with subprocess.Popen(
        [*command, str(COUNT), str(BOUND)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as flood:
        try:
            assert flood.stdout is not None
            yield json.loads(flood.stdout.readline())
        finally:
            flood.kill()


def memory_kb(server: Served) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_ten_thousand_connections_are_refused_or_held_within_the_bound_and_leave_no_trace(tmp_path: Path) -> None:
    with serving(tmp_path, toml=TOML) as server, server.asking(limits=KEPT) as client:
        events = stream(client, "/v1/engine/events?after=0&deltas=false")
        run = client.post("/v1/runs", json={"crew": "office"}).json()["id"]
        assert next(events).data["run"] == run
        assert client.get("/healthz").status_code == 200  # by another connection, which is within bounds from now on
        before = memory_kb(server)
        with flooded(server) as became:
            assert became["held"] <= BOUND
            assert became["refused"] + became["closed"] + became["held"] == COUNT
            assert became["closed"] <= COUNT // 4  # those that closed their own half, before the bound was reached
            assert client.get("/healthz").json() == {"status": "ok"}
            assert client.get("/readyz").status_code == 200
            second = client.post("/v1/runs", json={"crew": "office"}).json()["id"]
            assert any(event.data["run"] == second for event in events)
            assert memory_kb(server) - before < GROWTH_KB_MAX
        wait_until_served(server)
        assert server.stopped() == 0


def wait_until_served(server: Served) -> None:
    """As soon as they are gone a new connection is served; until the system has told so it may be refused."""
    while True:
        with server.asking() as client:
            answer: httpx2.Response = client.get("/healthz")
        if answer.status_code == 200:
            return
        assert answer.json()["code"] == "too-many-connections"
