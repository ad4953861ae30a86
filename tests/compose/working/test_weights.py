"""[worker] weights of interlock.toml are the shares of organizations in what a worker drives."""

from collections import Counter
from pathlib import Path

from interlock import Interlock, load_crew, load_host
from interlock.runtime.claiming.work import WorkSettings

CREW = """\
version: "2.0"
name: of-ORGANIZATION
settings: {organization: ORGANIZATION}
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
"""


async def claimed_by_nine(folder: Path, weights: str) -> Counter[str]:
    """The organizations of what a process with room for nine runs claims of twelve of each."""
    (folder / "interlock.toml").write_text(f"[worker]\nweights = {weights}\n", "utf-8")
    async with Interlock(folder / "data", work=WorkSettings(drives=False)) as box:
        for organization in ("acme", "other"):
            (folder / "crew.yaml").write_text(CREW.replace("ORGANIZATION", organization), "utf-8")
            for n in range(12):
                await box.start(load_crew(folder), "go", run_id=f"{organization}{n}")
    host, work = load_host(folder / "interlock.toml"), WorkSettings(drives=False, runs_max=9)
    async with Interlock(folder / "data", host=host, work=work) as box:
        claimed = await box.runner.live_runs.claim_waiting(9)
        return Counter([(await box.journal.row(each.run)).organization for each in claimed])


async def test_an_organization_gets_its_weight_of_what_a_process_claims(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert await claimed_by_nine(tmp_path / "one", "{}") == {"acme": 5, "other": 4}
    assert await claimed_by_nine(tmp_path / "two", "{acme = 2}") == {"acme": 6, "other": 3}
