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
from interlock.errors import UsageError

HOST_FILE = "interlock.toml"


# A path to interlock.toml, or what was read from one.
AnyHost = str | os.PathLike[str] | Host | HostSettings


def host_settings(config: str | os.PathLike[str] | None = None) -> HostSettings:
    """What interlock.toml says: the named file, or the one in the working folder if there is one."""
    if config is None:
        return read_settings(Path(HOST_FILE)) if Path(HOST_FILE).exists() else HostSettings()
    return read_settings(Path(config))


def settings_from(host: AnyHost | None) -> HostSettings:
    """The settings behind whatever was given as a host; without one, those of no file."""
    if host is None:
        return HostSettings()
    if isinstance(host, HostSettings):
        return host
    if isinstance(host, Host):
        return read_settings(Path(host.file)) if host.file else HostSettings()
    if isinstance(host, str | os.PathLike):
        return read_settings(Path(host))
    raise UsageError(f"host must be the path of an {HOST_FILE}, or what load_host gives, not {type(host).__name__}")


def load_host(config: str | os.PathLike[str] | None = None) -> Host:
    """What interlock.toml and the environment set up; the modules of its tools are read and not executed."""
    return _host_of(host_settings(config))


def _host_of(settings: HostSettings) -> Host:
    unset = unset_keys(settings.provider_settings, os.environ)
    return msgspec.structs.replace(host_of(settings), unset_keys=unset)


def _known_host(host: AnyHost | None) -> Host:
    if isinstance(host, Host):
        return host
    return load_host() if host is None else _host_of(settings_from(host))


def load_crew(
    path: str | os.PathLike[str],
    *,
    host: AnyHost | None = None,
    tools: Sequence[PythonTool | Callable[..., Any]] = (),
) -> Crew:
    """A crew that is proven sound; otherwise `UnsoundCrew` with every problem, or `UnreadableCrew`.

    `host` is the path of an interlock.toml, as for `Interlock`; without it the one in the working folder counts, as
    for the commands. `tools` are those that the program itself will give to `Interlock`.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"load_crew takes the path of a crew, not {type(path).__name__}")
    known = _known_host(host)
    loaded = read_crew(path, msgspec.structs.replace(known, tools=(*known.tools, *PythonToolbox(tools).names)))
    if not loaded.readable:
        raise UnreadableCrew(os.fspath(path), loaded.problems)
    if loaded.crew is None or not loaded.is_sound:
        raise UnsoundCrew(os.fspath(path), loaded.problems)
    return loaded.crew
