"""Writes the hashes of the sources and the committed build: `python -m web.stamp` after a build.

A test compares them. It finds a change without a build, and a build that was edited by hand, also without Node.
"""

import hashlib
from pathlib import Path

import msgspec

WEB = Path(__file__).parent
STATIC = WEB.parent / "src" / "interlock" / "server" / "static"
FILE = WEB / "build.json"

# The inputs of a build.
SOURCES = ("index.html", "openapi.json", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
FOLDERS = ("src", "public")


class Stamp(msgspec.Struct, frozen=True):
    """Hashes by path."""

    sources: dict[str, str]
    built: dict[str, str]


def stamp() -> Stamp:
    sources = [WEB / name for name in SOURCES]
    sources += [file for folder in FOLDERS for file in sorted((WEB / folder).rglob("*")) if file.is_file()]
    built = [file for file in sorted(STATIC.rglob("*")) if file.is_file()]
    return Stamp(hashes(sources, WEB), hashes(built, STATIC))


def hashes(files: list[Path], below: Path) -> dict[str, str]:
    return {file.relative_to(below).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


if __name__ == "__main__":
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(stamp()), indent=1) + b"\n")
