"""Finding 3.5: `dir(interlock)`, one way to give a host, sentences for wrong types, a handle for a run by its id."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import Interlock, UsageError, load_crew, load_host
from interlock.compose.crews import host_settings

CREW = """\
version: "2.0"
name: news
entry_point: writer
agents: [{id: writer, system_prompt: "Write.", tools: [look_up]}]
routing: {signals: {writer: [{signal: "[DONE]"}]}}
"""


def folder_with_tools(folder: Path) -> Path:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    module = (
        f"tools_of_{folder.name.replace('-', '_')}"  # each test has a module of its own: Python imports a name once
    )
    (folder / f"{module}.py").write_text('def look_up() -> str:\n    """Looks up."""\n    return "x"\n', "utf-8")
    (folder / "interlock.toml").write_text(f'[tools]\nmodules = ["{module}"]\n', "utf-8")
    return folder / "interlock.toml"


def test_dir_lists_the_names_that_can_be_imported() -> None:
    assert set(interlock.__all__) <= set(dir(interlock))
    assert {"Interlock", "load_crew", "UsageError"} <= set(dir(interlock))


@pytest.mark.parametrize("given", [str, Path, load_host, host_settings])
async def test_the_same_host_goes_to_load_crew_and_to_interlock(tmp_path: Path, given: Callable[[Path], Any]) -> None:
    config = folder_with_tools(tmp_path)
    host = given(config)
    crew = load_crew(tmp_path / "crew.yaml", host=host)

    async with Interlock(tmp_path / "data", host=host, models=lambda _: "Done. [DONE]") as box:
        assert (await (await box.start(crew, "hi")).result()).status == "completed"


def test_what_is_no_host_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"host must be the path of an interlock\.toml"):
        Interlock(tmp_path / "data", host=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="host must be the path"):
        load_crew(tmp_path, host=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="load_crew takes the path of a crew, not dict"):
        load_crew({})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda box: box.start("triage", "hi"), "a run needs a crew, not its path or name 'triage'"),
        (lambda box: box.start(Path("triage"), "hi"), "read it with load_crew(path)"),
        (lambda box: box.start({"name": "x"}, "hi"), "not dict"),
        (lambda box: box.resume(5), "the id of a run must be text (str), not int"),
        (lambda box: box.resume("r", {"a": 1}), "an answer must be text (str), not dict"),
    ],
)
async def test_wrong_types_are_sentences(tmp_path: Path, ask: Callable[[Any], Awaitable[Any]], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        async with Interlock(tmp_path / "data") as box:
            await ask(box)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"data": 3}, "data must be the path of a folder, or the URL of a store, not int"),
        ({"tools": 3}, "tools must be a list of functions, not int"),
        ({"tools": "look"}, "tools must be a list of functions, not str"),
        ({"models": 3}, "models must be a function, a model, or a mapping of them, not int"),
    ],
)
def test_a_host_of_wrong_parts_is_refused_in_a_sentence(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        Interlock(**parts)


async def test_a_run_can_be_had_by_its_id(tmp_path: Path) -> None:
    config = folder_with_tools(tmp_path)
    crew = load_crew(tmp_path / "crew.yaml", host=config)

    async with Interlock(tmp_path / "data", host=config, models=lambda _: "Done. [DONE]") as box:
        first = await box.start(crew, "hi")
        await first.result()
        again = box.run(first.id)
        assert (await again.result()).text == "Done."
        assert [event.type async for event in again.events()][-1] == "run.finished"
        assert repr(again) == f"<run {first.id} in {tmp_path / 'data'}>"
        with pytest.raises(interlock.RunNotFound):
            await box.run("none").result()
