"""One story: a program with rules, approvals and hooks is killed, perhaps twice, and another one ends its run."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec

from interlock.adapters.crash_points import CRASH_EXIT_CODE
from interlock.engine.events import (
    ApprovalGiven,
    Event,
    HooksDecided,
    ModelCalled,
    ModelReplied,
    ToolCalled,
    ToolOutcomeLost,
    ToolReturned,
)
from tests.campaign import approvals_child as child
from tests.campaign.needs_story import NeedyLives


def approval_lives() -> NeedyLives:
    return NeedyLives(child.__name__)


def story_of(lives: NeedyLives, folder: Path, *deaths: int) -> tuple[list[str], bool]:
    """The faults, and whether the first program died. A program is killed at each boundary of `deaths`."""
    child.write_desk(folder)
    wrong: list[str] = []
    first_died = False
    for number, crash_at in enumerate((*deaths, 0)):
        decided, noted = asyncio.run(_decided(folder)), _calls(folder)
        code = lives.live(folder, "live", crash_at)
        if code not in (0, CRASH_EXIT_CODE):
            wrong.append(f"the program ended with {code}")
        wrong += [f"{call} was decided, and asked again" for call in _calls(folder)[len(noted) :] if call in decided]
        first_died = first_died or (number == 0 and code == CRASH_EXIT_CODE)
        noted = _calls(folder)
        wrong += ["a replay could not be read"] if lives.live(folder, "watch") else []
        wrong += [f"a replay called {call}" for call in _calls(folder)[len(noted) :]]
    return wrong + _end_faults(folder, len(deaths)), first_died


def _calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text("utf-8").splitlines() if file.exists() else []


async def _events(folder: Path) -> list[Event]:
    async with child.box_of(folder) as box:
        rows = await box.journal.rows()
        records = await box.journal.records(child.RUN) if rows else ()
        return [event for record in records for event in record.events]


async def _decided(folder: Path) -> set[str]:
    """What hooks have decided for good, as they note it: the verdict is in the journal."""
    tools: dict[str, str] = {}
    models: dict[str, int] = {}
    number, found = 1, set[str]()
    for event in await _events(folder):
        match event:
            case ToolCalled():
                tools[event.call] = f"{event.name} {msgspec.json.decode(event.arguments)['amount']}"
            case ModelCalled():
                models[event.call] = number
            case ModelReplied():
                number += 1
            case HooksDecided(verdict=verdict) if verdict.point == "before_tool":
                found.add(f"before_tool {tools[event.call]}")
            case HooksDecided(verdict=verdict) if verdict.point == "before_model":
                found.add(f"before_model {models[event.call]}")
            case HooksDecided():
                found.add(f"on_output {child.RUN}")
            case ToolReturned() if event.call in tools:
                found.add(f"after_tool {tools[event.call]}")
            case _:
                pass
    return found


def _end_faults(folder: Path, deaths: int) -> list[str]:
    calls, events = Counter(_calls(folder)), asyncio.run(_events(folder))
    wrong = [f"{name} {n} was denied and ran" for name, n in child.NEVER_RUN if calls[f"tool {name} {n}"]]
    for name, n in child.RUN_ONCE:
        if (count := calls[f"tool {name} {n}"]) > 1:
            wrong.append(f"{name} {n} was approved once and ran {count} times")
    lost = [event for event in events if isinstance(event, ToolOutcomeLost)]
    missing = [each for each in child.RUN_ONCE if not calls[f"tool {each[0]} {each[1]}"]]
    if len(lost) > deaths or len(missing) > len(lost):
        wrong.append(f"{len(missing)} approved calls did not run, {len(lost)} are told as lost, after {deaths} deaths")
    if sum(isinstance(event, ApprovalGiven) for event in events) != 1:
        wrong.append("the approval was not given once")
    return wrong + asyncio.run(_store_faults(folder))


async def _store_faults(folder: Path) -> list[str]:
    async with child.box_of(folder) as box:
        result = await box.result(child.RUN)
        standing = [(each.pattern, each.by) for each in await box.approvals()]
        wrong = [f"the run ended as {result.status}: {result.reason}"] if result.status != "completed" else []
        wrong += [f"these approvals hold: {standing}"] if standing != [("pay:amount < 60", "user:ann")] else []
        memory = (await box.state(child.RUN)).memory
        wrong += [f"the memory holds {memory}"] if memory != {"page 2": 2} else []
        return [*wrong, *await box.store.problems()]
