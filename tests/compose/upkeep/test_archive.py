"""Runs taken elsewhere: forked, written as scripts, exported and imported, deleted, backed up, looked after."""

import sqlite3
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, UsageError
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.crews.script_files import read_script
from interlock.adapters.files.run_scripts import crew_test_yaml, script_yaml
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ScriptUsage, ToolCall
from interlock.adapters.tools.python_tools import tool
from interlock.compose.crews import load_definition
from interlock.compose.upkeep.archive import delete_run, export_run, import_run, prune_runs
from interlock.compose.upkeep.doctor import check_store
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.errors import CannotFork, DamagedRun, RunDeleted, RunExists, StoreFailed
from interlock.ports import Record
from interlock.testing import ManualClock
from tests.boxes import sqlite_of

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, tools: [note]}, {id: b}, {id: c}]
signals: [{name: "[ALL]", behavior: parallel, description: both at once}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[ALL]", target: both}, {signal: "[WAIT]"}, {signal: "[END]"}]
    b: [{signal: "[RETRY]", target: a}]
    c: [{signal: "[RETRY]", target: a}]
  parallel_groups:
    both: {agents: [b, c], next_agent: a, timeout_seconds: 5}
settings: {retry_backoff_min_millis: 1}
"""

ANSWERS: dict[str, list[ScriptedAnswer | str]] = {
    "a": [
        ScriptedAnswer(text="let me note", tool_calls=(ToolCall("note", {"text": "x: 1e3"}),)),
        ScriptedAnswer(text="both, please\n[ALL]", usage=ScriptUsage(12, 5, 0.25, 6, 3, 2)),
        "one more\n[WAIT]",
        ScriptedAnswer(error="overloaded"),
        'it\'s "over"\t\x7f\u2028 ông\n\n  [END]',
    ],
    "b": [ScriptedAnswer(text="1e3", delay_seconds=0.01)],
    "c": ["12:30"],
}


@tool
def note(text: str) -> str:
    """Writes it down."""
    return f"noted {text}"


def crew_in(folder: Path) -> CrewDefinition:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return load_definition(folder, host=Host(tools=("note",)))


def box_in(folder: Path, **options: Any) -> Interlock:
    return Interlock(folder / "data", tools=[note], **options)


async def played(box: Interlock, crew: CrewDefinition) -> str:
    run = await box.start(crew, "go")
    assert (await run.result()).status == "paused"
    await (await box.resume(run.id, "yes, go on")).result()
    return run.id


async def a_run(folder: Path) -> str:
    crew = crew_in(folder)
    async with box_in(folder, models=ScriptedModel(ANSWERS)) as box:
        return await played(box, crew)


def told(records: Sequence[Record], run: str) -> list[str]:
    """The events without times and without the run's own id."""
    return [
        repr(event).replace(run, "RUN").split("worked_ms=")[-1].partition(",")[2] or repr(event).replace(run, "RUN")
        for record in records
        for event in record.events
    ]


async def test_a_run_written_as_a_script_plays_again_as_it_was(tmp_path: Path) -> None:
    run, crew = await a_run(tmp_path), crew_in(tmp_path)
    async with box_in(tmp_path) as box:
        records = await box.journal.records(run)
    file = tmp_path / "script.yaml"
    async with box_in(tmp_path) as box:
        file.write_text(script_yaml(await box.journal.tree(run)), "utf-8")
    async with box_in(tmp_path, script=file) as box:
        again = await played(box, crew)
    async with box_in(tmp_path) as box:
        assert sorted(told(await box.journal.records(again), again)) == sorted(told(records, run))
    async with box_in(tmp_path) as box:
        assert (await box.result(again)).usage.cost_micros == 250_000


async def test_a_call_that_was_never_answered_keeps_its_place_in_a_script(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    model = ScriptedModel({"a": ["x\n[ALL]"], "b": ["fine"], "c": [ScriptedAnswer(text="slow", delay_seconds=600)]})

    async with box_in(tmp_path, models=model) as box:
        run = await box.start(crew, "go")
        async for event in box.runner.follow(run.id):
            if event["type"] == "branch.finished":
                break
        await (await box.cancel(run.id)).result()
        (tmp_path / "s.yaml").write_text(script_yaml(await box.journal.tree(run.id)), "utf-8")
    answers = read_script(tmp_path / "s.yaml")
    assert answers["b"] == ["fine"]
    assert answers["c"] == [ScriptedAnswer(error="was never answered", delay_seconds=86400)]


async def test_final_errors_and_exhausted_scripts_are_the_same_again(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)

    async def ending(box: Interlock) -> tuple[str, str]:
        result = await (await box.start(crew, "go")).result()
        return result.reason, script_yaml(await box.journal.tree(result.run))

    for answers in ({"a": [ScriptedAnswer(error="no such key", retry=False)]}, {"a": ["x [NEXT]\n[NEXT]"]}):
        async with box_in(tmp_path, models=ScriptedModel(answers)) as box:
            first = await ending(box)
        (tmp_path / "s.yaml").write_text(first[1], "utf-8")
        async with box_in(tmp_path, script=tmp_path / "s.yaml") as box:
            assert await ending(box) == first


async def test_tool_arguments_that_are_no_object_survive_in_a_script(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    model = ScriptedModel({"a": [ScriptedAnswer(tool_calls=(ToolCall("note", "not {json"),)), "y\n[END]"]})

    async with box_in(tmp_path, models=model) as box:
        (tmp_path / "s.yaml").write_text(
            script_yaml(await box.journal.tree((await (await box.start(crew, "go")).result()).run)), "utf-8"
        )
    assert read_script(tmp_path / "s.yaml")["a"][0] == ScriptedAnswer(tool_calls=(ToolCall("note", "not {json"),))


async def test_a_run_written_as_a_test_holds_input_answers_and_what_came_of_it(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    async with box_in(tmp_path) as box:
        text = crew_test_yaml(await box.journal.tree(run))
    assert text.startswith("input: go\nscript:\n  a:\n")
    expected = """\
        expect:
          turns:
          - a
          - b
          - c
          - a
          - a
          status: completed
          reason: "signal:[END]"
        answers:
        - "yes, go on"
        """
    assert text.endswith(textwrap.dedent(expected))


# Forking


async def places(folder: Path, run: str) -> dict[int, str]:
    """Every end of a record, with what forking there gives."""

    async with box_in(folder, models=ScriptedModel(ANSWERS)) as box:
        found = {}
        for record in await box.journal.records(run):
            try:
                result = await (await box.fork(run, record.last_seq)).result()
                found[record.last_seq] = result.status
            except CannotFork as refused:
                found[record.last_seq] = " ".join(map(str, refused.near))
        return found


async def test_a_run_forks_wherever_nothing_is_open_and_names_the_nearest_places_elsewhere(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    found = await places(tmp_path, run)
    seqs = list(found)
    # started, a tool called, a tool returned; a group open, a branch done, joined; paused, resumed, failed, tried, over
    assert [value if value.isalpha() else "" for value in found.values()] == [
        *("paused", "paused", "paused", "", ""),
        *("paused", "", "completed", "completed", "completed", ""),
    ]
    assert found[seqs[3]] == f"{seqs[2]} {seqs[5]}"
    assert found[seqs[-1]] == str(seqs[-2])


async def test_a_fork_keeps_what_was_recorded_and_has_keys_of_its_own(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    model = ScriptedModel(ANSWERS)

    async with box_in(tmp_path, models=model) as box:
        before = await box.journal.records(run)
        after = next(r.last_seq for r in before if any("GroupJoined" in repr(event) for event in r.events))
        fork = (await (await box.fork(run, after)).result()).run
        assert (await box.state(fork)).status == "paused"  # so it replays
        records = await box.journal.records(fork)
    same = [line.replace(run, "RUN") for line in told(records, fork)]  # ids that the model gave are its words
    assert same == told(before, run)[: len(same)]
    assert [(request.agent, request.number) for request in model.asked] == [("a", 3)]
    assert model.asked[0].key.startswith(f"{fork}:")


async def test_a_fork_names_the_run_it_goes_on_from_also_where_that_one_continues_another(tmp_path: Path) -> None:
    crew, model = crew_in(tmp_path), ScriptedModel({"a": ["x\n[END]"]})

    async with box_in(tmp_path, models=model) as box:
        first = await (await box.start(crew, "one")).result()
        second = await (await box.continue_run(crew, "two", first.run)).result()
        fork = await (await box.fork(second.run, (await box.journal.records(second.run))[0].last_seq)).result()
        assert (first.continues, second.continues, fork.continues) == ("", first.run, second.run)
        assert [row.continues for row in await box.journal.rows() if row.run == fork.run] == [second.run]
    assert (await check_store(tmp_path / "data")).problems == []


async def test_a_fork_inside_a_record_or_beyond_the_end_is_refused(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    for after in (0, 1, 10_000):
        with pytest.raises(CannotFork, match="nearest: "):
            async with box_in(tmp_path) as box:
                await box.fork(run, after)


# Out and in


async def test_an_exported_run_is_the_same_elsewhere(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    async with box_in(tmp_path) as box:
        body = await export_run(box, run)
    (tmp_path / "other").mkdir()
    async with box_in(tmp_path / "other") as box:
        row = await import_run(box, body, "f")
    assert row.run == run
    async with box_in(tmp_path / "other") as other, box_in(tmp_path) as box:
        assert await other.result(run) == await box.result(run)
        assert (await export_run(other, run)).split(b"\n")[1:-2] == body.split(b"\n")[1:-2]
    for folder in (tmp_path, tmp_path / "other"):
        with pytest.raises(RunExists):
            async with box_in(folder) as box:
                await import_run(box, body, "f")


async def test_no_byte_of_an_export_can_change_unnoticed(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    async with box_in(tmp_path) as box:
        body = await export_run(box, run)

    (tmp_path / "other").mkdir()
    async with box_in(tmp_path / "other") as box:
        for n in range(0, len(body) - 1, 97):
            changed = body[:n] + bytes([body[n] ^ 1]) + body[n + 1 :]
            with pytest.raises((DamagedRun, UsageError, StoreFailed)):
                await import_run(box, changed, "f")
        for end in (0, 10, body.rindex(b"\n", 0, -1), len(body) // 2, len(body) - 2):
            with pytest.raises((DamagedRun, UsageError)):
                await import_run(box, body[:end], "f")
        assert list(await box.journal.rows()) == []


async def test_a_deleted_run_comes_back_from_its_export(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    async with box_in(tmp_path) as box:
        body = await export_run(box, run)
    async with box_in(tmp_path) as box:
        await delete_run(box, run)
    with pytest.raises(RunDeleted):
        async with box_in(tmp_path) as box:
            await box.result(run)
    async with box_in(tmp_path) as box:
        await import_run(box, body, "f")
    async with box_in(tmp_path) as box:
        assert (await box.result(run)).status == "completed"


async def test_pruning_takes_finished_runs_by_age_and_leaves_paused_ones(tmp_path: Path) -> None:
    crew, clock = crew_in(tmp_path), ManualClock()

    model = ScriptedModel({"a": ["x\n[END]"]})
    async with box_in(tmp_path, models=model, clock=clock) as box:
        old = await (await box.start(crew, "one", run_id="old")).result()
        assert old.status == "completed"
        clock.jump(10 * 86_400_000)
        await (await box.start(crew, "two", run_id="new")).result()
        pruned = [await prune_runs(box, days) for days in (11, 9)]
        assert [*pruned, [row.run for row in await box.journal.rows()]] == [[], ["old"], ["new"]]
    paused = await a_paused_run(tmp_path)
    clock.jump(10_000 * 86_400_000)
    async with box_in(tmp_path, clock=clock) as box:
        assert await prune_runs(box, 1) == ["new"]
    async with box_in(tmp_path) as box:
        assert (await box.result(paused)).status == "paused"


async def a_paused_run(folder: Path) -> str:
    crew = crew_in(folder)

    async with box_in(folder, models=ScriptedModel({"a": ["x\n[WAIT]"]})) as box:
        return (await (await box.start(crew, "go")).result()).run


async def test_a_running_run_is_not_deleted(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)

    async with box_in(tmp_path, models=ScriptedModel({"a": [ScriptedAnswer(text="x", delay_seconds=600)]})) as box:
        run = await box.start(crew, "go")
        with pytest.raises(UsageError, match="cancel"):
            await delete_run(box, run.id)


# Backup and doctor


async def test_a_backup_made_while_runs_go_on_is_whole(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    copy = tmp_path / "copy" / "data" / "interlock.db"
    copy.parent.mkdir(parents=True)

    async with box_in(tmp_path, models=ScriptedModel({"a": ["x\n[END]"]})) as box:
        first = await (await box.start(crew, "go", run_id="first")).result()
        assert first.status == "completed"
        others = [await box.start(crew, "go") for _ in range(10)]
        await sqlite_of(box).backup(copy)
        for run in others:
            await run.result()
        with pytest.raises(StoreFailed, match="exists already"):
            await sqlite_of(box).backup(copy)
    assert [file.name for file in copy.parent.iterdir()] == ["interlock.db"]
    assert (await check_store(copy.parent)).problems == []
    async with box_in(tmp_path / "copy") as box:
        assert (await box.result("first")).status == "completed"


async def test_the_doctor_finds_a_sound_folder_well(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    await a_paused_run(tmp_path)
    found = await check_store(tmp_path / "data")
    assert (found.problems, found.notes, found.runs, found.deleted) == ([], [], 2, 0)
    async with box_in(tmp_path) as box:
        await delete_run(box, run)
    found = await check_store(tmp_path / "data")
    assert (found.problems, found.runs, found.deleted) == ([], 1, 1)


async def test_the_doctor_names_how_many_runs_are_due_and_deletes_none(tmp_path: Path) -> None:
    await a_run(tmp_path)
    await a_paused_run(tmp_path)
    for days, notes in ((1, 0), (0, 1), (None, 0)):
        found = await check_store(tmp_path / "data", HostSettings(retention_days=days))
        assert (len(found.notes), found.problems, found.runs) == (notes, [], 2)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("update records set crc = crc + 1 where position = 2", "the crc of the record"),
        ("delete from records where position = 2", "there is no record at seq"),
        ("update records set link = x'00' where position = 2", "the chain breaks at seq"),
        ("update runs set seq = seq + 1", "the crc of its row does not match"),
        ("update runs set status = 'failed'", "the crc of its row does not match"),
        ("delete from crews", "there is no crew with sha256"),
        ("delete from runs", "records belong to no run"),
    ],
)
async def test_the_doctor_names_what_is_wrong(tmp_path: Path, damage: str, expected: str) -> None:
    await a_run(tmp_path)
    connection = sqlite3.connect(tmp_path / "data" / "interlock.db")
    connection.execute(damage)
    connection.commit()
    connection.close()
    (problem,) = (await check_store(tmp_path / "data")).problems
    assert expected in problem


async def test_the_doctor_tells_of_damaged_files_and_stray_owner_files(tmp_path: Path) -> None:
    await a_run(tmp_path)
    data = tmp_path / "data"
    (data / "owners" / "77-dead.lock").touch()
    (data / "owners" / "what").touch()
    found = await check_store(data)
    assert found.notes == ["removed the owner file '77-dead.lock' of a process that is gone"]
    assert found.problems == [f"'what' in '{data / 'owners'}' is not an owner file; move it away"]
    (data / "interlock.db").write_bytes(b"nonsense" * 1000)
    assert "not a database" in " ".join((await check_store(data)).problems)
    with pytest.raises(UsageError, match=r"there is no interlock\.db"):
        await check_store(tmp_path / "nowhere")
