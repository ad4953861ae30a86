"""Whole trees of runs: deleted, pruned, carried to another folder, forked, written as scripts, looked after."""

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from interlock import Interlock, UsageError
from interlock.adapters.crews.script_files import read_script
from interlock.adapters.files import run_files, tree_files
from interlock.adapters.files.run_scripts import ELSEWHERE, script_yaml, turns_of
from interlock.adapters.store_rules import record_format
from interlock.compose.crews import load_definition
from interlock.compose.upkeep.archive import delete_run, export_run, import_run, prune_runs, whole_crews
from interlock.compose.upkeep.doctor import check_store
from interlock.compose.upkeep.run_trees import tree_of
from interlock.engine.events import ChildReturned, ChildStarted, RunStarted
from interlock.engine.run import Run
from interlock.errors import CannotFork, DamagedRun, OwnedElsewhere, RunDeleted, RunExists
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta, Record, RunRow, SealedTree, StoredRecord
from interlock.runtime.fork import with_keys_of
from interlock.runtime.stored_crews import as_stored_form
from interlock.testing import Answer, ManualClock, ScriptedModel
from tests.nested_crews import nested_crew

TREE = ["r", "r~4.0", "r~4.0~4.0", "r~15.0"]


def box_in(folder: Path, **options: Any) -> Interlock:
    script = folder / "crew" / "script.yaml"
    return Interlock(folder / "data", **{"script": script if script.exists() else None, **options})


async def paused(box: Interlock, run: str = "r") -> str:
    crew = load_definition(nested_crew(box.data.parent / "crew"))
    assert (await (await box.start(crew, "Lamps", run_id=run)).result()).status == "paused"
    return run


async def finished(box: Interlock, run: str = "r") -> str:
    await paused(box, run)
    assert (await (await box.resume(run, "The red one")).result()).status == "completed"
    return run


async def a_tree(folder: Path, *, over: bool = True) -> Path:
    nested_crew(folder / "crew")
    async with box_in(folder) as box:
        await (finished if over else paused)(box)
    return folder


async def whole(box: Interlock) -> list[StoredRecord]:
    return list(await box.journal.tree("r"))


async def told(box: Interlock) -> list[tuple[str, Record]]:
    """All that happened, in the order of the store."""
    return [(stored.run, stored.record) for stored in await whole(box)]


# Deleting


@pytest.mark.parametrize("over", [True, False])
async def test_a_run_is_deleted_with_all_that_it_called(tmp_path: Path, over: bool) -> None:
    await a_tree(tmp_path, over=over)
    expected = TREE if over else TREE[:3]

    async with box_in(tmp_path) as box:
        left = [each.run for each in await delete_run(box, "r")]
        for run in expected:
            with pytest.raises(RunDeleted):
                await box.journal.row(run)
        assert sorted(left) == sorted(expected)
    found = await check_store(tmp_path / "data")
    assert (found.problems, found.runs, found.deleted) == ([], 0, len(expected))


async def test_a_child_is_not_deleted_exported_or_forked_by_itself(tmp_path: Path) -> None:
    await a_tree(tmp_path)
    for ask in (
        lambda box: delete_run(box, "r~4.0"),
        lambda box: export_run(box, "r~4.0~4.0"),
        lambda box: box.fork("r~4.0", 4),
    ):
        with pytest.raises(UsageError, match=r"'r~4\.0.* is part of run 'r'"):
            async with box_in(tmp_path) as box:
                await ask(box)
    async with box_in(tmp_path) as box:
        assert len(await box.journal.rows_below("r")) == 3


async def test_a_tree_of_which_another_process_has_a_part_in_hand_stays_whole(tmp_path: Path) -> None:
    await a_tree(tmp_path)

    async with box_in(tmp_path) as box:
        await box.owners.claim("r~4.0~4.0")
        async with Interlock(tmp_path / "data") as other:
            with pytest.raises(OwnedElsewhere, match="is driven by process"):
                await delete_run(other, "r")
        assert len(await box.journal.rows_below("r")) == 3


async def test_pruning_counts_outermost_runs_and_takes_what_they_called(tmp_path: Path) -> None:
    nested_crew(tmp_path / "crew")
    clock = ManualClock()

    async with box_in(tmp_path, clock=clock) as box:
        await finished(box, "old")
        await paused(box, "asking")
        clock.jump(10 * 24 * 3600 * 1000)
        await finished(box, "new")
        assert (await prune_runs(box, 9), len(await box.journal.rows())) == (["old"], 3 + 4)


# Carrying


@pytest.mark.parametrize("over", [True, False])
async def test_a_tree_is_the_same_elsewhere_and_goes_on_there(tmp_path: Path, over: bool) -> None:
    await a_tree(tmp_path, over=over)
    async with box_in(tmp_path) as box:
        body, before = await export_run(box, "r"), await told(box)
    other = tmp_path / "other"
    nested_crew(other / "crew")

    async with box_in(other) as box:
        assert (await import_run(box, body, "f")).run == "r"
        with pytest.raises(RunExists):
            await import_run(box, body, "f")
        here = await told(box)
        if not over:
            await (await box.resume("r", "The red one")).result()
        assert (here, (await box.result("r")).status) == (before, "completed")
    assert (await check_store(other / "data")).problems == []


async def test_a_deleted_tree_comes_back_from_its_export(tmp_path: Path) -> None:
    await a_tree(tmp_path)

    async with box_in(tmp_path) as box:
        body, before = await export_run(box, "r"), await told(box)
        await delete_run(box, "r")
        await import_run(box, body, "f")
        assert (await told(box) == before, len(await box.archive.tombstones())) == (True, 0)


async def test_a_tree_of_which_a_part_is_there_already_is_not_taken_in_at_all(tmp_path: Path) -> None:
    await a_tree(tmp_path)

    async with box_in(tmp_path) as box:
        body = await export_run(box, "r")
        await box.archive.delete_run("r", 1)
        with pytest.raises(RunExists):
            await import_run(box, body, "f")
        with pytest.raises(RunDeleted):
            await box.journal.row("r")


async def test_no_byte_of_an_exported_tree_can_change_unnoticed(tmp_path: Path) -> None:
    await a_tree(tmp_path)
    async with box_in(tmp_path) as box:
        body = await export_run(box, "r")

    async with box_in(tmp_path / "other") as box:
        for place in range(0, len(body), 97):
            changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            with pytest.raises((DamagedRun, UsageError)):
                await import_run(box, changed, "f")
        for end in range(0, len(body) - 1, 997):
            with pytest.raises((DamagedRun, UsageError)):
                await import_run(box, body[:end], "f")
        assert await box.journal.rows() == []


async def test_a_file_that_is_no_whole_tree_is_refused(tmp_path: Path) -> None:
    """Rewritten with right checksums: what is missing must be noticed by itself."""
    await a_tree(tmp_path)
    async with box_in(tmp_path) as box:
        file = tree_files.decode_tree_file(await export_run(box, "r"), "f")
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
        body = tree_files.encode_tree_file(tree_files.TreeFile(tree=tree, crews=crews))
        with pytest.raises(DamagedRun):
            async with box_in(tmp_path / "other") as box:
                await import_run(box, body, "f")


def renamed(file: tree_files.TreeFile, name: str, new: str) -> bytes:
    """A file with right sums in which one run, and its journal, has another id."""
    crew_of, rows, records = whole_crews(file), [], list(file.tree.records)
    for n, (row, chain) in enumerate(zip(file.tree.rows, file.tree.chains(), strict=True)):
        if row.run == name:
            run, copied = Run(crew_of(row.crew_sha), new), []
            for record in record_format.unseal_chain(
                name, chain, record_format.chain_start(name), record_format.tip_of(name, chain)
            ):
                incoming = with_keys_of(record.events[0], name, new)  # type: ignore[arg-type]
                copied.append(Record(seq=record.seq, at=record.at, events=(incoming, *run.apply(incoming).facts)))
            records = [each for each in records if each[0] != n]
            records += [(n, each) for each in record_format.seal_chain(new, copied)]
        rows.append(msgspec.structs.replace(row, run=new) if row.run == name else row)
    tree = SealedTree(rows=tuple(rows), records=tuple(records))
    return tree_files.encode_tree_file(tree_files.TreeFile(tree=tree, crews=file.crews))


@pytest.mark.parametrize("new", ["r~77.0", "r~hello", "r~", "r~15:0"])
async def test_a_run_that_nobody_called_is_not_taken_in(tmp_path: Path, new: str) -> None:
    await a_tree(tmp_path)
    async with box_in(tmp_path) as box:
        file = tree_files.decode_tree_file(await export_run(box, "r"), "f")
    with pytest.raises(DamagedRun, match="run 'r' did not call it"):
        async with box_in(tmp_path / "other") as box:
            await import_run(box, renamed(file, "r~15.0", new), "f")


@pytest.mark.parametrize("new", ["../x", "a b", "a:b", "a\nb", "", "x" * 101])
async def test_an_id_that_no_run_may_have_is_not_taken_in(tmp_path: Path, new: str) -> None:
    nested_crew(tmp_path / "crew")
    crew = load_definition(tmp_path / "crew" / "beta")

    async with box_in(tmp_path, models=ScriptedModel({"z": ["Done.\n[END]"]}), script=None) as box:
        await (await box.start(crew, "Lamps", run_id="b")).result()
        file = tree_files.decode_tree_file(await export_run(box, "b"), "f")
    with pytest.raises(UsageError, match="is not a valid run id"):
        async with box_in(tmp_path / "other") as box:
            await import_run(box, renamed(file, "b", new), "f")


def rewritten(body: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same file with another head and right sums."""
    first, *lines, _, _ = body.split(b"\n")
    head = msgspec.json.decode(first)
    change(head)
    text = b"".join(line + b"\n" for line in (msgspec.json.encode(head), *lines))
    return text + msgspec.json.encode({"records": len(lines), "crc": crc32(text)}) + b"\n"


async def test_crews_that_cannot_be_read_are_not_taken_in(tmp_path: Path) -> None:
    await a_tree(tmp_path)
    async with box_in(tmp_path) as box:
        body = await export_run(box, "r")

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
    async with box_in(tmp_path / "same") as box:
        await import_run(box, rewritten(body, lambda _: None), "f")
    for change in changes:
        with pytest.raises(DamagedRun):
            async with box_in(tmp_path / "other") as box:
                await import_run(box, rewritten(body, change), "f")


def test_a_file_nested_without_end_is_no_exported_run(tmp_path: Path) -> None:
    for start in (b'{"format":"interlock-run","version":2,"x":', b'{"format":"interlock-run","version":1,"x":'):
        with pytest.raises(UsageError, match="is not an exported run"):
            tree_files.decode_tree_file(start + b"[" * 100_000, "f")


async def test_a_journal_that_no_engine_has_written_is_not_taken_in(tmp_path: Path) -> None:
    nested_crew(tmp_path / "crew")
    _, sha, bodies = as_stored_form(load_definition(tmp_path / "crew" / "beta"))
    started = RunStarted(crew="beta-team", input="go", rules=1, crew_sha=sha, entry="nobody")
    records = record_format.seal_chain("b", [Record(seq=1, at=1, events=(started,))])
    row = RunRow(run="b", crew="beta-team", crew_sha=sha, status="running", created_at=1, seq=1)
    body = run_files.encode_run_file(run_files.RunFile(row=row, crew=bodies[sha], records=records))
    with pytest.raises(DamagedRun, match="cannot be replayed"):
        async with box_in(tmp_path / "other") as box:
            await import_run(box, body, "f")


async def test_a_run_of_a_crew_without_sub_crews_is_written_as_before(tmp_path: Path) -> None:
    nested_crew(tmp_path / "crew")
    crew = load_definition(tmp_path / "crew" / "beta")

    async with box_in(tmp_path, models=ScriptedModel({"z": ["Written.\n[END]"]})) as box:
        await (await box.start(crew, "x", run_id="r")).result()
        body = await export_run(box, "r")
    assert run_files.decode_run_file(body, "f").row.run == "r"


# Forking


async def test_a_fork_keeps_what_children_said_and_cost_and_they_stay_with_the_original(tmp_path: Path) -> None:
    await a_tree(tmp_path)
    model = ScriptedModel({"a": ["", "", "Again.\n[WRITE]", "Over.\n[END]"], "beta/z": ["", "Once more.\n[END]"]})

    script = tmp_path / "s.yaml"
    async with box_in(tmp_path, models=model, script=None) as box:
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
        script.write_text(script_yaml(await box.journal.tree(fork.run)), "utf-8")
    assert read_script(script)["beta/z"] == [ELSEWHERE, "Once more.\n[END]"]
    assert (await check_store(tmp_path / "data")).problems == []


# Scripts


async def test_a_tree_written_as_a_script_plays_again_as_it_was(tmp_path: Path) -> None:
    await a_tree(tmp_path)
    async with box_in(tmp_path) as box:
        tree = await whole(box)
    (tmp_path / "again.yaml").write_text(script_yaml(tree), "utf-8")
    script = read_script(tmp_path / "again.yaml")
    assert {name: len(answers) for name, answers in script.items()} == {
        "a": 3,
        "alpha/x": 2,
        "alpha/inner/y": 2,
        "beta/z": 1,
    }

    (tmp_path / "other" / "crew").mkdir(parents=True)
    async with box_in(tmp_path / "other", script=tmp_path / "again.yaml") as box:
        await finished(box)
        again = await whole(box)
    assert script_yaml(again) == script_yaml(tree)
    assert [(stored.run, stored.record.events[0].__class__) for stored in again] == [
        (stored.run, stored.record.events[0].__class__) for stored in tree
    ]
    assert turns_of(again) == ["a", "alpha/x", "alpha/inner/y", "alpha/inner/y", "alpha/x", "a", "beta/z", "a"]


async def test_agents_of_a_crew_that_is_called_again_go_on_counting_in_a_script(tmp_path: Path) -> None:
    crew = load_definition(nested_crew(tmp_path / "crew"))
    answers: dict[str, list[Answer | str]] = {
        "a": ["1\n[WRITE]", "2\n[WRITE]", "3\n[END]"],
        "beta/z": ["first\n[END]", Answer(error="away"), "second\n[END]"],
    }

    async with box_in(tmp_path, models=ScriptedModel(answers), script=None) as box:
        result = await (await box.start(crew, "x", run_id="r")).result()
        tree = await whole(box)
        second = list(await box.journal.tree((await box.journal.rows_below("r"))[1].run))
    (tmp_path / "s.yaml").write_text(script_yaml(tree), "utf-8")
    assert (result.status, read_script(tmp_path / "s.yaml")) == ("completed", answers)
    (tmp_path / "s.yaml").write_text(script_yaml(second), "utf-8")
    assert read_script(tmp_path / "s.yaml") == {"z": answers["beta/z"][1:]}, "by itself it starts from the beginning"


async def test_runs_of_one_crew_beside_each_other_have_answers_of_their_own_in_a_script(tmp_path: Path) -> None:
    folder = nested_crew(tmp_path / "crew")
    text = (folder / "crew.yaml").read_text("utf-8")
    again = '{signal: "[AGAIN]", type: sub_crew, target_crew: beta}'
    (folder / "crew.yaml").write_text(text.replace("    a:\n", f"    a:\n      - {again}\n"), "utf-8")
    answers = {
        "a": ["1\n[WRITE] [AGAIN]", "2\n[WRITE] [AGAIN]", "3\n[END]"],
        "beta/z": ["one\n[END]", "three\n[END]"],
        "beta#2/z": ["two\n[END]", "four\n[END]"],
    }

    async with box_in(tmp_path, models=ScriptedModel(answers), script=None) as box:
        run = await box.start(load_definition(folder), "x", run_id="r")
        status, tree = (await run.result()).status, await whole(box)
    (tmp_path / "s.yaml").write_text(script_yaml(tree), "utf-8")
    script = read_script(tmp_path / "s.yaml").items()
    said = {name: [each if isinstance(each, str) else each.text for each in given] for name, given in script}
    assert (status, said) == ("completed", answers)
    results = [event.text for stored in tree for event in stored.record.events if isinstance(event, ChildReturned)]
    assert sorted(results) == ["four", "one", "three", "two"]


async def test_without_answers_of_their_own_they_get_those_of_the_crew(tmp_path: Path) -> None:
    model = ScriptedModel({"team/x": ["of the team"], "x": ["of anybody"]})
    for path, said in ((("team#2",), "of the team"), (("other#3",), "of anybody")):
        request = ModelRequest(key="k", agent="x", number=1, system="", messages=(), path=path)
        assert (await last_of(model.reply(request))).text == said


async def last_of(pieces: AsyncIterator[Delta | ReasoningDelta | ModelReply]) -> ModelReply:
    found = [piece async for piece in pieces]
    assert isinstance(found[-1], ModelReply)
    return found[-1]


async def test_turns_stand_where_their_crew_was_called_whoever_was_faster(tmp_path: Path) -> None:
    crew = load_definition(nested_crew(tmp_path / "crew"))
    model = ScriptedModel({"a": ["x\n[BOTH] [WRITE]", "y\n[END]"], "alpha/x": ["1\n[END]"], "beta/z": ["2\n[END]"]})

    async with box_in(tmp_path, models=model, script=None) as box:
        await (await box.start(crew, "x", run_id="r")).result()
        tree = await whole(box)
    for reverse in (False, True):
        in_this_order = [tree[0], *sorted(tree[1:], key=lambda stored: stored.run, reverse=reverse)]
        assert turns_of(in_this_order) == ["a", "alpha/x", "beta/z", "a"]


# Looking after


async def test_the_doctor_finds_a_whole_tree_well(tmp_path: Path) -> None:
    await a_tree(tmp_path, over=False)
    found = await check_store(tmp_path / "data")
    assert (found.problems, found.runs) == ([], 3)


async def test_the_doctor_finds_a_child_without_its_caller_and_a_wait_for_nobody(tmp_path: Path) -> None:
    await a_tree(tmp_path, over=False)
    async with box_in(tmp_path) as box:
        await box.archive.delete_run("r~4.0", 1)
    assert (await check_store(tmp_path / "data")).problems == [
        "run 'r~4.0~4.0' was called by run 'r~4.0', which does not exist",
        "run 'r' waits for run 'r~4.0', which does not exist",
    ]
