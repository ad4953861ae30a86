"""Crews and the host's file, from disk."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.crew_files import read_crew
from interlock.adapters.host_file import HostSettings, host_of, read_settings
from interlock.adapters.models.providers import unset_keys
from interlock.adapters.tools_python import PythonTool, PythonToolbox
from interlock.crew.definition import Crew
from interlock.crew.host import Host
from interlock.crew.unsound import UnreadableCrew, UnsoundCrew

HOST_FILE = "interlock.toml"


def host_settings(config: str | os.PathLike[str] | None = None) -> HostSettings:
    """What interlock.toml says: the named file, or the one in the working folder if there is one."""
    if config is None:
        return read_settings(Path(HOST_FILE)) if Path(HOST_FILE).exists() else HostSettings()
    return read_settings(Path(config))


def load_host(config: str | os.PathLike[str] | None = None) -> Host:
    """What interlock.toml and the environment set up; the modules of its tools are read and not executed."""
    settings = host_settings(config)
    unset = unset_keys(settings.provider_settings, os.environ)
    return msgspec.structs.replace(host_of(settings), unset_keys=unset)


def load_crew(
    path: str | os.PathLike[str],
    *,
    host: Host | None = None,
    tools: Sequence[PythonTool | Callable[..., Any]] = (),
) -> Crew:
    """A crew that is proven sound; otherwise `UnsoundCrew` with every problem, or `UnreadableCrew`.

    Without `host` what counts is interlock.toml in the working folder, as for the commands; `tools` are those that
    the program itself will give to `Interlock`.
    """
    known = host if host is not None else load_host()
    loaded = read_crew(path, msgspec.structs.replace(known, tools=(*known.tools, *PythonToolbox(tools).names)))
    if not loaded.readable:
        raise UnreadableCrew(os.fspath(path), loaded.problems)
    if loaded.crew is None or not loaded.is_sound:
        raise UnsoundCrew(os.fspath(path), loaded.problems)
    return loaded.crew
