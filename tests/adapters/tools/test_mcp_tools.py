"""Tools of real MCP servers, over standard input and output and over HTTP on this machine."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.adapters.config.mcp_settings import McpServer
from interlock.adapters.tools.mcp_tools import McpToolbox
from interlock.errors import ToolFailed, UsageError
from interlock.ports import ToolCall

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

SERVER = str(Path(__file__).parents[1] / "mcp_tool_server.py")
KEY = "sesame-4711"
DEADLINE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the servers of a test write down."""
    file = tmp_path / "notes"
    file.write_text("", "utf-8")
    monkeypatch.setenv("NOTES", str(file))
    monkeypatch.setenv("API_TOKEN", "token-0815")
    return file


def stdio(**changes: Any) -> McpServer:
    return msgspec.structs.replace(McpServer(command=(sys.executable, SERVER), env=("NOTES",)), **changes)


@asynccontextmanager
async def toolbox(servers: dict[str, McpServer], taken: tuple[str, ...] = ()) -> AsyncIterator[McpToolbox]:
    box = McpToolbox(servers, taken)
    try:
        yield box
    finally:
        await box.close()


async def failure(box: McpToolbox, tool: str, arguments: str = "{}") -> str:
    with pytest.raises(ToolFailed) as failed:
        await box.run(ToolCall(name=tool, arguments=arguments, key="k"))
    return str(failed.value)


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen within {DEADLINE_SECONDS:g} s"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_one_process_serves_every_call_and_ends_with_the_toolbox(tmp_path: Path) -> None:
    seen: list[str] = []

    async with toolbox({"s": stdio(cwd=str(tmp_path))}) as box:
        await asyncio.gather(box.ensure_started(["mcp:s/say", "mcp:s/whoami"]), box.ensure_started(["mcp:s/whoami"]))
        assert [schema.name for schema in box.schemas(["mcp:s/say", "look_up"])] == ["s_say"]
        (say,) = box.schemas(["mcp:s/say"])
        assert (say.description, list(say.parameters["properties"])) == ("Says words.", ["words"])
        assert await box.run(ToolCall(name="s_say", arguments='{"words": "xin chào"}', key="k")) == "xin chào"
        seen.extend(await asyncio.gather(*(box.run(ToolCall(name="s_whoami", key="k")) for _ in range(5))))
        assert "there is no tool 's_refuse'" in await failure(box, "s_refuse")
    assert len(set(seen)) == 1
    pid, token, folder = seen[0].split()
    assert (token, folder) == ("none", str(tmp_path))
    assert not lives(int(pid))


async def test_what_fails_is_told_and_the_server_goes_on() -> None:
    async with toolbox({"s": stdio()}) as box:
        await box.ensure_started(["mcp:s"])
        assert "refuse" in await failure(box, "s_refuse")
        assert "words" in await failure(box, "s_say", '{"word": 1}')
        assert "wrong arguments for 's_say'" in await failure(box, "s_say", "[1]")
        assert "wrong arguments for 's_say'" in await failure(box, "s_say", "[" * 100_000)
        assert await box.run(ToolCall(name="s_say", arguments='{"words": "still here"}', key="k")) == "still here"


async def test_a_secret_that_a_server_repeats_is_hidden() -> None:
    async with toolbox({"s": stdio(env=("NOTES", "API_TOKEN"))}) as box:
        await box.ensure_started(["mcp:s"])
        assert (await box.run(ToolCall(name="s_whoami", key="k"))).split()[1] == "[redacted]"


async def test_a_server_that_died_is_started_again_and_only_trusted_calls_are_repeated(notes: Path) -> None:
    async with toolbox({"s": stdio(trust_hints=True)}) as box:
        await box.ensure_started(["mcp:s"])
        assert (box.is_idempotent("s_die_once"), box.is_idempotent("s_say")) == (True, False)
        assert await box.run(ToolCall(name="s_die_once", key="k")) == "alive"
        assert "it is unknown if 'die' was done" in await failure(box, "s_die")
        assert await box.run(ToolCall(name="s_say", arguments='{"words": "back"}', key="k")) == "back"
    assert notes.read_text("utf-8").split() == ["die_once", "die_once", "die", "say"]


async def test_hints_that_the_host_does_not_trust_count_for_nothing(notes: Path) -> None:
    async with toolbox({"s": stdio()}) as box:
        await box.ensure_started(["mcp:s"])
        assert not box.is_idempotent("s_die_once")
        assert "it is unknown if" in await failure(box, "s_die_once")
    assert notes.read_text("utf-8").split() == ["die_once"]


async def test_a_server_that_keeps_dying_is_left_alone_until_the_next_run() -> None:
    async with toolbox({"s": stdio()}) as box:
        await box.ensure_started(["mcp:s"])
        assert "it is unknown if" in await failure(box, "s_die")
        assert "it is unknown if" in await failure(box, "s_die")
        assert "stays down" in await failure(box, "s_say", '{"words": "?"}')
        await box.ensure_started(["mcp:s"])
        assert await box.run(ToolCall(name="s_say", arguments='{"words": "back"}', key="k")) == "back"


async def test_a_call_that_is_given_up_is_cancelled_at_the_server_too(notes: Path) -> None:
    async with toolbox({"s": stdio(), "late": stdio(timeout_seconds=0.1)}) as box:
        await box.ensure_started(["mcp:s", "mcp:late"])
        call = asyncio.ensure_future(box.run(ToolCall(name="s_wait_long", key="k")))
        await asyncio.to_thread(until, lambda: "waiting" in notes.read_text("utf-8"), "the call")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(until, lambda: "cancelled" in notes.read_text("utf-8"), "cancelling it")
        assert "took longer than 0.1 s" in await failure(box, "late_wait_long")


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (McpServer(command=(sys.executable, "-c", "import sys; sys.exit('no disk')")), "it said: no disk exit code 1"),
        (McpServer(command=("no-such-program",)), "no-such-program: No such file"),
        (McpServer(command=("cat",), env=("NOT_SET_ANYWHERE",)), "NOT_SET_ANYWHERE is not set"),
        (McpServer(command=("sleep", "60"), start_timeout_seconds=0.2), "no answer within 0.2 s"),
        (McpServer(url="http://127.0.0.1:9/mcp"), "ConnectError"),
    ],
)
async def test_a_server_that_cannot_be_used_says_why(server: McpServer, says: str) -> None:
    async with toolbox({"x": server}) as box:
        with pytest.raises(UsageError, match=says) as refused:
            await box.ensure_started(["mcp:x/tool"])
        assert "[mcp.x]" in str(refused.value)


async def test_what_crews_name_must_be_there_and_allowed() -> None:
    async with toolbox({"s": stdio(tools=("say", "whoami"))}) as box:
        for named, says in (
            ("mcp:s/sai", "did you mean 'say'"),
            ("mcp:s/die", "has no tool 'die' that crews may use"),
            ("mcp:t/say", "add \\[mcp.t\\]"),
        ):
            with pytest.raises(UsageError, match=says):
                await box.ensure_started([named])
        await box.ensure_started(["mcp:s/sai", "mcp:t/say"], lenient=True)
        await box.ensure_started(["mcp:s"])
        assert [schema.name for schema in box.schemas(["mcp:s"])] == ["s_say", "s_whoami"]


async def test_two_tools_that_models_could_not_tell_apart_are_refused() -> None:
    async with toolbox({"s": stdio(tools=("say", "die"))}, taken=("s_say",)) as box:
        await box.ensure_started(["mcp:s/die"])
        with pytest.raises(UsageError, match="models would see both 'mcp:s/say' and 's_say' as 's_say'"):
            await box.ensure_started(["mcp:s"])


async def test_two_servers_whose_tools_models_could_not_tell_apart_are_refused() -> None:
    async with toolbox({"a": stdio(), "a_die": stdio()}) as box:
        await box.ensure_started(["mcp:a/die_once"])
        with pytest.raises(UsageError, match="both 'mcp:a_die/once' and 'mcp:a/die_once' as 'a_die_once'"):
            await box.ensure_started(["mcp:a_die/once"])


STUBBORN = """\
import os, signal, subprocess, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "60"])
Path(os.environ["NOTES"]).write_text(f"{os.getpid()} {child.pid} .")
time.sleep(60)
"""
OWNER = """\
import asyncio, sys
from interlock.adapters.config.mcp_settings import McpServer
from interlock.adapters.tools.mcp_tools import McpToolbox
server = McpServer(command=(sys.executable, "-c", sys.argv[1]), env=("NOTES",))
asyncio.run(McpToolbox({"s": server}).ensure_started(["mcp:s"]))
"""


def test_nothing_of_a_server_outlives_its_owner_that_is_killed(notes: Path) -> None:
    """Not even one that does not care for the end of its input, nor what it has started."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, STUBBORN])
    try:
        until(lambda: notes.read_text("utf-8").endswith("."), "the server's start")
        server, grandchild, _ = notes.read_text("utf-8").split()
        assert lives(int(server))
        assert lives(int(grandchild))
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    until(lambda: not lives(int(server)) and not lives(int(grandchild)), "the end of both")


LEAVES_A_CHILD = STUBBORN.replace("time.sleep(60)", "sys.exit(0)")


async def test_what_a_server_leaves_behind_is_ended_with_it(notes: Path) -> None:
    async with toolbox({"s": McpServer(command=(sys.executable, "-c", LEAVES_A_CHILD), env=("NOTES",))}) as box:
        with pytest.raises(UsageError, match="exit code 0"):
            await box.ensure_started(["mcp:s"])
    grandchild = int(notes.read_text("utf-8").split()[1])
    until(lambda: not lives(grandchild), "the end of the child")


RUDE = str(Path(__file__).parents[1] / "mcp_rude_server.py")


async def test_a_rude_server_does_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    rude = McpServer(command=(sys.executable, RUDE), timeout_seconds=5)
    async with toolbox({"r": rude, "late": msgspec.structs.replace(rude, timeout_seconds=0.2)}) as box:
        await box.ensure_started(["mcp:r", "mcp:late"])
        assert "took longer than 0.2 s" in await failure(box, "late_half")
        assert await failure(box, "r_garbage") == ("its answer is not MCP; content: Input should be a valid list")
        assert await failure(box, "r_fails") == "out of ink"
        assert await box.run(ToolCall(name="r_bytes", key="k")) == '{"a":[1,2]}'
        assert await failure(box, "r_error") == "out of paper"
        assert await failure(box, "r_silent_error") == "tool 'silent_error' failed and did not say why"
        assert await box.run(ToolCall(name="r_structured", key="k")) == '{"a":[1,2]}'
        assert await box.run(ToolCall(name="r_image", key="k")) == "(image, image/png, cannot be shown as text)"
        assert await box.run(ToolCall(name="r_asks", key="k")) == "Sampling not supported"
    assert capfd.readouterr() == ("", "")


async def test_a_large_output_comes_through_whole() -> None:
    async with toolbox({"r": McpServer(command=(sys.executable, RUDE))}) as box:
        await box.ensure_started(["mcp:r/big"])
        assert len(await box.run(ToolCall(name="r_big", key="k"))) == 10_000_000


async def test_a_server_that_does_not_list_its_tools_is_given_up_in_time() -> None:
    async with toolbox({"r": McpServer(command=(sys.executable, RUDE, "--mute"), start_timeout_seconds=1)}) as box:
        began = time.monotonic()
        with pytest.raises(UsageError, match="no answer within 1 s"):
            await box.ensure_started(["mcp:r"])
        assert time.monotonic() - began < 6


async def test_a_list_of_tools_without_end_is_refused() -> None:
    async with toolbox({"r": McpServer(command=(sys.executable, RUDE, "--endless"))}) as box:
        with pytest.raises(UsageError, match="more than 100 pages"):
            await box.ensure_started(["mcp:r"])


# Over HTTP


class HttpServer:
    """The same server behind an address that asks for a key; it ends with the test, or with this process."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "port"
        self.port = 0
        self.start()
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        self._file.write_text("", "utf-8")
        same = [str(self.port)] if self.port else []
        self.process = subprocess.Popen([sys.executable, SERVER, "--http", *same, str(self._file)])
        until(lambda: bool(self._file.read_text("utf-8")), "the start of the server")
        self.port = int(self._file.read_text("utf-8"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    monkeypatch.setenv("TOOLS_KEY", KEY)
    monkeypatch.setenv("WRONG_KEY", "wrong-4712")
    server = HttpServer(tmp_path)
    try:
        yield server
    finally:
        server.end()


async def test_an_address_is_called_with_its_key_which_nobody_gets_to_see(http: HttpServer, notes: Path) -> None:
    keys = {"h": "TOOLS_KEY", "w": "WRONG_KEY", "n": "NO_KEY"}
    async with toolbox({name: McpServer(url=http.url, key_env=key) for name, key in keys.items()}) as box:
        await box.ensure_started(["mcp:h"])
        assert (
            await box.run(ToolCall(name="h_say", arguments=f'{{"words": "it is {KEY}"}}', key="k"))
            == "it is [redacted]"
        )
        assert "refuse" in await failure(box, "h_refuse")
        call = asyncio.ensure_future(box.run(ToolCall(name="h_wait_long", key="k")))
        await asyncio.to_thread(until, lambda: "waiting" in notes.read_text("utf-8"), "the call")
        call.cancel()
        await asyncio.to_thread(until, lambda: "cancelled" in notes.read_text("utf-8"), "cancelling it")
        for name, says in (("w", "it answered 401; check WRONG_KEY"), ("n", "NO_KEY is not set")):
            with pytest.raises(UsageError, match=says) as refused:
                await box.ensure_started([f"mcp:{name}"])
            assert "wrong-4712" not in str(refused.value)


async def test_a_key_goes_to_no_proxy_of_the_environment(http: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    async with toolbox({"h": McpServer(url=http.url, key_env="TOOLS_KEY")}) as box:
        await box.ensure_started(["mcp:h"])
        assert await box.run(ToolCall(name="h_say", arguments='{"words": "hi"}', key="k")) == "hi"


async def test_an_address_that_comes_back_is_used_again(http: HttpServer) -> None:
    async with toolbox({"h": McpServer(url=http.url, key_env="TOOLS_KEY")}) as box:
        await box.ensure_started(["mcp:h"])
        first = await box.run(ToolCall(name="h_whoami", key="k"))
        http.end()
        for _ in range(3):
            await failure(box, "h_whoami")
        http.start()
        assert await box.run(ToolCall(name="h_whoami", key="k")) != first


async def test_without_the_extra_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "interlock.adapters.tools.mcp_session", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)

    async with toolbox({"s": stdio()}) as box:
        with pytest.raises(UsageError, match=r"pip install .*\[mcp\]"):
            await box.ensure_started(["mcp:s"])


def test_the_library_is_loaded_only_by_whoever_needs_it() -> None:
    code = "import sys, interlock, interlock.compose.interlock; print('mcp' in sys.modules, 'pydantic' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False"]
