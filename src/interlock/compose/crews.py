"""Loads crews and interlock.toml from disk."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from interlock.adapters.config.host_file import HostSettings, host_of, read_settings
from interlock.adapters.models.openai.providers import missing_key_variables
from interlock.adapters.tools.python_tools import PythonTool, PythonToolbox
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.crew.unsound import UnreadableCrew, UnsoundCrew
from interlock.errors import UsageError

if TYPE_CHECKING:
    from interlock.adapters.crews.crew_files import LoadedCrew

HOST_FILE = "interlock.toml"


# The path of an interlock.toml, or the settings that were read from one.
AnyHost = str | os.PathLike[str] | Host | HostSettings


def host_settings(config: str | os.PathLike[str] | None = None) -> HostSettings:
    """Settings of interlock.toml: the named file, or the one in the working folder if there is one."""
    file = find_host_file(config).path
    return read_settings(file) if file is not None else HostSettings()


class HostFile(NamedTuple):
    """The interlock.toml that is used, and those beside crews that are not."""

    path: Path | None
    passed_over: tuple[Path, ...] = ()


def find_host_file(config: str | os.PathLike[str] | None, crews: Sequence[str | os.PathLike[str]] = ()) -> HostFile:
    """Finds the named file, the one in the working folder, or the one in the folder of the crews.

    Raises `UsageError` if crews have different ones and none was chosen.
    """
    beside = _host_files_beside(crews)
    if config is not None:
        return HostFile(Path(config))
    if Path(HOST_FILE).exists():
        mine = Path(HOST_FILE).read_bytes() if beside else b""
        others = [file for file in beside if not file.samefile(HOST_FILE) and file.read_bytes() != mine]
        return HostFile(Path(HOST_FILE), tuple(others))
    if len(beside) > 1:
        files = " and ".join(map(str, beside))
        raise UsageError(f"these crews have different host files: {files}; choose one with --config")
    return HostFile(beside[0] if beside else None)


def _host_files_beside(crews: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Host files in the folders of crews, each once."""
    files = {Path(os.path.realpath(file)): file for file in (_folder_of(crew) / HOST_FILE for crew in crews)}
    return [file for real, file in files.items() if os.path.isfile(real)]  # noqa: PTH113 - never raises


def _folder_of(crew: str | os.PathLike[str]) -> Path:
    return Path(crew) if os.path.isdir(crew) else Path(crew).parent  # noqa: PTH112 - never raises


def settings_from(host: AnyHost | None) -> HostSettings:
    """Settings for any kind of host; the defaults without one."""
    if host is None:
        return HostSettings()
    if isinstance(host, HostSettings):
        return host
    if isinstance(host, Host):
        return read_settings(Path(host.file)) if host.file else HostSettings()
    if isinstance(host, str | os.PathLike):
        return read_settings(Path(host))
    raise UsageError(f"host must be the path of an {HOST_FILE}, or a value of load_host, not {type(host).__name__}")


def load_host(config: str | os.PathLike[str] | None = None, crew: str | os.PathLike[str] | None = None) -> Host:
    """Loads the host from interlock.toml and the environment; the modules of its tools are read, not executed.

    The file is `config`, the one in the working folder, or the one in the crew's folder.
    """
    crews = () if crew is None else (crew,)
    file = find_host_file(config, crews).path
    if file is not None:
        return _host_of(read_settings(file))
    searched = dict.fromkeys((str(Path.cwd()), *(os.path.realpath(_folder_of(each)) for each in crews)))
    return msgspec.structs.replace(_host_of(HostSettings()), searched=tuple(searched))


def _host_of(settings: HostSettings) -> Host:
    unset = missing_key_variables(settings.provider_settings, os.environ)
    return msgspec.structs.replace(host_of(settings), unset_keys=unset, needs_models=True)


def resolve_host(host: AnyHost | None, crew: str | os.PathLike[str]) -> Host:
    """The host that checks need: the given one, or that of the working folder or of the crew's folder."""
    if isinstance(host, Host):
        return host
    return load_host(crew=crew) if host is None else _host_of(settings_from(host))


def load_definition(
    path: str | os.PathLike[str],
    *,
    host: AnyHost | None = None,
    tools: Sequence[PythonTool | Callable[..., Any]] = (),
) -> CrewDefinition:
    """Loads a crew and checks it; raises `UnsoundCrew` with every problem, or `UnreadableCrew`."""
    loaded = load_sound(path, host=host, tools=PythonToolbox(tools).names)
    assert loaded.crew is not None, "a sound crew was read"
    return loaded.crew


def load_sound(path: str | os.PathLike[str], *, host: AnyHost | None = None, tools: Sequence[str] = ()) -> "LoadedCrew":
    """Reads a crew that must be sound; `tools` are the names of tools that the program will give."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"load_crew takes the path of a crew, not {type(path).__name__}")
    from interlock.adapters.crews.crew_files import read_crew  # YAML and the checks load with the first crew

    known = resolve_host(host, path)
    loaded = read_crew(path, msgspec.structs.replace(known, tools=(*known.tools, *tools)))
    if not loaded.readable:
        raise UnreadableCrew(os.fspath(path), loaded.problems)
    if loaded.crew is None or not loaded.is_sound:
        raise UnsoundCrew(os.fspath(path), loaded.problems)
    return loaded
