"""Tools at work in whole runs: limits, keys after a crash, modules of the host's file, and tools that are not here."""

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, UsageError, load_host
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.sqlite.migrations import Connect
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.tools.python_tools import ToolContext, tool
from interlock.compose.crews import host_settings, load_definition
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host

CREW = """\
version: "{version}"
name: desk
entry_point: a
agents: [{{id: a, tools: [work]}}]
routing: {{signals: {{a: [{{signal: "[WAIT]"}}, {{signal: "[END]"}}]}}}}
settings: {{{settings}}}
"""


def crew_in(folder: Path, settings: str = "", version: str = "2.0", host: Host | None = None) -> CrewDefinition:
    (folder / "crew.yaml").write_text(CREW.format(settings=settings, version=version), "utf-8")
    return load_definition(folder, host=host or Host(tools=("work",)))


async def outputs(folder: Path, function: Callable[..., Any], *, calls: int = 1, settings: str = "") -> list[str]:
    """What the model is told of its calls; the run ends well whatever the tool does."""
    model = ScriptedModel({"a": [ScriptedAnswer(tool_calls=(ToolCall("work"),) * calls), "fine\n[END]"]})
    crew = crew_in(folder, settings)

    async with Interlock(folder / "data", models=model, tools=[function]) as box:
        assert (await (await box.start(crew, "go")).result()).status == "completed"
    return [message.text for message in model.asked[1].messages if message.role == "tool"]


async def test_a_huge_output_is_cut_between_characters_and_says_so(tmp_path: Path) -> None:
    def work() -> str:
        return "ộ\U0001f642" * 2_000_000

    (told,) = await outputs(tmp_path, work, settings="max_tool_output_chars: 1001")
    assert told == "ộ\U0001f642" * 500 + "ộ" + "\n[cut: 3998999 more characters]"


async def test_a_plain_function_that_takes_too_long_is_left_behind_and_the_run_goes_on(tmp_path: Path) -> None:
    let_go = threading.Event()

    def work() -> str:
        let_go.wait(60)
        return "late"

    (told,) = await outputs(tmp_path, work, settings="tool_execution_timeout_seconds: 0.02")
    let_go.set()
    assert told == "error: tool 'work' took longer than 0.02 s"


async def test_the_calls_of_one_reply_run_at_the_same_time(tmp_path: Path) -> None:
    threads, tasks = threading.Barrier(3, timeout=30), asyncio.Barrier(3)

    def work() -> str:
        threads.wait()
        return "met"

    async def work_async() -> str:
        await tasks.wait()
        return "met"

    work_async.__name__ = "work"
    for n, function in enumerate((work, work_async)):
        (tmp_path / str(n)).mkdir()
        assert await outputs(tmp_path / str(n), function, calls=3) == ["met"] * 3


async def test_an_exit_in_a_tool_ends_neither_the_run_nor_the_process(tmp_path: Path) -> None:
    def work() -> None:
        sys.exit("bye")

    assert await outputs(tmp_path, work) == ["error: SystemExit: bye"]


async def test_an_idempotent_tool_gets_the_same_key_after_a_crash_and_another_call_another_one(tmp_path: Path) -> None:
    keys: list[str] = []
    crew = crew_in(tmp_path)
    answers: dict[str, Any] = {"a": [ScriptedAnswer(tool_calls=(ToolCall("work"), ToolCall("work"))), "fine\n[END]"]}
    both = asyncio.Barrier(3)

    @tool(idempotent=True)
    async def work(context: ToolContext) -> str:
        """Hangs in the first process."""
        keys.append(context.key)
        if len(keys) <= 2:
            await both.wait()
            await asyncio.Event().wait()
        return "done"

    async with Interlock(tmp_path / "data", models=ScriptedModel(answers), tools=[work]) as box:
        await box.start(crew, "go", run_id="r")
        await both.wait()

    async with Interlock(tmp_path / "data", models=ScriptedModel(answers), tools=[work]) as box:
        assert (await (await box.resume("r")).result()).status == "completed"
    assert len(set(keys)) == 2
    assert sorted(keys[:2]) == sorted(keys[2:])


# Tools that are not here


def work() -> None: ...


async def paused(folder: Path, version: str = "2.0", tools: Sequence[Callable[..., Any]] = (work,)) -> str:
    crew = crew_in(folder, version=version)
    model = ScriptedModel({"a": ["Which?\n[WAIT]"]})
    async with Interlock(folder / "data", models=model, tools=tools) as box:
        return (await (await box.start(crew, "go")).result()).run


async def test_a_run_whose_tools_are_not_here_is_not_resumed_and_stays_as_it_was(tmp_path: Path) -> None:
    run = await paused(tmp_path)

    async with Interlock(tmp_path / "data", models=ScriptedModel({"a": ["[END]"]})) as box:
        before = await box.journal.row(run)
        for ask in (box.resume(run, "this"), box.fork(run, 3)):
            with pytest.raises(UsageError, match=r"what this process does not have: work; name the modules"):
                await ask
        assert list(await box.journal.rows()) == [before]
        assert (await (await box.cancel(run)).result()).status == "cancelled"


async def test_a_run_of_an_old_file_goes_on_without_its_tools_as_check_only_warned_of_them(tmp_path: Path) -> None:
    run = await paused(tmp_path, version="1.0", tools=())

    async with Interlock(tmp_path / "data", models=ScriptedModel({"a": ["?\n[WAIT]", "[END]"]})) as box:
        assert (await (await box.resume(run, "this")).result()).status == "completed"


async def test_a_crew_whose_tools_are_not_here_is_not_started(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)

    async with Interlock(tmp_path / "data") as box:
        with pytest.raises(UsageError, match="crew 'desk' needs tools that this host does not have: work"):
            await box.start(crew, "go")
        assert len(await box.journal.rows()) == 0


def durabilities_asked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen = []

    def noting(folder: Path, *, durability: str, connect: Connect) -> SqliteStore:
        seen.append(durability)
        return SqliteStore(folder, durability=durability, connect=connect)

    monkeypatch.setattr("interlock.compose.stores.sqlite_folder.SqliteStore", noting)
    return seen


async def test_the_tools_of_the_hosts_modules_are_called_and_its_durability_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "run_tools.py").write_text("def work() -> str: return 'from the module'\n", "utf-8")
    toml = 'durability = "normal"\n[tools]\nmodules = ["run_tools"]\n'
    (tmp_path / "interlock.toml").write_text(toml, "utf-8")
    crew = crew_in(tmp_path, host=load_host())
    assert "run_tools" not in sys.modules
    model = ScriptedModel({"a": [ScriptedAnswer(tool_calls=(ToolCall("work"),)), "fine\n[END]"]})

    seen = durabilities_asked_for(monkeypatch)
    async with Interlock("data", host=host_settings(), models=model) as box:
        assert ((await (await box.start(crew, "go")).result()).status, seen) == ("completed", ["normal"])
    assert [message.text for message in model.asked[1].messages if message.role == "tool"] == ["from the module"]
