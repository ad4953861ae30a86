"""What the campaign on a real small model counts, shown on scripts."""

from pathlib import Path

from campaign import local_model
from campaign.local_model import Played, counted, is_sound
from interlock import Interlock
from interlock.crew.definition import CrewDefinition
from interlock.testing import Answer, ScriptedModel


async def played(crew: CrewDefinition, folder: Path, **answers: list[str]) -> Played:
    script: dict[str, list[Answer | str]] = {agent: list(texts) for agent, texts in answers.items()}
    async with Interlock(folder, models=ScriptedModel(script)) as box:
        run = await box.start(crew, "Begin the exam")
        result = await run.result()
        events = [event for record in await box.journal.records(run.id) for event in record.events]
        return counted(crew, result, 1.0, events)


async def test_replies_count_where_their_agent_can_steer(tmp_path: Path) -> None:
    """The reporter's [OK] is an acknowledgement, and members are not asked for marks where their group goes on."""
    run = await played(
        local_model.seeds_quiz("text"),
        tmp_path,
        teacher=["Why?\n[QUESTION]", "well", "Over.\n[END_EXAM]"],
        student=["So.\n[ANSWER]"],
        reporter=["noted", "noted"],
    )
    assert run.ended_by_signal and run.is_over
    assert (run.replies, run.marked, run.nudges, run.failures) == (3, 3, 0, 0)
    assert run.kept_to_its_marks


async def test_a_reply_without_a_mark_is_seen_and_so_is_the_nudge(tmp_path: Path) -> None:
    run = await played(
        local_model.short_quiz("text"),
        tmp_path,
        teacher=["Why?", "Why?\n[QUESTION]"],
        student=["So.\n[ANSWER]"],
        reporter=["Noted.\n[OK]"],
        examiner=["Good.\n[PASSED]"],
    )
    assert (run.replies, run.marked, run.nudges) == (5, 4, 1)
    assert not run.kept_to_its_marks
    assert not is_sound([[[run], []]])
    assert is_sound([[[], [run]]])
