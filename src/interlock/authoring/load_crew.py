"""Loads crews from their files as `Crew`."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from interlock.adapters.crews.crew_trees import tree_of
from interlock.adapters.tools.python_tools import PythonTool, PythonToolbox
from interlock.authoring.crew import Crew
from interlock.authoring.prove import ProvenCrew
from interlock.compose.crews import AnyHost, load_sound


def load_crew(
    path: str | os.PathLike[str],
    *,
    host: AnyHost | None = None,
    tools: Sequence[PythonTool | Callable[..., Any]] = (),
) -> Crew:
    """Loads a crew and checks it; raises `UnsoundCrew` with every problem, or `UnreadableCrew`.

    `host` is the path of an interlock.toml, as for `Interlock`. Without it the one in the working folder is used, else
    the one in the crew's folder, as for the commands. `tools` are functions for tools that the crew names.
    """
    return Crew.from_yaml(path, host=host, tools=tools)


def prove_files(
    path: str | os.PathLike[str], *, host: AnyHost | None, tools: Sequence[PythonTool | Callable[..., Any]]
) -> ProvenCrew:
    functions = functions_of(tools)
    loaded = load_sound(path, host=host, tools=tuple(functions))
    assert loaded.crew is not None, "a sound crew was read"
    return ProvenCrew(loaded.crew, loaded.problems, functions, partial(tree_of, loaded))


def functions_of(tools: Sequence[PythonTool | Callable[..., Any]]) -> Mapping[str, PythonTool]:
    """The functions by the names of their tools; raises `UsageError` for one that cannot be a tool."""
    declared = [each if isinstance(each, PythonTool) else PythonTool(each) for each in tools]
    return dict(zip(PythonToolbox(declared).names, declared, strict=True))
