"""A planted module that would tell: nothing but an argument that the operator types imports it."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.crews.crew_files import read_crew
from interlock.cli.main import interlock
from interlock.errors import InterlockError
from tests.server.office import CREW, crew_file, open_office

EVIL = """\
from pathlib import Path

Path(__file__).with_name("told").touch()
from interlock import Agent

crew = Agent("a", "x")
"""
NAMES = ("evil.py:crew", "evil:crew", "evil.py")
CALLER = """\
version: "2.0"
name: top
entry_point: a
agents: [{id: a}]
sub_crews: {inner: {config_path: "PATH"}}
routing: {signals: {a: [{signal: "[GO]", type: sub_crew, target_crew: inner, return_to: a}, {signal: "[END]"}]}}
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module; it is the working folder, and on the import path."""
    (tmp_path / "evil.py").write_text(EVIL, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    assert not (tmp_path / "told").exists(), "the module was imported"


def test_the_planted_module_would_tell(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(EVIL, "utf-8")
    program = "import sys; from interlock.cli.main import interlock; interlock(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", program, "check", "evil.py:crew"], cwd=tmp_path, check=False)
    assert (done.returncode, (tmp_path / "told").exists()) == (0, True)


@pytest.mark.parametrize("name", NAMES)
def test_a_crew_file_does_not_import_it(planted: Path, name: str) -> None:
    loaded = read_crew(crew_file(planted, CALLER.replace("PATH", name)))
    assert [p.code for p in loaded.problems if p.severity == "error"] == ["bad-path"]
    done = CliRunner().invoke(interlock, ["run", "crew.yaml", "hi", "--script", "none.yaml"])
    assert done.exit_code in (1, 2)


@pytest.mark.parametrize("name", NAMES)
async def test_http_does_not_import_it(planted: Path, name: str) -> None:
    (planted / "office").mkdir()
    async with open_office(planted / "office") as office:
        for path, body in {
            "/v1/runs": {"crew": name, "input": "hi"},
            "/v1/schedules": {"crew": name, "input": "hi", "every_ms": 60_000},
        }.items():
            answer = await office.post(path, json=body)
            assert 400 <= answer.status_code < 500, answer.text
        for path in ("", "/graph", "/problems"):
            assert (await office.get(f"/v1/crews/{name}{path}")).status_code == 404


@pytest.mark.parametrize("name", NAMES)
async def test_mcp_does_not_import_it(planted: Path, name: str) -> None:
    mcp = pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    crew_file(planted, CREW)
    (planted / "script.yaml").write_text("replies: {clerk: ['Fine. [DONE]']}\n", "utf-8")
    command = str(Path(sys.executable).parent / "interlock")
    args = ["mcp", "crew.yaml", "--script", "script.yaml", "--data", "data"]
    with (planted / "errors").open("w", encoding="utf-8") as errors:
        parameters = mcp.StdioServerParameters(command=command, args=args, cwd=planted)
        async with mcp.Client(mcp.stdio_client(parameters, errors)) as client:
            assert (await client.call_tool(name, {"input": "hi"})).is_error
            done = await client.call_tool("office", {"input": name})
    assert (done.is_error, done.structured_content["status"]) == (False, "completed")


@pytest.mark.parametrize("name", NAMES)
async def test_a_schedule_does_not_import_it(planted: Path, name: str) -> None:
    async with Interlock(planted / "data", models=lambda _: "x") as box:
        try:
            await box.schedules.add(name, "hi", at=box.clock.now_ms() + 1)
        except InterlockError:
            return
    async with Interlock(planted / "data", models=lambda _: "x", recover=True) as box:
        assert [each.crew for each in await box.schedules.list()] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_an_imported_journal_does_not_import_it(planted: Path, name: str) -> None:
    """The crew of the run, and its input, have the name of the module."""
    crew = msgspec.structs.replace(load_crew(crew_file(planted, CREW)).definition, name=name)

    async def begin() -> str:
        async with Interlock(planted / "data", models=lambda _: "fine [WAIT]") as box:
            return (await (await box.start(crew, name)).result()).run

    run, runner, exported = asyncio.run(begin()), CliRunner(), planted / "run.journal"
    exported.write_text(runner.invoke(interlock, ["runs", "export", run, "--data", "data"]).stdout, "utf-8")
    assert runner.invoke(interlock, ["runs", "import", str(exported), "--data", "other"]).exit_code == 0
    for words in (["runs", "show", run], ["runs", "explain", run], ["runs", "replay", run]):
        assert runner.invoke(interlock, [*words, "--data", "other"]).exit_code == 0
    (planted / "script.yaml").write_text("replies: {clerk: ['', 'Fine. [DONE]']}\n", "utf-8")
    resumed = ["resume", run, "--input", "x", "--data", "other", "--script", "script.yaml"]
    assert runner.invoke(interlock, resumed).exit_code == 0
