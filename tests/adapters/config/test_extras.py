"""The line that installs an extra works for how Interlock was installed."""

import shlex
import sys
from pathlib import Path

import pytest

from interlock.adapters.config import extras
from interlock.adapters.config.extras import install_line, missing_extra_message


class Installed:
    """A distribution with the files that its installer left."""

    def __init__(self, **files: str) -> None:
        self.files = files

    def read_text(self, name: str) -> str | None:
        return self.files.get(name.removesuffix(".json"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(sys, "executable", "/opt/env/bin/python")
    monkeypatch.setattr("shutil.which", lambda _name: None)
    (tmp_path / "env").mkdir()
    return monkeypatch


def line(installed: pytest.MonkeyPatch, distribution: Installed | None) -> str:
    installed.setattr(extras, "_distribution", lambda: distribution)
    return install_line("server")


def test_from_an_index_the_running_interpreter_installs_it(installed: pytest.MonkeyPatch) -> None:
    assert line(installed, Installed(INSTALLER="pip\n")) == "/opt/env/bin/python -m pip install 'interlock[server]'"
    assert line(installed, None) == "/opt/env/bin/python -m pip install 'interlock[server]'"


def test_python_is_named_shortly_where_that_name_leads_here(installed: pytest.MonkeyPatch) -> None:
    installed.setattr("shutil.which", lambda _name: "/opt/env/bin/python")
    assert line(installed, Installed(INSTALLER="pip\n")) == "python -m pip install 'interlock[server]'"


def test_from_a_checkout_its_folder_is_named_and_stays_editable(installed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "my checkout"
    folder.mkdir()
    url = folder.as_uri()
    copied = Installed(INSTALLER="pip\n", direct_url=f'{{"url": "{url}", "dir_info": {{}}}}')
    assert line(installed, copied) == f"/opt/env/bin/python -m pip install {shlex.quote(f'{folder}[server]')}"
    linked = Installed(INSTALLER="pip\n", direct_url=f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    assert line(installed, linked).endswith(f"-m pip install -e {shlex.quote(f'{folder}[server]')}")


@pytest.mark.parametrize(
    "note", ['{"url": "file:///nowhere/at/all", "dir_info": {}}', '{"url": "https://example.org/i.whl"}', "no json"]
)
def test_what_is_gone_or_elsewhere_is_not_named(installed: pytest.MonkeyPatch, note: str) -> None:
    assert line(installed, Installed(INSTALLER="pip", direct_url=note)).endswith("pip install 'interlock[server]'")


def test_uv_and_pipx_are_asked_where_they_installed_it(installed: pytest.MonkeyPatch) -> None:
    by_uv = Installed(INSTALLER="uv")
    assert line(installed, by_uv) == "uv pip install --python /opt/env/bin/python 'interlock[server]'"
    Path(sys.prefix, "pipx_metadata.json").touch()
    assert line(installed, by_uv) == "pipx install --force 'interlock[server]'"
    Path(sys.prefix, "uv-receipt.toml").touch()
    assert line(installed, by_uv) == "uv tool install --force 'interlock[server]'"


def test_the_sentence_names_what_the_extra_and_what_is_missing(installed: pytest.MonkeyPatch) -> None:
    assert missing_extra_message("interlock serve", "server", "fastapi").startswith(
        "interlock serve needs the extra 'server' (fastapi is not installed); install it with: "
    )
