"""What runs have cost, over HTTP."""

from pathlib import Path

from interlock.testing import ManualClock
from tests.server.office import code_of, open_office

HOUR_MS = 3_600_000


async def test_usage_is_told_by_crew_agent_and_hour(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        empty = (await office.get("/v1/usage")).json()
        assert (empty["runs"], empty["crews"], empty["times"]) == (0, [], [])
        run = await office.finished("over to you [NEXT]")
        report = (await office.get("/v1/usage", params={"since": run["created_at"]})).json()
        (crew,) = report["crews"]
        assert (report["runs"], crew["crew"], crew["runs"]) == (1, "office", 1)
        assert {each["agent"]: each["usage"]["calls"] for each in crew["agents"]} == {"clerk": 1, "boss": 1}
        (hour,) = report["times"]
        assert (hour["crew"], hour["usage"]) == ("office", run["usage"])
        assert report["step_ms"] == HOUR_MS
        assert hour["at"] == run["created_at"] // HOUR_MS * HOUR_MS
        later = (await office.get("/v1/usage", params={"since": run["created_at"] + 1})).json()
        assert (later["runs"], later["times"]) == (0, [])
        assert (await office.get("/v1/usage")).json()["step_ms"] == 24 * HOUR_MS


async def test_usage_over_time_is_told_by_agent_if_asked_for(tmp_path: Path) -> None:
    async with open_office(tmp_path, clock=ManualClock()) as office:
        clock = office.box.clock
        assert isinstance(clock, ManualClock)
        first = await office.finished("over to you [NEXT]")
        clock.advance(HOUR_MS)
        second = await office.finished()
        asked = {"since": first["created_at"], "by": "agent"}
        report = (await office.get("/v1/usage", params=asked)).json()
        at, later = (run["created_at"] // HOUR_MS * HOUR_MS for run in (first, second))
        assert [(each["at"], each["crew"], each["agent"], each["usage"]["calls"]) for each in report["times"]] == [
            (at, "office", "boss", 1),
            (at, "office", "clerk", 1),
            (later, "office", "clerk", 1),
        ]
        by_crew = (await office.get("/v1/usage", params={**asked, "by": "crew"})).json()
        assert [(each["at"], each["agent"], each["usage"]["calls"]) for each in by_crew["times"]] == [
            (at, "", 2),
            (later, "", 1),
        ]
        assert {**report, "times": []} == {**by_crew, "times": []}
        assert code_of(await office.get("/v1/usage", params={"by": "colour"})) == (400, "bad-parameter")


async def test_usage_of_one_crew_and_a_wrong_time(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await office.finished()
        assert (await office.get("/v1/usage", params={"crew": "nobody"})).json()["runs"] == 0
        assert (await office.get("/v1/usage", params={"crew": "office"})).json()["runs"] == 1
        refused = await office.get("/v1/usage", params={"since": -1})
        assert (refused.status_code, refused.json()["code"]) == (400, "bad-parameter")
