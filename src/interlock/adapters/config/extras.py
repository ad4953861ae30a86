"""The command that adds an extra to this installation, for messages about missing packages.

Rule: it works as printed, from any folder, for the running interpreter and the tool that installed Interlock.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = "interlock"


class _Origin(msgspec.Struct):
    """The source of a package that was installed from a path or an address (direct_url.json)."""

    url: str = ""
    dir_info: dict[str, bool] | None = None


def install_line(extra: str, *more: str) -> str:
    """The command that installs an extra of Interlock, and further packages with it."""
    found = _distribution()
    is_editable, source = _source_of(found) if found is not None else (False, "")
    wanted = shlex.quote(f"{source or PACKAGE}[{extra}]")
    packages = " ".join((f"-e {wanted}" if is_editable else wanted, *map(shlex.quote, more)))
    return f"{_tool(found, more)} {packages}"


def missing_extra_message(what: str, extra: str, missing: str = "") -> str:
    """The error message of a command that needs an extra."""
    absent = f" ({missing} is not installed)" if missing else ""
    return f"{what} needs the extra '{extra}'{absent}; install it with: {install_line(extra)}"


def _distribution() -> "Distribution | None":
    from importlib.metadata import PackageNotFoundError, distribution  # slow to load and rarely needed

    try:
        return distribution(PACKAGE)
    except PackageNotFoundError:  # run from source, not installed
        return None


def _source_of(found: "Distribution") -> tuple[bool, str]:
    """True if it is an editable install, and its source folder or file if that still exists."""
    try:
        origin = msgspec.json.decode(found.read_text("direct_url.json") or "{}", type=_Origin)
    except (msgspec.DecodeError, OSError):
        return False, ""
    address = urlsplit(origin.url)
    path = Path(unquote(address.path))
    if address.scheme != "file" or not path.exists():
        return False, ""
    return bool((origin.dir_info or {}).get("editable")), str(path)


def _tool(found: "Distribution | None", more: tuple[str, ...]) -> str:
    if Path(sys.prefix, "uv-receipt.toml").exists() and not more:
        return "uv tool install --force"
    if Path(sys.prefix, "pipx_metadata.json").exists() and not more:
        return "pipx install --force"
    installer = (found.read_text("INSTALLER") or "").strip() if found is not None else ""
    if installer == "uv":
        return f"uv pip install --python {shlex.quote(sys.executable)}"
    return f"{_interpreter()} -m pip install"


def _interpreter() -> str:
    """`python` if that name starts this interpreter, else its path."""
    known = shutil.which("python")
    is_this = known is not None and os.path.normpath(known) == os.path.normpath(sys.executable)
    return "python" if is_this else shlex.quote(sys.executable)
