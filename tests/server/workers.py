"""A store with a server that drives nothing, and workers, each a process of its own.

Every call of the tool is written to a ledger beside the store: what was begun, and what was done, by its key.
"""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import ProxyHandler, build_opener

from tests.server.process import COMMAND, PATIENT, Served

CREW = """\
version: "2.0"
name: NAME
entry_point: a
agents: [{id: a, tools: [work]}, {id: b, tools: [work]}]
settings: {organization: ORGANIZATION, tool_execution_timeout_seconds: 600, tool_result_timeout_seconds: 600}
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[ASK]", type: pause}]
    b: [{signal: "[END]"}]
"""
TOOLS = '''\
import asyncio
import os
import time

from interlock import ToolContext, tool

real_ns = time.time_ns


def shifted_ns():
    """The wall clock of a machine that is set wrong as soon as the file is there."""
    shift = os.environ.get("CLOCK_SHIFT_FILE", "")
    return real_ns() + (int(open(shift).read()) * 10**9 if shift and os.path.exists(shift) else 0)


if "CLOCK_SHIFT_FILE" in os.environ:
    time.time_ns = shifted_ns
    time.time = lambda: shifted_ns() / 1e9


def write(what, key):
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, f"{what} {key} {os.getpid()} {time.monotonic_ns() // 10**6}\\n".encode())
    os.fsync(ledger)
    os.close(ledger)


released = None


async def poll():
    while os.path.exists(os.environ["LEDGER"] + ".hold"):
        await asyncio.sleep(0.01)


async def wait_until_released():
    """All calls that are held wait for one that looks: a thousand that look would keep their worker from working."""
    global released
    if os.path.exists(os.environ["LEDGER"] + ".hold"):
        if released is None or released.done():
            released = asyncio.ensure_future(poll())
        await asyncio.shield(released)


@tool(idempotent=True)
async def work(context: ToolContext) -> str:
    """Works for a moment."""
    write("begun", context.key)
    await asyncio.sleep(float(os.environ["WORK_S"]))
    await wait_until_released()
    write("done", context.key)
    return "worked"
'''
WORK = "{tool_calls: [{name: work, arguments: {}}]}"
SCRIPT = f"""\
replies:
  a: [{WORK}, {WORK}, "on\\n[NEXT]"]
  b: [{WORK}, {WORK}, "fine\\n[END]"]
"""
CALLS_PER_RUN = 4
CREW_WITH_MODEL = """\
version: "2.0"
name: NAME
entry_point: a
agents: [{id: a, model: "PROVIDER:NAME"}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""
CREW_WITH_BUDGETS = """\
version: "2.0"
name: budgets
entry_point: a
agents: [{id: a}]
settings: {max_tokens_per_day: 1000000}
routing: {signals: {a: [{signal: "[END]"}]}}
"""


class LedgerLine(NamedTuple):
    """A call that was begun, or done, by a process, at a time that all processes of the machine share."""

    kind: str
    key: str
    pid: int
    at_ms: int


class Ledger:
    """What the tool has written."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def entries(self) -> list[LedgerLine]:
        text = self._file.read_text("utf-8") if self._file.exists() else ""
        found = [line.split() for line in text.splitlines()]
        return [LedgerLine(kind, key, int(pid), int(at_ms)) for kind, key, pid, at_ms in found]

    def lines(self, what: str) -> list[tuple[str, int]]:
        return [(each.key, each.pid) for each in self.entries() if each.kind == what]

    def done(self) -> Counter[str]:
        return Counter(key for key, _ in self.lines("done"))

    def begun(self) -> Counter[str]:
        return Counter(key for key, _ in self.lines("begun"))


class Worker:
    """A worker that runs."""

    def __init__(self, process: "subprocess.Popen[str]", first_line: str) -> None:
        self.process, self.address, self.pid = process, first_line.rpartition(" ")[2], process.pid

    def get(self, path: str) -> str:
        """The body of an answer on its own address."""
        with build_opener(ProxyHandler({})).open(f"{self.address}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def stopped(self) -> int:
        """Its exit code after a signal to stop."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Cluster:
    """A folder with crews, their tool, and a store."""

    def __init__(self, folder: Path, store: str, work_s: float = 0.02) -> None:
        self.folder, self.store, self.ledger = folder, store, Ledger(folder / "ledger")
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", "LEDGER": str(folder / "ledger")}
        self._environment.update(INTERLOCK_STORE=store, WORK_S=str(work_s))
        for name in ("one", "two"):
            text = CREW.replace("NAME", name).replace("ORGANIZATION", f"org-{name}")
            (folder / f"{name}.yaml").write_text(text, "utf-8")
        (folder / "cluster_tools.py").write_text(TOOLS, "utf-8")
        (folder / "script.yaml").write_text(SCRIPT, "utf-8")
        self.configure("")

    def hold_calls(self) -> None:
        """Calls begin and do not end, until `release_calls`."""
        (self.folder / "ledger.hold").touch()

    def release_calls(self) -> None:
        (self.folder / "ledger.hold").unlink()

    def write_crew_with_budgets(self) -> None:
        """A crew of one model call, and a script with which that call takes longer than any test."""
        (self.folder / "budgets.yaml").write_text(CREW_WITH_BUDGETS, "utf-8")
        slow = 'replies:\n  a: [{text: "[END]", delay_seconds: 600}]\n'
        (self.folder / "slow.yaml").write_text(slow, "utf-8")
        (self.folder / "script.yaml").write_text('replies:\n  a: ["[END]"]\n', "utf-8")

    def write_crews_with_models(self, provider: str) -> None:
        """Crews of one call each, whose model of this provider has the name of the crew."""
        for name in ("one", "two"):
            text = CREW_WITH_MODEL.replace("NAME", name).replace("PROVIDER", provider)
            (self.folder / f"{name}.yaml").write_text(text, "utf-8")

    def configure(self, toml: str) -> None:
        (self.folder / "interlock.toml").write_text(f'{PATIENT}{toml}\n[tools]\nmodules = ["cluster_tools"]\n', "utf-8")

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command that ends by itself."""
        return subprocess.run(
            [COMMAND, *words], cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )

    @contextmanager
    def _started(self, *words: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
        with (
            (self.folder / "log").open("a", encoding="utf-8") as log,
            subprocess.Popen(
                [COMMAND, *words],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**self._environment, **environment},
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    @contextmanager
    def serving(self, *options: str) -> Iterator[Served]:
        crews = [each for each in options if each.endswith(".yaml")] or ["one.yaml", "two.yaml"]
        more = [each for each in options if each not in crews]
        words = ("serve", *crews, "--no-drive", "--no-auth", "--port", "0", *more)
        with self._started(*words) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline().rstrip() for _ in range(1 + len(crews))]
            assert lines[0].startswith("interlock serves"), (self.folder / "log").read_text("utf-8")
            yield Served(self.folder, process, lines)

    @contextmanager
    def working(self, *options: str, script: str = "script.yaml", **environment: str) -> Iterator[Worker]:
        words = ("--script", script) if script else ()
        with self._started("worker", *words, *options, **environment) as process:
            assert process.stdout is not None
            line = process.stdout.readline().rstrip()
            assert line.startswith("interlock drives runs"), (self.folder / "log").read_text("utf-8")
            yield Worker(process, line)


def start(client: Any, count: int, crew: str = "one") -> list[str]:
    answers = [client.post("/v1/runs", json={"crew": crew, "input": f"go {n}"}) for n in range(count)]
    assert {answer.status_code for answer in answers} == {201}, answers[0].text
    return [answer.json()["run"] for answer in answers]
