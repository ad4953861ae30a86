"""Finding 2.8: crews are read again on SIGHUP or `--reload`; runs keep theirs; which revision serves can be seen."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.adapters.crew_files import read_crew
from interlock.errors import UsageError
from interlock.server.crews import ServedCrews
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


def test_two_crews_that_take_one_name_are_left_as_they_were(tmp_path: Path) -> None:
    def read(name: str, title: str) -> Any:
        (tmp_path / f"{name}.yaml").write_text(CREW.replace("office", title), "utf-8")
        return read_crew(tmp_path / f"{name}.yaml")

    crews = ServedCrews([read("a", "one"), read("b", "two")])
    with pytest.raises(UsageError, match="two of the crews are called 'one'"):
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
