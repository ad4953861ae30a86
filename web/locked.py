"""Checks that web/node_modules matches web/package-lock.json, by version and integrity.

npm checks each file that it fetches against the lock; this checks that every installed version comes from the lock.
`npm ci` would do that too, but it needs the builds of the tools for every other system, and not every registry has
them: those are optional in the lock, and only they may be missing.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

WEB = Path(__file__).parent
MODULES = "node_modules"
INSTALLED = f"{MODULES}/.package-lock.json"  # written by npm, with the integrity of what it unpacked


def faults(web: Path = WEB) -> Iterator[str]:
    """Packages that are missing, not in the lock, or different from it."""
    lock = _read(web / "package-lock.json")["packages"]
    found = _read(web / INSTALLED)["packages"]
    yield from _of_wishes(_read(web / "package.json"), lock[""])
    for place, package in found.items():
        yield from _of_package(web, place, package, lock.get(place))
    for place, package in lock.items():
        if place and place not in found and not package.get("optional"):
            yield f"{place} is in the lock and not installed"


def _of_wishes(wanted: Mapping[str, Any], locked: Mapping[str, Any]) -> Iterator[str]:
    for group in ("dependencies", "devDependencies"):
        if wanted.get(group, {}) != locked.get(group, {}):
            yield f"package-lock.json was made for other {group} than package.json has"


def _of_package(web: Path, place: str, package: Mapping[str, Any], locked: Mapping[str, Any] | None) -> Iterator[str]:
    if locked is None:
        yield f"{place} is installed and not in the lock"
        return
    for what in ("version", "integrity"):
        if not locked.get(what) or package.get(what) != locked[what]:
            yield f"{place}: {what} {package.get(what)} is installed, the lock has {locked.get(what)}"
    manifest = web / place / "package.json"
    there = _read(manifest).get("version") if manifest.is_file() else None
    if there != locked.get("version"):
        yield f"{place}: its own package.json says {there}, the lock has {locked.get('version')}"


def _read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def main() -> int:
    found = list(faults())
    for fault in found:
        sys.stderr.write(f"{fault}\n")
    if found:
        sys.stderr.write("web/node_modules is not what the lock says; remove it, and run 'make page-tools'\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
