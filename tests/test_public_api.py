"""What can be imported, and what importing costs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import interlock
import interlock.broadcast
import interlock.events
import interlock.messages
import interlock.signals

IMPORT_CPU_MS_MAX = 150
MODULES = (interlock, interlock.signals, interlock.broadcast, interlock.messages, interlock.events)


@pytest.mark.parametrize("module", MODULES)
def test_exports_are_sorted_and_real(module: object) -> None:
    names = list(module.__all__)  # type: ignore[attr-defined]
    assert names == sorted(names)
    assert all(hasattr(module, name) for name in names)


def test_what_the_package_shows_is_there() -> None:
    shown = dir(interlock)
    assert set(interlock.__all__) < set(shown)
    assert [name for name in shown if getattr(interlock, name, None) is None] == []


def test_a_public_package_needs_no_import_of_its_own() -> None:
    program = "import interlock; print(interlock.messages.HOST, interlock.events.Usage().calls)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.split()[-1] == "0"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        interlock.__getattr__("nonsense")


def test_importing_loads_no_third_party_but_msgspec_and_little_else() -> None:
    """In a fresh interpreter, because this one has everything loaded; the best CPU time of five."""
    program = (
        "import sys, time, json; before = set(sys.modules); start = time.process_time(); "
        "import interlock, interlock.signals, interlock.broadcast, interlock.messages; "
        "cpu = time.process_time() - start; "
        "roots = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "third = sorted(r for r in roots if r not in sys.stdlib_module_names and r != 'interlock'); "
        "print(json.dumps([cpu * 1000, third, 'asyncio' in sys.modules]))"
    )
    results = [
        json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(cpu for cpu, _, _ in results) < IMPORT_CPU_MS_MAX
    # msgspec itself looks for typing_extensions, and loads it where some other package has brought it along.
    assert [name for name in results[0][1] if name != "typing_extensions"] == ["msgspec"]
    assert results[0][2] is False


# What the import may cost, as a multiple of importing modules of the standard library in the same run: 150 ms of CPU on
# a machine where those take 43 ms.
IMPORT_RATIO_MAX = 150 / 43
_FLOOR = "asyncio, sqlite3, logging.handlers, inspect, dataclasses, email.message, http.client, tomllib, unittest.mock"


def test_a_program_that_runs_a_crew_starts_fast(tmp_path: Path) -> None:
    """The best CPU time of fresh interpreters, compiled code at hand; YAML, the checks and pydantic load where used."""

    def cost_of(imports: str) -> tuple[float, list[str]]:
        program = (
            f"import sys, time, json; start = time.process_time(); {imports}; "
            "cpu = time.process_time() - start; "
            "late = ('yaml', 'pydantic', 'click', 'starlette', 'interlock.crew.checks'); "
            "print(json.dumps([cpu * 1000, [name for name in late if name in sys.modules]]))"
        )
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
        cpu, loaded = json.loads(done.stdout)
        return cpu, loaded

    ours, floors = "from interlock import Agent, Crew, Interlock", f"import {_FLOOR}"
    pairs = [(cost_of(ours), cost_of(floors)) for _ in range(7)]
    assert pairs[0][0][1] == []
    assert min(cost for (cost, _), _ in pairs) < IMPORT_RATIO_MAX * min(floor for _, (floor, _) in pairs)


def test_whoever_calls_no_model_does_not_load_the_client() -> None:
    program = (
        "import sys, interlock.cli.main, interlock.cli.commands.check, interlock.compose.interlock; "
        "print(sorted({'httpx2', 'httpcore2', 'anyio', 'ssl'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert "httpx2" not in loaded, loaded
    assert "httpcore2" not in loaded, loaded


def test_load_crew_gives_a_crew_or_every_problem(tmp_path: object) -> None:
    crew = interlock.load_crew("src/interlock/templates/hello")
    assert crew.name == "hello"
    with pytest.raises(interlock.UnsoundCrew, match="5 errors") as refused:
        interlock.load_crew("src/interlock/templates/broken")
    assert {p.code for p in refused.value.problems} >= {"trap", "unknown-target", "unknown-key"}
    with pytest.raises(interlock.UnreadableCrew, match=r"there is no such folder or file"):
        interlock.load_crew(f"{tmp_path}/nothing")
