"""The page that is shipped is the one whose source is here."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec

from interlock.server.http.guard import CONTENT_POLICY
from tests.tools import needs
from web.document import FILE as DOCUMENT
from web.document import document_text
from web.stamp import FILE, SOURCES, STATIC, WEB, Stamp, hashes, stamp

AGAIN = "if the page is right: make web"


def test_the_build_is_made_of_these_sources() -> None:
    assert msgspec.json.decode(FILE.read_bytes(), type=Stamp) == stamp(), AGAIN


def test_the_types_of_the_page_are_those_of_the_server() -> None:
    assert DOCUMENT.read_text("utf-8") == document_text(), AGAIN


@needs(
    shutil.which("npm") is not None and (WEB / "node_modules").is_dir(),
    "Node and web/node_modules are not here: make page-tools",
)
def test_a_build_gives_the_same_bytes(tmp_path: Path) -> None:
    command = ["npx", "vite", "build", "--outDir", str(tmp_path), "--emptyOutDir", "--logLevel", "warn"]
    subprocess.run(command, cwd=WEB, check=True, timeout=100, env={**os.environ, "NO_UPDATE_NOTIFIER": "1"})
    built = [file for file in sorted(tmp_path.rglob("*")) if file.is_file()]
    assert hashes(built, tmp_path) == hashes([file for file in sorted(STATIC.rglob("*")) if file.is_file()], STATIC)


def test_the_page_needs_nothing_that_its_policy_forbids() -> None:
    assert "unsafe" not in CONTENT_POLICY
    page = (STATIC / "index.html").read_text("utf-8")
    assert "style=" not in page
    assert re.findall(r"<script(?![^>]* src=\"static/)", page) == []
    assert {
        found for found in re.findall(r"(?:src|href)=\"([^\"]*)\"", page) if not found.startswith("static/")
    } == set()


def test_what_agents_say_is_never_written_as_html() -> None:
    sources = [file for file in (WEB / "src").rglob("*.ts*") if file.name != "schema.ts"]
    assert len(sources) > 40
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert [file.name for file in sources if word in file.read_text("utf-8")] == []


def test_every_source_is_there() -> None:
    assert [name for name in SOURCES if not (WEB / name).is_file()] == []
