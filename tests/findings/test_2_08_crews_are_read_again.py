"""Finding 2.8: crews are read again on SIGHUP or `--reload`; runs keep theirs; which revision serves can be seen."""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from interlock.adapters.crews.crew_files import read_crew
from interlock.errors import UsageError
from interlock.server.crews import ServedCrews
from tests.server.browser import entered, looking, needs_chromium
from tests.server.process import CREW, Served, serving

ANOTHER = CREW.replace("name: office", "name: office\ndescription: newer")
BROKEN = CREW.replace("target: boss", "target: bos")


def crew_now(server: Served) -> dict[str, Any]:
    with server.asking() as client:
        return dict(client.get("/v1/crews").json()["crews"][0])


def until(server: Served, check: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Asks until it is so; a failure ends by the timeout of the test."""
    while not check(found := crew_now(server)):
        pass
    return found


@pytest.mark.parametrize("by_signal", [True, False])
def test_a_changed_file_is_served_and_a_broken_one_is_not(tmp_path: Path, by_signal: bool) -> None:
    def change(text: str) -> None:
        (tmp_path / "crew.yaml").write_text(text, "utf-8")
        if by_signal:
            server.tell(signal.SIGHUP)

    with serving(tmp_path, *(() if by_signal else ("--reload",))) as server:
        first = crew_now(server)
        with server.asking() as client:
            run = client.post("/v1/runs", json={"crew": "office", "input": "hi"}).json()
        change(ANOTHER)
        second = until(server, lambda crew: crew["revision"] != first["revision"])
        assert (second["description"], second["newer_problems"]) == ("newer", 0)
        assert second["loaded_at"] >= first["loaded_at"] > 0
        change(BROKEN)
        kept = until(server, lambda crew: crew["newer_problems"] > 0)
        assert (kept["revision"], kept["sound"]) == (second["revision"], True)
        change(CREW)
        back = until(server, lambda crew: crew["newer_problems"] == 0)
        assert back["revision"] == first["revision"]
        with server.asking() as client:
            assert client.get(f"/v1/runs/{run['id']}").json()["status"] == "completed"
        assert "unknown-target" in server.log
        assert f"revision {second['revision']} is still served" in server.log


@pytest.mark.parametrize("option", [(), ("--reload",)])
def test_nothing_keeps_later_changes_from_being_served(tmp_path: Path, option: tuple[str, ...]) -> None:
    """A host's file that is no TOML, a crew's file that is away or no text: the next good one is served."""

    def change(name: str, content: bytes | None) -> None:
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_bytes(content)
        server.tell(signal.SIGHUP)

    with serving(tmp_path, *option) as server:
        first = crew_now(server)
        change("interlock.toml", b"[server")
        while "crews were not reloaded: interlock.toml is not TOML" not in server.log:
            pass
        (tmp_path / "interlock.toml").write_text("", "utf-8")
        for text, bad in ((ANOTHER, None), (CREW, b"\xff\xfe")):
            change("crew.yaml", bad)
            until(server, lambda crew: crew["newer_problems"] > 0)
            (tmp_path / "crew.yaml").write_text(text, "utf-8")
            if not option:
                server.tell(signal.SIGHUP)
            until(server, lambda crew: crew["newer_problems"] == 0)
        assert crew_now(server)["revision"] == first["revision"]


@needs_chromium
def test_the_page_says_which_revision_serves_and_since_when(tmp_path: Path) -> None:
    with serving(tmp_path) as server, looking(server) as look:
        page = entered(look, server)
        page.goto(f"{look.address}/#/crews/office")
        first, head = crew_now(server), page.locator(".run-head")
        said = rf"Revision {first['revision']}\. Loaded at server start \(\d\d:\d\d\); restart to pick up changes"
        expect(head).to_contain_text(re.compile(said))
        (tmp_path / "crew.yaml").write_text(ANOTHER, "utf-8")
        server.tell(signal.SIGHUP)
        second = until(server, lambda crew: crew["revision"] != first["revision"])
        assert (second["reloaded"], second["watched"]) == (True, False)
        page.reload()
        expect(head).to_contain_text(re.compile(rf"Revision {second['revision']}\. Loaded at \d\d:\d\d;"))
        (tmp_path / "crew.yaml").write_text(BROKEN, "utf-8")
        server.tell(signal.SIGHUP)
        until(server, lambda crew: crew["newer_problems"] > 0)
        page.reload()
        expect(head).to_contain_text("is not served")
        look.require_peace(page)


def test_two_crews_that_take_one_name_are_left_as_they_were(tmp_path: Path) -> None:
    def read(name: str, title: str) -> Any:
        (tmp_path / f"{name}.yaml").write_text(CREW.replace("office", title), "utf-8")
        return read_crew(tmp_path / f"{name}.yaml")

    crews = ServedCrews([read("a", "one"), read("b", "two")])
    with pytest.raises(UsageError, match="two crews have the name 'one'"):
        crews.replace([read("a", "one"), read("b", "one")], 5)
    assert [each.crew.name for each in crews.all()] == ["one", "two"]


def test_a_crew_that_was_mended_is_served(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(BROKEN, "utf-8")
    crews = ServedCrews([read_crew(tmp_path / "crew.yaml")])
    assert not crews.all()[0].is_sound
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    assert [each.is_sound for each in crews.replace([read_crew(tmp_path / "crew.yaml")], 5)] == [True]
    assert crews.replace([read_crew(tmp_path / "crew.yaml")], 6) == []


def test_a_new_agent_file_counts_as_a_change(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    read = read_crew(tmp_path / "crew.yaml").read
    assert {tmp_path / "crew.yaml", tmp_path / "agents"} <= set(read)
