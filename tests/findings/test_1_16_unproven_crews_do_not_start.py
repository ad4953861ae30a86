"""`box.start` refuses a crew that was not proven, whoever built it; so does every other way to start a run."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Interlock, UnsoundCrew
from interlock.compose.crews import load_definition
from interlock.compose.upkeep.archive import export_run, import_run
from interlock.crew import proof
from interlock.crew.definition import (
    AgentBehavior,
    AgentDefinition,
    CrewDefinition,
    CrewSettings,
    GroupDefinition,
    RouteDefinition,
    SubCrewDefinition,
    SubscriptionDefinition,
)
from interlock.runtime import stored_crews
from interlock.runtime.stored_crews import StoredForm, as_stored_form
from interlock.signals.definition import SignalBehavior
from interlock.testing import ScriptedModel
from tests.findings.test_1_03_files_of_version_1_keep_working import crew_in

ROUTE, END = SignalBehavior.ROUTE, SignalBehavior.TERMINATE
TEACHER = AgentDefinition(id="teacher", name="teacher", is_terminal=True)
SOUND = CrewDefinition(version="2.0", name="school", entry_point="teacher", agents=(TEACHER,))
GHOSTLY = msgspec.structs.replace(
    SOUND,
    name="ghostly",
    routes={
        "teacher": (
            RouteDefinition(signal="[NEXT]", behavior=ROUTE, priority=50, target="ghost"),
            RouteDefinition(signal="[END]", behavior=END, priority=100, target="teacher"),
        )
    },
    defaults={"teacher": "nobody"},
)


async def refusal(folder: Path, ask: Callable[[Interlock], Awaitable[Any]]) -> UnsoundCrew:
    box = Interlock(folder / "data", models=ScriptedModel({"teacher": ["Hello."] * 3}))

    async with box:
        with pytest.raises(UnsoundCrew) as refused:
            await ask(box)
        assert not {"ghost", "taken"} & {row.run for row in await box.journal.rows()}
    return refused.value


async def test_a_crew_of_ghosts_is_refused_with_every_problem(tmp_path: Path) -> None:
    error = await refusal(tmp_path, lambda box: box.start(GHOSTLY, "go", run_id="ghost"))
    assert [problem.code for problem in error.problems] == ["unknown-agent", "unknown-target", "wrong-target"]
    assert str(error).splitlines()[0] == "crew 'ghostly' has 3 errors"
    assert (
        "crew 'ghostly', routing.signals.teacher[0].target: signal '[NEXT]' targets unknown agent 'ghost' "
        "(unknown-target)" in str(error)
    )


async def test_a_sound_crew_that_was_built_by_hand_runs(tmp_path: Path) -> None:
    box = Interlock(tmp_path / "data", models=ScriptedModel({"teacher": ["Hello."]}))

    async with box:
        assert (await (await box.start(SOUND, "go")).result()).reason == "terminal_agent"


def nested(levels: int) -> CrewDefinition:
    crew = SOUND
    for n in range(levels):
        crew = msgspec.structs.replace(
            SOUND, name=f"level{n}", sub_crews={"inner": SubCrewDefinition(name="inner", config_path="", crew=crew)}
        )
    return crew


def endless() -> CrewDefinition:
    """A crew that calls itself, which only a program can make."""
    crew = replace(SOUND, sub_crews={})
    crew.sub_crews["itself"] = SubCrewDefinition(name="itself", config_path="", crew=crew)
    return crew


replace = msgspec.structs.replace
B = AgentDefinition(id="b", name="b")
UNSOUND: dict[str, tuple[Any, str]] = {
    "a dead end": (
        replace(SOUND, agents=(AgentDefinition(id="teacher", name="teacher"), B), defaults={"teacher": "b"}),
        "no-way-on",
    ),
    "a dead end that only a file of version 1.0 makes terminal": (
        replace(
            SOUND, version="1.0", agents=(AgentDefinition(id="teacher", name="teacher"), B), defaults={"teacher": "b"}
        ),
        "no-way-on",
    ),
    "an agent that nobody reaches": (replace(SOUND, agents=(TEACHER, B)), "unreachable-agent"),
    "an agent that only a file of version 1.0 leaves out": (
        replace(SOUND, version="1.0", agents=(TEACHER, B)),
        "unreachable-agent",
    ),
    "two agents of one id": (replace(SOUND, agents=(TEACHER, TEACHER)), "name-clash"),
    "no agents": (replace(SOUND, agents=()), "unknown-agent"),
    "a setting out of range": (replace(SOUND, settings=CrewSettings(max_handoffs=-5)), "bad-value"),
    "a version that there is not": (replace(SOUND, version="9.9"), "bad-value"),
    "a mark that is none": (
        replace(SOUND, routes={"teacher": (RouteDefinition(signal="END", behavior=END, priority=1),)}),
        "bad-format",
    ),
    "an unnamed group of nobody": (
        replace(SOUND, groups={"teacher:[X]": GroupDefinition(name="teacher:[X]", agents=("ghost",), unnamed=True)}),
        "unknown-agent",
    ),
    "a pattern that matches nothing": (
        replace(SOUND, subscriptions=(SubscriptionDefinition(agent="teacher", pattern=" "),)),
        "bad-value",
    ),
    "a sub-crew without a crew": (
        replace(SOUND, sub_crews={"team": SubCrewDefinition(name="team", config_path="team")}),
        "bad-path",
    ),
    "an unsound sub-crew": (
        replace(SOUND, sub_crews={"team": SubCrewDefinition(name="team", config_path="team", crew=GHOSTLY)}),
        "unknown-target",
    ),
    "crews nested too deep": (nested(12), "too-deep"),
    "a crew that calls itself": (endless(), "too-deep"),
    "values of the wrong type": (replace(SOUND, agents=("teacher",)), "bad-value"),
    "sub-crews of the wrong type": (replace(SOUND, sub_crews={"team": "team"}), "bad-value"),
    "a sub-crew of the wrong type": (
        replace(SOUND, sub_crews={"team": SubCrewDefinition(name="team", config_path="team", crew="team")}),  # type: ignore[arg-type]
        "bad-value",
    ),
    "a text that cannot be stored": (replace(SOUND, description="\ud800"), "bad-value"),
}


@pytest.mark.parametrize("what", UNSOUND)
async def test_whatever_a_file_would_be_refused_for_is_refused(tmp_path: Path, what: str) -> None:
    crew, code = UNSOUND[what]
    error = await refusal(tmp_path, lambda box: box.start(crew, "go", run_id="ghost"))
    assert code in {problem.code for problem in error.problems}


async def test_a_crew_that_was_changed_after_it_was_proven_is_proven_again(tmp_path: Path) -> None:
    """The proof is of what the crew says, not of the object."""
    crew = replace(SOUND, defaults={})

    async def changed(box: Interlock) -> None:
        await (await box.start(crew, "go")).result()
        crew.defaults["teacher"] = "ghost"
        await box.start(crew, "go", run_id="ghost")

    assert [problem.code for problem in (await refusal(tmp_path, changed)).problems] == ["unknown-agent"]


async def test_a_finished_run_is_not_continued_with_an_unproven_crew(tmp_path: Path) -> None:
    async def continued(box: Interlock) -> None:
        await (await box.start(SOUND, "go", run_id="first")).result()
        await box.continue_run(GHOSTLY, "more", "first", run_id="ghost")

    await refusal(tmp_path, continued)


async def test_an_unproven_crew_does_not_listen(tmp_path: Path) -> None:
    await refusal(tmp_path, lambda box: box.listen(GHOSTLY))


async def stored(box: Interlock) -> StoredForm:
    """The crew as a program of another time may have left it: in the store, and proven by nobody."""
    form = as_stored_form(GHOSTLY)
    await box.runner.crews.store_crew(form)
    return form


async def test_a_run_of_an_unproven_crew_is_not_forked(tmp_path: Path) -> None:
    async def forked(box: Interlock) -> None:
        form = await stored(box)
        await box.runner.start(form.crew, form.sha, "go", run_id="first")
        await box.runner.wait_until_settled("first")
        await box.fork("first", 2, new_id="ghost")

    await refusal(tmp_path, forked)


async def exported(box: Interlock) -> tuple[bytes, bytes]:
    """A run of an unproven crew that waits for a person, and the same run after it has ended."""
    end = RouteDefinition(signal="[END]", behavior=END, priority=100)
    waits = {"teacher": AgentBehavior(wait_for_signal=True)}
    agents = (AgentDefinition(id="teacher", name="teacher"), B)
    form = as_stored_form(replace(SOUND, agents=agents, routes={"teacher": (end,)}, behaviors=waits))
    await box.runner.crews.store_crew(form)
    await box.runner.start(form.crew, form.sha, "go", run_id="taken")
    await box.runner.wait_until_settled("taken")
    paused = await export_run(box, "taken")
    await box.cancel("taken")
    await box.runner.wait_until_settled("taken")
    return paused, await export_run(box, "taken")


async def test_a_run_of_an_unproven_crew_is_not_taken_in_to_be_driven_here(tmp_path: Path) -> None:
    model = ScriptedModel({"teacher": ["Well?"]})
    async with Interlock(tmp_path / "elsewhere", models=model) as box:
        paused, ended = await exported(box)
    error = await refusal(tmp_path, lambda box: import_run(box, paused, "taken.run"))
    assert [problem.code for problem in error.problems] == ["unreachable-agent"]
    async with Interlock(tmp_path / "data", models=model) as box:
        row = await import_run(box, ended, "taken.run")
    assert (row.run, row.status) == ("taken", "cancelled")  # to be read; a fork would be refused


async def test_a_broadcast_starts_no_run_of_an_unproven_crew(tmp_path: Path) -> None:
    async def started(box: Interlock) -> None:
        form = await stored(box)
        await box.signals.declare_subscriptions(form.crew, form.sha)
        await box._start_for_delivery(_Delivery())  # type: ignore[arg-type]

    await refusal(tmp_path, started)


class _Delivery:
    """What is looked at of a delivery before the proof."""

    crew, agent = "ghostly", "teacher"


def test_a_crew_that_many_call_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(proof, "_require_types", lambda crew: looked.append(crew.name))
    crew = SOUND
    for n in range(10):
        subs = {f"team{m}": SubCrewDefinition(name=f"team{m}", config_path="", crew=crew) for m in range(8)}
        crew = replace(SOUND, name=f"level{n}", sub_crews=subs)
    proof.require_sound_crew(crew)
    assert len(looked) == 11


async def test_a_crew_that_load_crew_gives_is_proven_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(stored_crews, "require_sound_crew", lambda crew: asked.append(crew.name))
    text = 'version: "2.0"\nname: solo\nentry_point: teacher\nagents: [{id: teacher, is_terminal: true}]\n'
    crew = load_definition(crew_in(tmp_path / "crew", text))

    async with Interlock(tmp_path / "data", models=ScriptedModel({"teacher": ["Hi."] * 2})) as box:
        for _ in range(2):
            await (await box.start(crew, "go")).result()
    assert asked == ["solo"]
