"""Whole trees of runs: deleted, pruned, carried to another folder, forked, written as scripts, looked after."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec
import pytest

from interlock import Interlock, UsageError, load_crew
from interlock.adapters import journal_format, run_files, tree_files
from interlock.adapters.run_scripts import ELSEWHERE, turns_of, written_script
from interlock.adapters.script_files import read_script
from interlock.compose.checkup import check_up
from interlock.compose.keeping import delete_run, export_run, import_run, prune_runs, whole_crews
from interlock.compose.trees import tree_of
from interlock.engine.events import ChildReturned, ChildStarted, RunStarted
from interlock.engine.step import Run
from interlock.errors import CannotFork, DamagedRun, RunDeleted, RunExists
from interlock.ports import Delta, ModelReply, ModelRequest, Record, RunRow, SealedTree, StoredRecord
from interlock.runtime.crews import stored_form
from interlock.runtime.forking import with_keys_of
from interlock.testing import Answer, ManualClock, ScriptedModel
from tests.nested_crews import nested_crew

T = TypeVar("T")

TREE = ["r", "r~4.0", "r~4.0~4.0", "r~15.0"]


def inside(folder: Path, ask: Callable[[Interlock], Awaitable[T]], **options: Any) -> T:
    script = folder / "crew" / "script.yaml"

    async def asked() -> T:
        async with Interlock(folder / "data", **{"script": script if script.exists() else None, **options}) as box:
            return await ask(box)

    return asyncio.run(asked())


async def paused(box: Interlock, run: str = "r") -> str:
    crew = load_crew(nested_crew(box.data.parent / "crew"))
    assert (await (await box.start(crew, "Lamps", run_id=run)).result()).status == "paused"
    return run


async def finished(box: Interlock, run: str = "r") -> str:
    await paused(box, run)
    assert (await (await box.resume(run, "The red one")).result()).status == "completed"
    return run


def a_tree(folder: Path, *, over: bool = True) -> Path:
    nested_crew(folder / "crew")
    inside(folder, finished if over else paused)
    return folder


async def whole(box: Interlock) -> list[StoredRecord]:
    return list(await box.journal.tree("r"))


async def told(box: Interlock) -> list[tuple[str, Record]]:
    """All that happened, in the order of the store."""
    return [(stored.run, stored.record) for stored in await whole(box)]


# Deleting


@pytest.mark.parametrize("over", [True, False])
def test_a_run_is_deleted_with_all_that_it_called(tmp_path: Path, over: bool) -> None:
    a_tree(tmp_path, over=over)
    expected = TREE if over else TREE[:3]

    async def story(box: Interlock) -> list[str]:
        left = [each.run for each in await delete_run(box, "r")]
        for run in expected:
            with pytest.raises(RunDeleted):
                await box.journal.row(run)
        return left

    assert sorted(inside(tmp_path, story)) == sorted(expected)
    found = asyncio.run(check_up(tmp_path / "data"))
    assert (found.problems, found.runs, found.deleted) == ([], 0, len(expected))


def test_a_child_is_not_deleted_exported_or_forked_by_itself(tmp_path: Path) -> None:
    a_tree(tmp_path)
    for ask in (
        lambda box: delete_run(box, "r~4.0"),
        lambda box: export_run(box, "r~4.0~4.0"),
        lambda box: box.fork("r~4.0", 4),
    ):
        with pytest.raises(UsageError, match=r"'r~4\.0.* is part of run 'r'"):
            inside(tmp_path, ask)
    assert len(inside(tmp_path, lambda box: box.journal.below("r"))) == 3


def test_a_tree_of_which_another_process_has_a_part_in_hand_stays_whole(tmp_path: Path) -> None:
    a_tree(tmp_path)

    async def story(box: Interlock) -> int:
        await box.owners.claim("r~4.0~4.0")
        async with Interlock(tmp_path / "data") as other:
            with pytest.raises(Exception, match="is being worked on by process"):
                await delete_run(other, "r")
        return len(await box.journal.below("r"))

    assert inside(tmp_path, story) == 3


def test_pruning_counts_outermost_runs_and_takes_what_they_called(tmp_path: Path) -> None:
    nested_crew(tmp_path / "crew")
    clock = ManualClock()

    async def story(box: Interlock) -> tuple[list[str], int]:
        await finished(box, "old")
        await paused(box, "asking")
        clock.jump(10 * 24 * 3600 * 1000)
        await finished(box, "new")
        return await prune_runs(box, 9), len(await box.journal.rows())

    assert inside(tmp_path, story, clock=clock) == (["old"], 3 + 4)


# Carrying


@pytest.mark.parametrize("over", [True, False])
def test_a_tree_is_the_same_elsewhere_and_goes_on_there(tmp_path: Path, over: bool) -> None:
    a_tree(tmp_path, over=over)
    body, before = inside(tmp_path, lambda box: export_run(box, "r")), inside(tmp_path, told)
    other = tmp_path / "other"
    nested_crew(other / "crew")

    async def story(box: Interlock) -> tuple[list[tuple[str, Record]], str]:
        assert (await import_run(box, body, "f")).run == "r"
        with pytest.raises(RunExists):
            await import_run(box, body, "f")
        here = await told(box)
        if not over:
            await (await box.resume("r", "The red one")).result()
        return here, (await box.result("r")).status

    assert inside(other, story) == (before, "completed")
    assert asyncio.run(check_up(other / "data")).problems == []


def test_a_deleted_tree_comes_back_from_its_export(tmp_path: Path) -> None:
    a_tree(tmp_path)

    async def story(box: Interlock) -> tuple[bool, int]:
        body, before = await export_run(box, "r"), await told(box)
        await delete_run(box, "r")
        await import_run(box, body, "f")
        return await told(box) == before, len(await box.keeping.tombstones())

    assert inside(tmp_path, story) == (True, 0)


def test_a_tree_of_which_a_part_is_there_already_is_not_taken_in_at_all(tmp_path: Path) -> None:
    a_tree(tmp_path)

    async def story(box: Interlock) -> None:
        body = await export_run(box, "r")
        await box.keeping.delete("r", 1)
        with pytest.raises(RunExists):
            await import_run(box, body, "f")
        with pytest.raises(RunDeleted):
            await box.journal.row("r")

    inside(tmp_path, story)


def test_no_byte_of_an_exported_tree_can_change_unnoticed(tmp_path: Path) -> None:
    a_tree(tmp_path)
    body = inside(tmp_path, lambda box: export_run(box, "r"))

    async def story(box: Interlock) -> None:
        for place in range(0, len(body), 97):
            changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            with pytest.raises((DamagedRun, UsageError)):
                await import_run(box, changed, "f")
        for end in range(0, len(body) - 1, 997):
            with pytest.raises((DamagedRun, UsageError)):
                await import_run(box, body[:end], "f")
        assert await box.journal.rows() == []

    inside(tmp_path / "other", story)


def test_a_file_that_is_no_whole_tree_is_refused(tmp_path: Path) -> None:
    """Written anew with right sums: what is missing must be noticed by itself."""
    a_tree(tmp_path)
    file = tree_files.read(inside(tmp_path, lambda box: export_run(box, "r")), "f")
    rows, records = file.tree.rows, file.tree.records
    without_caller = msgspec.structs.replace(
        file.tree,
        rows=(rows[0], *rows[2:]),
        records=tuple((of - (of > 1), record) for of, record in records if of != 1),
    )
    twice = msgspec.structs.replace(file.tree, rows=(*rows, rows[1]))
    lying = msgspec.structs.replace(
        file.tree, rows=(*rows[:2], msgspec.structs.replace(rows[2], status="failed"), rows[3])
    )
    fewer = dict(list(file.crews.items())[:-1])
    for tree, crews in ((without_caller, file.crews), (twice, file.crews), (lying, file.crews), (file.tree, fewer)):
        body = tree_files.written(tree_files.TreeFile(tree=tree, crews=crews))
        with pytest.raises(DamagedRun):
            inside(tmp_path / "other", lambda box, body=body: import_run(box, body, "f"))  # type: ignore[misc]


def renamed(file: tree_files.TreeFile, name: str, new: str) -> bytes:
    """A file with right sums in which one run, and its journal, has another id."""
    crew_of, rows, records = whole_crews(file), [], list(file.tree.records)
    for n, (row, chain) in enumerate(zip(file.tree.rows, file.tree.chains(), strict=True)):
        if row.run == name:
            run, copied = Run(crew_of(row.crew_sha), new), []
            for record in journal_format.opened_chain(
                name, chain, journal_format.start_of(name), journal_format.tip_of(name, chain)
            ):
                incoming = with_keys_of(record.events[0], name, new)  # type: ignore[arg-type]
                copied.append(Record(seq=record.seq, at=record.at, events=(incoming, *run.apply(incoming).facts)))
            records = [each for each in records if each[0] != n]
            records += [(n, each) for each in journal_format.sealed_chain(new, copied)]
        rows.append(msgspec.structs.replace(row, run=new) if row.run == name else row)
    tree = SealedTree(rows=tuple(rows), records=tuple(records))
    return tree_files.written(tree_files.TreeFile(tree=tree, crews=file.crews))


@pytest.mark.parametrize("new", ["r~77.0", "r~hello", "r~", "r~15:0"])
def test_a_run_that_nobody_called_is_not_taken_in(tmp_path: Path, new: str) -> None:
    a_tree(tmp_path)
    file = tree_files.read(inside(tmp_path, lambda box: export_run(box, "r")), "f")
    with pytest.raises(DamagedRun, match="run 'r' did not call it"):
        inside(tmp_path / "other", lambda box: import_run(box, renamed(file, "r~15.0", new), "f"))


@pytest.mark.parametrize("new", ["../x", "a b", "a:b", "a\nb", "", "x" * 101])
def test_an_id_that_no_run_may_have_is_not_taken_in(tmp_path: Path, new: str) -> None:
    nested_crew(tmp_path / "crew")
    crew = load_crew(tmp_path / "crew" / "beta")

    async def alone(box: Interlock) -> bytes:
        await (await box.start(crew, "Lamps", run_id="b")).result()
        return await export_run(box, "b")

    file = tree_files.read(inside(tmp_path, alone, models=ScriptedModel({"z": ["Done.\n[END]"]}), script=None), "f")
    with pytest.raises(UsageError, match="cannot be a run's id"):
        inside(tmp_path / "other", lambda box: import_run(box, renamed(file, "b", new), "f"))


def rewritten(body: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same file with another head and right sums."""
    first, *lines, _, _ = body.split(b"\n")
    head = msgspec.json.decode(first)
    change(head)
    text = b"".join(line + b"\n" for line in (msgspec.json.encode(head), *lines))
    return text + msgspec.json.encode({"records": len(lines), "crc": crc32(text)}) + b"\n"


def test_crews_that_cannot_be_read_are_not_taken_in(tmp_path: Path) -> None:
    a_tree(tmp_path)
    body = inside(tmp_path, lambda box: export_run(box, "r"))

    def chained(head: dict[str, Any]) -> None:
        """Crews that call each other deeper than any file may."""
        for _ in range(20):
            last = msgspec.json.decode(head["crews"][-1])
            sha = hashlib.sha256(head["crews"][-1].encode()).hexdigest()
            last["sub_crews"] = {"down": {"config_path": "down", "crew_sha": sha}}
            head["crews"].append(msgspec.json.encode(last).decode())

    changes: list[Callable[[dict[str, Any]], None]] = [
        lambda head: head["crews"].append("[" * 100_000),
        lambda head: head["crews"].append('{"name":' * 100_000),
        chained,
    ]
    inside(tmp_path / "same", lambda box: import_run(box, rewritten(body, lambda _: None), "f"))
    for change in changes:
        with pytest.raises(DamagedRun):
            inside(tmp_path / "other", lambda box, change=change: import_run(box, rewritten(body, change), "f"))  # type: ignore[misc]


def test_a_file_nested_without_end_is_no_exported_run(tmp_path: Path) -> None:
    for start in (b'{"format":"interlock-run","version":2,"x":', b'{"format":"interlock-run","version":1,"x":'):
        with pytest.raises(UsageError, match="is not an exported run"):
            tree_files.read(start + b"[" * 100_000, "f")


def test_a_journal_that_no_engine_has_written_is_not_taken_in(tmp_path: Path) -> None:
    nested_crew(tmp_path / "crew")
    _, sha, bodies = stored_form(load_crew(tmp_path / "crew" / "beta"))
    started = RunStarted(crew="beta-team", input="go", rules=1, crew_sha=sha, entry="nobody")
    records = journal_format.sealed_chain("b", [Record(seq=1, at=1, events=(started,))])
    row = RunRow(run="b", crew="beta-team", crew_sha=sha, status="running", created_at=1, seq=1)
    body = run_files.written(run_files.RunFile(row=row, crew=bodies[sha], records=records))
    with pytest.raises(DamagedRun, match="cannot be replayed"):
        inside(tmp_path / "other", lambda box: import_run(box, body, "f"))


def test_a_run_of_a_crew_without_sub_crews_is_written_as_before(tmp_path: Path) -> None:
    nested_crew(tmp_path / "crew")
    crew = load_crew(tmp_path / "crew" / "beta")

    async def story(box: Interlock) -> bytes:
        await (await box.start(crew, "x", run_id="r")).result()
        return await export_run(box, "r")

    body = inside(tmp_path, story, models=ScriptedModel({"z": ["Written.\n[END]"]}))
    assert run_files.read(body, "f").row.run == "r"


# Forking


def test_a_fork_keeps_what_children_said_and_cost_and_they_stay_with_the_original(tmp_path: Path) -> None:
    a_tree(tmp_path)
    model = ScriptedModel({"a": ["", "", "Again.\n[WRITE]", "Over.\n[END]"], "beta/z": ["", "Once more.\n[END]"]})

    async def story(box: Interlock) -> str:
        own = [stored.record for stored in await whole(box) if stored.run == "r"]
        with pytest.raises(CannotFork):  # a child is at work there
            await box.fork("r", next(each.last_seq for each in own if isinstance(each.events[-1], ChildStarted)))
        fork = await (await box.fork("r", own[-2].last_seq)).result()
        assert (fork.status, fork.output) == ("completed", "Over.\n[END]")
        tree = await tree_of(box, fork.run)
        assert [member.path for member in tree.members] == [(), ("beta",)]
        assert [(each.own.calls, each.elsewhere.calls) for each in tree.members] == [(4, 5), (1, 0)]
        assert tree.total.calls == 10
        said = [entry.text for entry in tree.members[0].said if not isinstance(entry, str)]
        assert (said[2], said[4]) == ("Found it.", "Written.")
        return written_script(await box.journal.tree(fork.run))

    script = tmp_path / "s.yaml"
    script.write_text(inside(tmp_path, story, models=model, script=None), "utf-8")
    assert read_script(script)["beta/z"] == [ELSEWHERE, "Once more.\n[END]"]
    assert asyncio.run(check_up(tmp_path / "data")).problems == []


# Scripts


def test_a_tree_written_as_a_script_plays_again_as_it_was(tmp_path: Path) -> None:
    a_tree(tmp_path)
    tree = inside(tmp_path, whole)
    (tmp_path / "again.yaml").write_text(written_script(tree), "utf-8")
    script = read_script(tmp_path / "again.yaml")
    assert {name: len(answers) for name, answers in script.items()} == {
        "a": 3,
        "alpha/x": 2,
        "alpha/inner/y": 2,
        "beta/z": 1,
    }

    async def story(box: Interlock) -> list[StoredRecord]:
        await finished(box)
        return await whole(box)

    (tmp_path / "other" / "crew").mkdir(parents=True)
    again = inside(tmp_path / "other", story, script=tmp_path / "again.yaml")
    assert written_script(again) == written_script(tree)
    assert [(stored.run, stored.record.events[0].__class__) for stored in again] == [
        (stored.run, stored.record.events[0].__class__) for stored in tree
    ]
    assert turns_of(again) == ["a", "alpha/x", "alpha/inner/y", "alpha/inner/y", "alpha/x", "a", "beta/z", "a"]


def test_agents_of_a_crew_that_is_called_again_go_on_counting_in_a_script(tmp_path: Path) -> None:
    crew = load_crew(nested_crew(tmp_path / "crew"))
    answers: dict[str, list[Answer | str]] = {
        "a": ["1\n[WRITE]", "2\n[WRITE]", "3\n[END]"],
        "beta/z": ["first\n[END]", Answer(error="away"), "second\n[END]"],
    }

    async def story(box: Interlock) -> tuple[str, list[StoredRecord], list[StoredRecord]]:
        result = await (await box.start(crew, "x", run_id="r")).result()
        second = (await box.journal.below("r"))[1]
        return result.status, await whole(box), list(await box.journal.tree(second.run))

    status, tree, second = inside(tmp_path, story, models=ScriptedModel(answers), script=None)
    (tmp_path / "s.yaml").write_text(written_script(tree), "utf-8")
    assert (status, read_script(tmp_path / "s.yaml")) == ("completed", answers)
    (tmp_path / "s.yaml").write_text(written_script(second), "utf-8")
    assert read_script(tmp_path / "s.yaml") == {"z": answers["beta/z"][1:]}, "by itself it begins anew"


def test_runs_of_one_crew_beside_each_other_have_answers_of_their_own_in_a_script(tmp_path: Path) -> None:
    folder = nested_crew(tmp_path / "crew")
    text = (folder / "crew.yaml").read_text("utf-8")
    again = '{signal: "[AGAIN]", type: sub_crew, target_crew: beta}'
    (folder / "crew.yaml").write_text(text.replace("    a:\n", f"    a:\n      - {again}\n"), "utf-8")
    answers = {
        "a": ["1\n[WRITE] [AGAIN]", "2\n[WRITE] [AGAIN]", "3\n[END]"],
        "beta/z": ["one\n[END]", "three\n[END]"],
        "beta#2/z": ["two\n[END]", "four\n[END]"],
    }

    async def story(box: Interlock) -> tuple[str, list[StoredRecord]]:
        run = await box.start(load_crew(folder), "x", run_id="r")
        return (await run.result()).status, await whole(box)

    status, tree = inside(tmp_path, story, models=ScriptedModel(answers), script=None)
    (tmp_path / "s.yaml").write_text(written_script(tree), "utf-8")
    script = read_script(tmp_path / "s.yaml").items()
    said = {name: [each if isinstance(each, str) else each.text for each in given] for name, given in script}
    assert (status, said) == ("completed", answers)
    results = [event.text for stored in tree for event in stored.record.events if isinstance(event, ChildReturned)]
    assert sorted(results) == ["four", "one", "three", "two"]


def test_without_answers_of_their_own_they_get_those_of_the_crew(tmp_path: Path) -> None:
    model = ScriptedModel({"team/x": ["of the team"], "x": ["of anybody"]})
    for path, said in ((("team#2",), "of the team"), (("other#3",), "of anybody")):
        request = ModelRequest(key="k", agent="x", number=1, system="", messages=(), path=path)
        assert asyncio.run(last_of(model.reply(request))).text == said


async def last_of(pieces: AsyncIterator[Delta | ModelReply]) -> ModelReply:
    found = [piece async for piece in pieces]
    assert isinstance(found[-1], ModelReply)
    return found[-1]


def test_turns_stand_where_their_crew_was_called_whoever_was_faster(tmp_path: Path) -> None:
    crew = load_crew(nested_crew(tmp_path / "crew"))
    model = ScriptedModel({"a": ["x\n[BOTH] [WRITE]", "y\n[END]"], "alpha/x": ["1\n[END]"], "beta/z": ["2\n[END]"]})

    async def story(box: Interlock) -> list[StoredRecord]:
        await (await box.start(crew, "x", run_id="r")).result()
        return await whole(box)

    tree = inside(tmp_path, story, models=model, script=None)
    for reverse in (False, True):
        in_this_order = [tree[0], *sorted(tree[1:], key=lambda stored: stored.run, reverse=reverse)]
        assert turns_of(in_this_order) == ["a", "alpha/x", "beta/z", "a"]


# Looking after


def test_the_doctor_finds_a_whole_tree_well(tmp_path: Path) -> None:
    a_tree(tmp_path, over=False)
    found = asyncio.run(check_up(tmp_path / "data"))
    assert (found.problems, found.runs) == ([], 3)


def test_the_doctor_finds_a_child_without_its_caller_and_a_wait_for_nobody(tmp_path: Path) -> None:
    a_tree(tmp_path, over=False)
    inside(tmp_path, lambda box: box.keeping.delete("r~4.0", 1))
    assert asyncio.run(check_up(tmp_path / "data")).problems == [
        "run 'r~4.0~4.0' was called by run 'r~4.0', which is not there",
        "run 'r' waits for run 'r~4.0', which is not there",
    ]
