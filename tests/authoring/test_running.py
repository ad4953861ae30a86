"""`run`, `run_sync` and `stream`: wherever they are called, in one store per folder and process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, ToolContext, UsageError
from interlock.authoring.background import background, close_background
from interlock.errors import AlreadyStarted, HostLacks
from interlock.ports import ModelReply, ModelRequest
from interlock.testing import ScriptedModel
from tests.authoring.lone_crews import LoneCrew


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INTERLOCK_DATA", raising=False)
    yield
    close_background()


def done(request: ModelRequest) -> str:
    return "done [END]"


def box_in(folder: Path | str = ".interlock") -> Interlock:
    return background().call(lambda: background().box_of(folder)).result()


async def test_a_crew_runs_in_the_folder_that_the_commands_use(tmp_path: Path) -> None:
    result = await LoneCrew(tmp_path / "crew").run("go", models=done, user="u", run_id="r")
    assert (result.run, result.status, result.reason) == ("r", "completed", "signal:[END]")
    assert (result.agent, result.output, result.text, result.token) == ("a", "done [END]", "done", "")
    assert result.usage.calls == 1 and list(result.usage_by_agent) == ["a"]
    async with Interlock(".interlock") as box:
        assert (await box.result("r")) == result
        assert (await box.state("r")).user == "u"


def test_the_folder_is_the_named_one_or_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = LoneCrew(tmp_path / "crew")
    crew.run_sync("go", models=done, data=tmp_path / "named")
    monkeypatch.setenv("INTERLOCK_DATA", str(tmp_path / "set"))
    crew.run_sync("go", models=done)
    assert (tmp_path / "named").is_dir() and (tmp_path / "set").is_dir() and not (tmp_path / ".interlock").exists()
    with pytest.raises(UsageError, match="data must be the path of a folder, or the URL of a store, not int"):
        crew.run_sync("go", models=done, data=7)  # type: ignore[arg-type]


def test_all_calls_on_one_folder_share_one_open_store(tmp_path: Path) -> None:
    crew = LoneCrew(tmp_path / "crew")
    crew.run_sync("go", models=done)
    first = box_in()
    asyncio.run(crew.run("go", models=done, data=tmp_path / "crew" / ".." / ".interlock"))
    assert box_in(tmp_path / ".interlock") is first
    assert len(list((tmp_path / ".interlock" / "owners").iterdir())) == 1


async def test_run_sync_works_inside_a_running_loop(tmp_path: Path) -> None:
    async def later(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return "done [END]"

    assert LoneCrew(tmp_path / "crew").run_sync("go", models=later).text == "done"


async def test_async_functions_run_in_the_loop_of_the_caller_and_others_in_threads(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    async def look() -> str:
        seen["tool"] = asyncio.get_running_loop()
        return "seen"

    def count() -> str:
        seen["thread"] = threading.current_thread()
        return "1"

    async def model(request: ModelRequest) -> Any:
        seen["model"] = asyncio.get_running_loop()
        return await script.__anext__()

    async def replies() -> AsyncIterator[Any]:
        yield ModelReply(text="", tool_calls=(request_of("look"), request_of("count")))
        yield "done [END]"

    script = replies()
    here = asyncio.get_running_loop()
    assert (await LoneCrew(tmp_path / "crew", look, count).run("go", models=model)).text == "done"
    assert seen["tool"] is here and seen["model"] is here
    assert seen["thread"] not in (threading.main_thread(), threading.current_thread())


def request_of(name: str) -> Any:
    from interlock.engine.events import ToolRequest

    return ToolRequest(id=name, name=name, arguments="{}")


def test_without_a_loop_async_functions_run_in_the_background_and_models_that_block_in_threads(tmp_path: Path) -> None:
    seen: list[str] = []

    async def look() -> str:
        seen.append(threading.current_thread().name)
        return "seen"

    calls = {"tool_calls": [{"name": "look"}]}

    def blocking(request: ModelRequest) -> Any:
        seen.append(threading.current_thread().name)
        return "done [END]" if request.number == 2 else ModelReply(text="", tool_calls=(request_of("look"),))

    crew = LoneCrew(tmp_path / "crew", look)
    assert crew.run_sync("go", models=blocking).text == "done"
    assert seen == ["interlock-tool", "interlock-runs", "interlock-tool"]
    assert crew.run_sync("go", models=ScriptedModel({"a": [calls, "done [END]"]})).text == "done"


def test_many_threads_run_at_the_same_time(tmp_path: Path) -> None:
    crew, meeting = LoneCrew(tmp_path / "crew"), threading.Barrier(8)

    def together(request: ModelRequest) -> str:
        meeting.wait(30)
        return "done [END]"

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: crew.run_sync(f"go {n}", models=together), range(8)))
    assert [result.status for result in results] == ["completed"] * 8


async def test_deps_and_user_reach_the_tools_of_the_run_only(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(context: ToolContext) -> str:
        seen.append((context.user, context.deps))
        return "seen"

    crew = LoneCrew(tmp_path / "crew", look)
    model = ScriptedModel({"a": [{"tool_calls": [{"name": "look"}]}, "done [END]"]})
    await asyncio.gather(*(crew.run("go", models=model, deps=n, user=f"u{n}") for n in range(3)))
    assert sorted(seen) == [("u0", 0), ("u1", 1), ("u2", 2)]
    assert not box_in().resources.runs


async def test_the_same_run_id_gives_the_first_outcome(tmp_path: Path) -> None:
    crew = LoneCrew(tmp_path / "crew")
    first = await crew.run("go", models=done, run_id="r")
    assert await crew.run("go", run_id="r") == first == crew.run_sync("go", run_id="r")
    assert [piece async for piece in crew.stream("go", run_id="r")] in ([], ["done"])
    with pytest.raises(AlreadyStarted):
        await crew.run("stop", run_id="r")


async def endless(request: ModelRequest) -> str:
    await asyncio.Event().wait()
    return "never"


async def test_a_cancelled_caller_parks_the_run(tmp_path: Path) -> None:
    crew, reached = LoneCrew(tmp_path / "crew"), asyncio.Event()

    async def endless(request: ModelRequest) -> str:
        reached.set()
        await asyncio.Event().wait()
        return "never"

    call = asyncio.ensure_future(crew.run("go", models=endless, run_id="r"))
    await reached.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    again = await crew.run("go", models=done, run_id="r")
    assert (again.status, again.reason) == ("paused", "parked")
    assert not box_in().resources.runs
    async with Interlock(".interlock") as box:
        with pytest.raises(HostLacks, match="models"):
            await box.resume("r")
        assert (await (await box.resume("r", models=done)).result()).text == "done"


async def test_a_second_caller_of_a_run_that_leaves_does_not_park_it(tmp_path: Path) -> None:
    crew, reached, go = LoneCrew(tmp_path / "crew"), asyncio.Event(), asyncio.Event()

    async def held(request: ModelRequest) -> str:
        reached.set()
        await go.wait()
        return "done [END]"

    first = asyncio.ensure_future(crew.run("go", models=held, run_id="r"))
    await reached.wait()
    second = asyncio.ensure_future(crew.run("go", models=done, run_id="r"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go.set()
    assert (await first).text == "done"


async def test_a_caller_that_is_cancelled_before_the_run_has_begun_leaves_nothing_running(tmp_path: Path) -> None:
    async def endless(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    crew = LoneCrew(tmp_path / "crew")
    call = asyncio.ensure_future(crew.run("go", models=endless, run_id="r"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with Interlock(".interlock") as box:
        assert [row.reason for row in await box.journal.rows()] in ([], ["parked"])


async def test_a_stream_yields_the_text_as_it_comes_and_leaving_it_parks_the_run(tmp_path: Path) -> None:
    crew, go = LoneCrew(tmp_path / "crew"), asyncio.Event()

    async def pieces(request: ModelRequest) -> AsyncIterator[str]:
        yield "one "
        await go.wait()
        yield "two [END]"

    stream = crew.stream("go", models=pieces, run_id="r")
    assert (await anext(stream)).strip() == "one"
    go.set()
    rest = [piece async for piece in stream]
    assert "two" in "".join(rest)
    go.clear()
    stream = crew.stream("go", models=pieces, run_id="left")
    await anext(stream)
    await stream.aclose()
    assert (await crew.run("go", run_id="left")).reason == "parked"


async def test_what_fails_reaches_the_caller(tmp_path: Path) -> None:
    crew = LoneCrew(tmp_path / "crew")
    with pytest.raises(UsageError, match="has no model"):
        await crew.run("go")
    with pytest.raises(UsageError, match="must be text"):
        crew.run_sync(7, models=done)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has no model"):
        [piece async for piece in crew.stream("go")]
    failed = await crew.run("go", models=lambda request: 7)  # type: ignore[arg-type, return-value]
    assert (failed.status, failed.reason) == ("failed", "model_error")


def test_an_async_function_in_the_background_may_await_a_crew_and_not_wait_for_one(tmp_path: Path) -> None:
    inner = LoneCrew(tmp_path / "inner")
    refusals: list[str] = []

    async def ask() -> str:
        try:
            inner.run_sync("go", models=done)
        except UsageError as error:
            refusals.append(str(error))
        return (await inner.run("go", models=done)).text

    model = ScriptedModel({"a": [{"tool_calls": [{"name": "ask"}]}, "outer [END]"]})
    assert LoneCrew(tmp_path / "crew", ask).run_sync("go", models=model).text == "outer"
    assert "would wait for itself" in refusals[0]


async def test_it_works_in_the_lifespan_of_a_web_application(tmp_path: Path) -> None:
    fastapi = pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    crew = LoneCrew(tmp_path / "crew")

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        app.state.greeting = (await crew.run("hello", models=done)).text
        yield

    app = fastapi.FastAPI(lifespan=lifespan)

    async def ask(text: str) -> str:
        return f"{app.state.greeting} {(await crew.run(text, models=done)).text}"

    app.get("/ask")(ask)

    def visit() -> str:
        with TestClient(app) as client:
            return str(client.get("/ask", params={"text": "more"}).json())

    assert await asyncio.to_thread(visit) == "done done"


def test_it_works_with_another_loop_policy(tmp_path: Path) -> None:
    made: list[asyncio.AbstractEventLoop] = []

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            made.append(super().new_event_loop())
            return made[-1]

    asyncio.set_event_loop_policy(Policy())
    try:
        assert asyncio.run(LoneCrew(tmp_path / "crew").run("go", models=done)).text == "done"
        assert background().loop in made
    finally:
        close_background()
        asyncio.set_event_loop_policy(None)


async def test_two_crews_that_read_the_same_keep_their_own_functions(tmp_path: Path) -> None:
    """Functions made for each user, as web applications make them: a run never calls those of another."""
    seen: list[tuple[str, str]] = []
    waits, may_go = asyncio.Event(), asyncio.Event()

    def crew_for(user: str) -> LoneCrew:
        async def look(context: ToolContext) -> str:
            seen.append((context.run, user))
            if user == "ann":
                waits.set()
                await may_go.wait()
            return "seen"

        return LoneCrew(tmp_path / "crew", look)

    model = ScriptedModel({"a": [{"tool_calls": [{"name": "look"}]}, {"tool_calls": [{"name": "look"}]}, "[END]"]})
    first = asyncio.create_task(crew_for("ann").run("go", models=model, run_id="ann"))
    await waits.wait()
    await crew_for("bob").run("go", models=model, run_id="bob")
    may_go.set()
    await first
    assert sorted(seen) == [("ann", "ann"), ("ann", "ann"), ("bob", "bob"), ("bob", "bob")]
    assert not box_in().resources.runs
