"""Runs taken elsewhere: forked, written as scripts, exported and imported, deleted, backed up, looked after."""

import asyncio
import sqlite3
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from interlock import Interlock, UsageError, load_crew
from interlock.adapters.host_file import HostSettings
from interlock.adapters.models.scripted import Answer, ScriptedModel, ScriptUsage, ToolCall
from interlock.adapters.run_scripts import written_script, written_test
from interlock.adapters.script_files import read_script
from interlock.adapters.tools_python import tool
from interlock.compose.checkup import check_up
from interlock.compose.keeping import delete_run, export_run, import_run, prune_runs
from interlock.crew.definition import Crew
from interlock.crew.host import Host
from interlock.errors import CannotFork, DamagedRun, RunDeleted, RunExists, StoreFailed
from interlock.ports import Record, StoredRecord
from interlock.testing import ManualClock

T = TypeVar("T")

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

ANSWERS: dict[str, list[Answer | str]] = {
    "a": [
        Answer(text="let me note", tool_calls=(ToolCall("note", {"text": "x: 1e3"}),)),
        Answer(text="both, please\n[ALL]", usage=ScriptUsage(12, 5, 0.25)),
        "one more\n[WAIT]",
        Answer(error="overloaded"),
        'it\'s "over"\t\x7f\u2028 ông\n\n  [END]',
    ],
    "b": [Answer(text="1e3", delay_seconds=0.01)],
    "c": ["12:30"],
}


@tool
def note(text: str) -> str:
    """Writes it down."""
    return f"noted {text}"


def crew_in(folder: Path) -> Crew:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return load_crew(folder, host=Host(tools=("note",)))


def inside(folder: Path, ask: Callable[[Interlock], Awaitable[T]], **options: Any) -> T:
    async def asked() -> T:
        async with Interlock(folder / "data", tools=[note], **options) as box:
            return await ask(box)

    return asyncio.run(asked())


async def played(box: Interlock, crew: Crew) -> str:
    run = await box.start(crew, "go")
    assert (await run.result()).status == "paused"
    await (await box.resume(run.id, "yes, go on")).result()
    return run.id


def a_run(folder: Path) -> str:
    crew = crew_in(folder)
    return inside(folder, lambda box: played(box, crew), models=ScriptedModel(ANSWERS))


def told(records: Sequence[Record], run: str) -> list[str]:
    """The events without times and without the run's own id."""
    return [
        repr(event).replace(run, "RUN").split("worked_ms=")[-1].partition(",")[2] or repr(event).replace(run, "RUN")
        for record in records
        for event in record.events
    ]


def test_a_run_written_as_a_script_plays_again_as_it_was(tmp_path: Path) -> None:
    run, crew = a_run(tmp_path), crew_in(tmp_path)
    records = inside(tmp_path, lambda box: box.journal.records(run))
    file = tmp_path / "script.yaml"
    file.write_text(written_script(inside(tmp_path, lambda box: box.journal.tree(run))), "utf-8")
    again = inside(tmp_path, lambda box: played(box, crew), script=file)
    assert sorted(told(inside(tmp_path, lambda box: box.journal.records(again)), again)) == sorted(told(records, run))
    assert inside(tmp_path, lambda box: box.result(again)).usage.cost_micros == 250_000


def test_a_call_that_was_never_answered_keeps_its_place_in_a_script(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    model = ScriptedModel({"a": ["x\n[ALL]"], "b": ["fine"], "c": [Answer(text="slow", delay_seconds=600)]})

    async def story(box: Interlock) -> Sequence[StoredRecord]:
        run = await box.start(crew, "go")
        async for event in run.events():
            if event["type"] == "branch.finished":
                break
        await (await box.cancel(run.id)).result()
        return await box.journal.tree(run.id)

    (tmp_path / "s.yaml").write_text(written_script(inside(tmp_path, story, models=model)), "utf-8")
    answers = read_script(tmp_path / "s.yaml")
    assert answers["b"] == ["fine"]
    assert answers["c"] == [Answer(error="was never answered", delay_seconds=86400)]


def test_final_errors_and_exhausted_scripts_are_the_same_again(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    for answers in ({"a": [Answer(error="no such key", retry=False)]}, {"a": ["x [NEXT]\n[NEXT]"]}):

        async def story(box: Interlock) -> tuple[str, str, str]:
            result = await (await box.start(crew, "go")).result()
            return result.reason, written_script(await box.journal.tree(result.run)), result.run

        reason, text, _ = inside(tmp_path, story, models=ScriptedModel(answers))
        (tmp_path / "s.yaml").write_text(text, "utf-8")
        assert inside(tmp_path, story, script=tmp_path / "s.yaml")[:2] == (reason, text)


def test_tool_arguments_that_are_no_object_survive_in_a_script(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    model = ScriptedModel({"a": [Answer(tool_calls=(ToolCall("note", "not {json"),)), "y\n[END]"]})

    async def story(box: Interlock) -> Sequence[StoredRecord]:
        return await box.journal.tree((await (await box.start(crew, "go")).result()).run)

    (tmp_path / "s.yaml").write_text(written_script(inside(tmp_path, story, models=model)), "utf-8")
    assert read_script(tmp_path / "s.yaml")["a"][0] == Answer(tool_calls=(ToolCall("note", "not {json"),))


def test_a_run_written_as_a_test_holds_input_answers_and_what_came_of_it(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    text = written_test(inside(tmp_path, lambda box: box.journal.tree(run)))
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


def places(folder: Path, run: str) -> dict[int, str]:
    """Every end of a record, with what forking there gives."""

    async def story(box: Interlock) -> dict[int, str]:
        found = {}
        for record in await box.journal.records(run):
            try:
                result = await (await box.fork(run, record.last_seq)).result()
                found[record.last_seq] = result.status
            except CannotFork as refused:
                found[record.last_seq] = " ".join(map(str, refused.near))
        return found

    return inside(folder, story, models=ScriptedModel(ANSWERS))


def test_a_run_forks_wherever_nothing_is_open_and_names_the_nearest_places_elsewhere(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    found = places(tmp_path, run)
    seqs = list(found)
    # started, a tool called, a tool returned; a group open, a branch done, joined; paused, resumed, failed, tried, over
    assert [value if value.isalpha() else "" for value in found.values()] == [
        *("paused", "paused", "paused", "", ""),
        *("paused", "", "completed", "completed", "completed", ""),
    ]
    assert found[seqs[3]] == f"{seqs[2]} {seqs[5]}"
    assert found[seqs[-1]] == str(seqs[-2])


def test_a_fork_keeps_what_was_recorded_and_has_keys_of_its_own(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    model = ScriptedModel(ANSWERS)

    async def story(box: Interlock) -> tuple[str, Sequence[Record], Sequence[Record]]:
        before = await box.journal.records(run)
        after = next(r.last_seq for r in before if any("GroupJoined" in repr(event) for event in r.events))
        fork = await box.fork(run, after)
        await fork.result()
        assert (await box.state(fork.id)).status == "paused"  # so it replays
        return fork.id, before, await box.journal.records(fork.id)

    fork, before, records = inside(tmp_path, story, models=model)
    same = [line.replace(run, "RUN") for line in told(records, fork)]  # ids that the model gave are its words
    assert same == told(before, run)[: len(same)]
    assert [(request.agent, request.number) for request in model.asked] == [("a", 3)]
    assert model.asked[0].key.startswith(f"{fork}:")


def test_a_fork_names_the_run_it_goes_on_from_also_where_that_one_continues_another(tmp_path: Path) -> None:
    crew, model = crew_in(tmp_path), ScriptedModel({"a": ["x\n[END]"]})

    async def story(box: Interlock) -> list[str]:
        first = await (await box.start(crew, "one")).result()
        second = await (await box.continue_run(crew, "two", first.run)).result()
        fork = await (await box.fork(second.run, (await box.journal.records(second.run))[0].last_seq)).result()
        assert (first.continues, second.continues, fork.continues) == ("", first.run, second.run)
        return [row.continues for row in await box.journal.rows() if row.run == fork.run] + [second.run]

    origin, expected = inside(tmp_path, story, models=model)
    assert origin == expected
    assert asyncio.run(check_up(tmp_path / "data")).problems == []


def test_a_fork_inside_a_record_or_beyond_the_end_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    for after in (0, 1, 10_000):
        with pytest.raises(CannotFork, match="nearest places are after"):
            inside(tmp_path, lambda box, after=after: box.fork(run, after))  # type: ignore[misc]


# Out and in


def test_an_exported_run_is_the_same_elsewhere(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    body = inside(tmp_path, lambda box: export_run(box, run))
    (tmp_path / "other").mkdir()
    row = inside(tmp_path / "other", lambda box: import_run(box, body, "f"))
    assert row.run == run
    assert inside(tmp_path / "other", lambda box: box.result(run)) == inside(tmp_path, lambda box: box.result(run))
    assert inside(tmp_path / "other", lambda box: export_run(box, run)).split(b"\n")[1:-2] == body.split(b"\n")[1:-2]
    for folder in (tmp_path, tmp_path / "other"):
        with pytest.raises(RunExists):
            inside(folder, lambda box: import_run(box, body, "f"))


def test_no_byte_of_an_export_can_change_unnoticed(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    body = inside(tmp_path, lambda box: export_run(box, run))

    async def story(box: Interlock) -> None:
        for n in range(0, len(body) - 1, 97):
            changed = body[:n] + bytes([body[n] ^ 1]) + body[n + 1 :]
            with pytest.raises((DamagedRun, UsageError, StoreFailed)):
                await import_run(box, changed, "f")
        for end in (0, 10, body.rindex(b"\n", 0, -1), len(body) // 2, len(body) - 2):
            with pytest.raises((DamagedRun, UsageError)):
                await import_run(box, body[:end], "f")
        assert list(await box.journal.rows()) == []

    (tmp_path / "other").mkdir()
    inside(tmp_path / "other", story)


def test_a_deleted_run_comes_back_from_its_export(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    body = inside(tmp_path, lambda box: export_run(box, run))
    inside(tmp_path, lambda box: delete_run(box, run))
    with pytest.raises(RunDeleted):
        inside(tmp_path, lambda box: box.result(run))
    inside(tmp_path, lambda box: import_run(box, body, "f"))
    assert inside(tmp_path, lambda box: box.result(run)).status == "completed"


def test_pruning_takes_finished_runs_by_age_and_leaves_paused_ones(tmp_path: Path) -> None:
    crew, clock = crew_in(tmp_path), ManualClock()

    async def story(box: Interlock) -> list[list[str]]:
        old = await (await box.start(crew, "one", run_id="old")).result()
        assert old.status == "completed"
        clock.jump(10 * 86_400_000)
        await (await box.start(crew, "two", run_id="new")).result()
        pruned = [await prune_runs(box, days) for days in (11, 9)]
        return [*pruned, [row.run for row in await box.journal.rows()]]

    model = ScriptedModel({"a": ["x\n[END]"]})
    assert inside(tmp_path, story, models=model, clock=clock) == [[], ["old"], ["new"]]
    paused = a_paused_run(tmp_path)
    clock.jump(10_000 * 86_400_000)
    assert inside(tmp_path, lambda box: prune_runs(box, 1), clock=clock) == ["new"]
    assert inside(tmp_path, lambda box: box.result(paused)).status == "paused"


def a_paused_run(folder: Path) -> str:
    crew = crew_in(folder)

    async def story(box: Interlock) -> str:
        return (await (await box.start(crew, "go")).result()).run

    return inside(folder, story, models=ScriptedModel({"a": ["x\n[WAIT]"]}))


def test_a_running_run_is_not_deleted(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)

    async def story(box: Interlock) -> None:
        run = await box.start(crew, "go")
        with pytest.raises(UsageError, match="cancel"):
            await delete_run(box, run.id)

    inside(tmp_path, story, models=ScriptedModel({"a": [Answer(text="x", delay_seconds=600)]}))


# Backup and doctor


def test_a_backup_made_while_runs_go_on_is_whole(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    copy = tmp_path / "copy" / "data" / "interlock.db"
    copy.parent.mkdir(parents=True)

    async def story(box: Interlock) -> None:
        first = await (await box.start(crew, "go", run_id="first")).result()
        assert first.status == "completed"
        others = [await box.start(crew, "go") for _ in range(10)]
        await box.store.backup(copy)
        for run in others:
            await run.result()
        with pytest.raises(StoreFailed, match="exists already"):
            await box.store.backup(copy)

    inside(tmp_path, story, models=ScriptedModel({"a": ["x\n[END]"]}))
    assert [file.name for file in copy.parent.iterdir()] == ["interlock.db"]
    assert asyncio.run(check_up(copy.parent)).problems == []
    assert inside(tmp_path / "copy", lambda box: box.result("first")).status == "completed"


def test_the_doctor_finds_a_sound_folder_well(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    a_paused_run(tmp_path)
    found = asyncio.run(check_up(tmp_path / "data"))
    assert (found.problems, found.notes, found.runs, found.deleted) == ([], [], 2, 0)
    inside(tmp_path, lambda box: delete_run(box, run))
    found = asyncio.run(check_up(tmp_path / "data"))
    assert (found.problems, found.runs, found.deleted) == ([], 1, 1)


def test_the_doctor_names_how_many_runs_are_due_and_deletes_none(tmp_path: Path) -> None:
    a_run(tmp_path)
    a_paused_run(tmp_path)
    for days, notes in ((1, 0), (0, 1), (None, 0)):
        found = asyncio.run(check_up(tmp_path / "data", HostSettings(retention_days=days)))
        assert (len(found.notes), found.problems, found.runs) == (notes, [], 2)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("update records set crc = crc + 1 where position = 2", "the crc of the record"),
        ("delete from records where position = 2", "there is no record at seq"),
        ("update records set link = x'00' where position = 2", "the chain breaks at seq"),
        ("update runs set seq = seq + 1", "the crc of its row does not hold"),
        ("update runs set status = 'failed'", "the crc of its row does not hold"),
        ("delete from crews", "there is no crew with sha256"),
        ("delete from runs", "records belong to no run"),
    ],
)
def test_the_doctor_names_what_is_wrong(tmp_path: Path, damage: str, expected: str) -> None:
    a_run(tmp_path)
    connection = sqlite3.connect(tmp_path / "data" / "interlock.db")
    connection.execute(damage)
    connection.commit()
    connection.close()
    (problem,) = asyncio.run(check_up(tmp_path / "data")).problems
    assert expected in problem


def test_the_doctor_tells_of_damaged_files_and_stray_owner_files(tmp_path: Path) -> None:
    a_run(tmp_path)
    data = tmp_path / "data"
    (data / "owners" / "77-dead.lock").touch()
    (data / "owners" / "what").touch()
    found = asyncio.run(check_up(data))
    assert found.notes == ["removed the owner file '77-dead.lock' of a process that is gone"]
    assert found.problems == [f"'what' in '{data / 'owners'}' is no owner file; move it away"]
    (data / "interlock.db").write_bytes(b"nonsense" * 1000)
    assert "not a database" in " ".join(asyncio.run(check_up(data)).problems)
    with pytest.raises(UsageError, match=r"there is no interlock\.db"):
        asyncio.run(check_up(tmp_path / "nowhere"))
