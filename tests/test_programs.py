"""The Python of the pages and the examples: short where it is promised, public names only, no ignores."""

import ast
import asyncio
import importlib.util
import re
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import interlock
from docs.outputs import PAGES
from docs.programs import programs_of, write_programs
from interlock import ModelRequest

README, FASTAPI = Path("README.md"), Path("docs/guide/fastapi.md")
PROGRAMS = [(f"{page.name}:{name}", program) for page in PAGES for name, program in programs_of(page)]
PROGRAMS += [(str(file), file.read_text("utf-8")) for file in sorted(Path("examples").rglob("*.py"))]
# Where the names of the guide are: the other public packages are used as `interlock.messages`, a name of `interlock`.
PUBLIC = ("interlock", "interlock.events", "interlock.testing")


def code_lines(program: str) -> list[str]:
    return [line for line in program.splitlines() if line.strip()]


def private_imports(program: str) -> list[str]:
    """What a program imports of interlock that is not a public name."""
    found: list[str] = []
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if is_ours(alias.name) and alias.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and is_ours(module := node.module or ""):
            shown = dir(import_module(module)) if module in PUBLIC else ()
            found += [f"{module}.{alias.name}" for alias in node.names if alias.name not in shown]
    return found


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "interlock"


@pytest.mark.parametrize(("name", "program"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_a_program_imports_public_names_only_and_ignores_no_types(name: str, program: str) -> None:
    assert private_imports(program) == []
    assert re.findall(r"type: ignore|pyright:|noqa: PGH", program) == []


def test_a_private_import_is_found() -> None:
    program = "from interlock import Crew, nonsense\nfrom interlock.ports import Delta\nimport interlock.runtime\n"
    assert private_imports(program) == ["interlock.nonsense", "interlock.ports.Delta", "interlock.runtime"]


def test_every_class_that_the_guide_names_is_public() -> None:
    packages = [interlock, *(import_module(f"interlock.{name}") for name in PACKAGES)]
    public = {name for package in packages for name in dir(package)}
    source = "".join(file.read_text("utf-8") for file in Path("src/interlock").rglob("*.py"))
    classes = set(re.findall(r"^class (\w+)", source, re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`([A-Z][a-z]\w+)[`(]", page.read_text("utf-8"))}
    assert len(named & classes) > 20
    assert sorted((named & classes) - public - HEADERS) == []


HEADERS = {"Host"}  # of an HTTP request
PACKAGES = ("broadcast", "events", "messages", "signals", "testing")


def test_a_module_has_the_lines_of_its_page_and_a_name_of_its_own(tmp_path: Path) -> None:
    files = write_programs(tmp_path)
    assert len({file.name for file in files}) == len(files) == len(PROGRAMS) + 1, "and the types of results"
    page = README.read_text("utf-8").splitlines()
    for n, line in enumerate((tmp_path / "clerk.py").read_text("utf-8").splitlines()):
        assert line in ("", page[n])
    with pytest.raises(ValueError, match=r"clerk\.py is there twice"):
        write_programs(tmp_path)


def test_the_readme_opens_with_an_agent_of_six_lines_beside_the_yaml() -> None:
    fences = re.findall(r"^```(\w+)(?: (\S+))?$", README.read_text("utf-8"), re.MULTILINE)
    assert fences[0] == ("python", "clerk.py")
    assert ("yaml", "clerk.yaml") in fences[:8]
    name, program = next(programs_of(README))
    assert name == "clerk.py"
    assert len(code_lines(program)) <= 6
    assert "tools=[" in program
    assert ".run_sync(" in program


def test_the_endpoint_of_the_fastapi_page_has_twenty_lines() -> None:
    name, program = next(programs_of(FASTAPI))
    assert name == "tables.py"
    assert len(code_lines(program)) <= 20


def tables_in(folder: Path, **given: Any) -> ModuleType:
    """The module of the page, with a function as model."""
    page = FASTAPI.read_text("utf-8")
    script = re.search(r"^```yaml waiter.yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert script is not None
    (folder / "waiter.yaml").write_text(script[1], "utf-8")
    program = dict(programs_of(FASTAPI))["tables.py"]
    assert "Interlock(recover=True)" in program
    (folder / "tables.py").write_text(program.replace("recover=True", "recover=True, models=words"), "utf-8")
    spec = importlib.util.spec_from_file_location("tables", folder / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(given)
    spec.loader.exec_module(module)
    return module


class Visit:
    """One request to an application: the pieces of the reply's body as they are sent."""

    def __init__(self, app: Any, query: str) -> None:
        self.pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self.headers: dict[str, str] = {}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/chat",
            "raw_path": b"/chat",
            "query_string": query.encode(),
            "headers": [],
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        elif message["body"]:
            self.pieces.put_nowait(message["body"].decode())
        elif not message.get("more_body"):
            self.pieces.put_nowait(None)

    async def rest(self) -> str:
        said = ""
        while (piece := await self.pieces.get()) is not None:
            said += piece
        await self.task
        return said


async def test_the_endpoint_sends_a_piece_when_it_is_said_and_asks_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()

    async def words(request: ModelRequest) -> AsyncIterator[str]:
        if request.number == 1:
            yield "With pleasure. "
            await go.wait()
            yield "For how many?\n[WAIT]"
        else:
            assert "four" in request.messages[-1].text
            yield "It is booked.\n[DONE]"

    app = tables_in(tmp_path, words=words).app
    monkeypatch.chdir(tmp_path)
    async with app.router.lifespan_context(app):
        first = Visit(app, "text=A+table")
        assert (await first.pieces.get() or "").strip() == "With pleasure."
        assert first.pieces.empty()
        go.set()
        assert (await first.rest()).strip() == "For how many?"
        run_id = first.headers["run-id"]
        assert await Visit(app, f"text=four&run_id={run_id}").rest() == "It is booked."
