"""Functions that were given as tools of agents: the definition has their names, the crew has the functions."""

from collections.abc import Mapping
from types import MappingProxyType

from interlock.adapters.tools.python_tools import PythonTool, PythonToolbox
from interlock.authoring.call_places import Spot
from interlock.authoring.python_nodes import text_at
from interlock.crew.host import BUILT_IN_TOOLS
from interlock.crew.nodes import Scalar
from interlock.crew.problem import Problems
from interlock.errors import UsageError


class GivenTools:
    """The functions of a crew and its sub-crews, by the names of their tools."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._functions: dict[str, PythonTool] = {}

    @property
    def functions(self) -> Mapping[str, PythonTool]:
        return MappingProxyType(self._functions)

    def name_of(self, value: object, spot: Spot) -> Scalar | None:
        """The name of a function that is given as a tool; None for anything else, such as a name."""
        if not isinstance(value, PythonTool) and (not callable(value) or isinstance(value, str)):
            return None
        declared = value if isinstance(value, PythonTool) else PythonTool(value)
        self.add(declared.name, declared, spot)
        return text_at(declared.name, spot)

    def add(self, name: str, declared: PythonTool, spot: Spot) -> None:
        known = self._functions.setdefault(name, declared)
        if known is declared and name not in BUILT_IN_TOOLS:
            self._check_signature(declared, spot)
        elif known != declared or name in BUILT_IN_TOOLS:
            other = "a tool of Interlock" if name in BUILT_IN_TOOLS else "another function of this crew"
            message = f"the tool '{name}' has the name of {other}"
            self._problems.add("name-clash", message, place=spot.place, fix="rename one of them")

    def _check_signature(self, declared: PythonTool, spot: Spot) -> None:
        try:
            PythonToolbox([declared])
        except UsageError as error:
            message, _, fix = str(error).partition("; ")
            self._problems.add("uncallable-tool", message, place=spot.place, fix=fix or "change its parameters")
