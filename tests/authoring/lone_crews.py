"""A crew of one agent that can be run, as `Crew` and `Agent` can."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import load_crew
from interlock.adapters.tools.python_tools import PythonTool
from interlock.authoring.running import Runnable
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host

LONE = """\
version: "2.0"
name: lone
entry_point: a
agents: [{id: a, tools: [%s]}]
routing: {signals: {a: [{signal: "[ASK]", type: pause}, {signal: "[END]"}]}}
"""


class LoneCrew(Runnable):
    def __init__(self, folder: Path, *functions: Any) -> None:
        names = tuple(each.__name__ for each in functions)
        folder.mkdir(exist_ok=True)
        (folder / "crew.yaml").write_text(LONE % ", ".join(names), "utf-8")
        self._definition = load_crew(folder, host=Host(tools=names)).definition
        self._functions = {each.__name__: PythonTool(each) for each in functions}

    @property
    def definition(self) -> CrewDefinition:
        return self._definition

    @property
    def functions(self) -> Mapping[str, PythonTool]:
        return self._functions
