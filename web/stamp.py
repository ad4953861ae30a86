"""Says which sources the committed build was made of: `python -m web.stamp` after a build, compared by a test.

So a change of the page without a build is found where there is no Node, and a build that somebody edited by hand too.
"""

import hashlib
from pathlib import Path

import msgspec

WEB = Path(__file__).parent
STATIC = WEB.parent / "src" / "interlock" / "server" / "static"
FILE = WEB / "build.json"

# What a build is made of.
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
