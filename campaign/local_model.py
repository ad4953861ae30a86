"""Quizzes on a real small model: held to their marks, and left to themselves. Writes its part of campaign/RESULTS.md.

Usage: python -m campaign.local_model [RUNS]     20 of each kind unless told

It needs the extra `local` and `interlock model get smollm2`; `make campaign` brings both. It ends with 1 if a run was
not over in the end, or if a constrained reply did not end in a mark of its agent, or an agent had to be asked again.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.harness import machine, table
from campaign import results
from interlock import Interlock
from interlock.compose.crews import load_definition
from interlock.compose.interlock import Result
from interlock.compose.models import with_model
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import Event, GroupJoined, GroupStarted, ModelFailed, ModelReplied, Nudged
from interlock.engine.prompt.contract import usable_marks
from interlock.engine.run import OVER

RUNS = 20
MODEL = "local:smollm2"
EXAMPLES = Path(__file__).parent.parent / "examples"

# A teacher of this size asks on and on, and a round of questions takes a quarter of a minute.
HANDOFFS_MAX = 4


class Played(msgspec.Struct, frozen=True):
    """The result of one run."""

    result: Result
    seconds: float
    replies: int
    marked: int
    unconstrained: int
    nudges: int
    failures: int

    @property
    def ended_by_signal(self) -> bool:
        return self.result.reason.startswith("signal:")

    @property
    def is_over(self) -> bool:
        return self.result.status in OVER and bool(self.result.reason)

    @property
    def kept_to_its_marks(self) -> bool:
        return self.marked == self.replies and not (self.unconstrained or self.nudges)


def short_quiz(mode: str) -> CrewDefinition:
    return _changed(load_definition(EXAMPLES / "quiz-local"), signal_mode=mode)


def seeds_quiz(mode: str) -> CrewDefinition:
    """With the temperature of the model itself: at 0 every run would be the same one."""
    crew = with_model(load_definition(EXAMPLES / "quiz-exam"), MODEL)
    agents = tuple(msgspec.structs.replace(agent, temperature=None) for agent in crew.agents)
    return _changed(msgspec.structs.replace(crew, agents=agents), signal_mode=mode, max_handoffs=HANDOFFS_MAX)


def _changed(crew: CrewDefinition, **settings: object) -> CrewDefinition:
    return msgspec.structs.replace(crew, settings=msgspec.structs.replace(crew.settings, **settings))


async def played(crew: CrewDefinition, runs: int) -> list[Played]:
    """So many runs one after another, on one server."""
    with TemporaryDirectory() as folder:
        async with Interlock(folder) as box:
            return [await _one(box, crew) for _ in range(runs)]


async def _one(box: Interlock, crew: CrewDefinition) -> Played:
    begun = time.monotonic()
    run = await box.start(crew, "Begin the exam")
    result = await run.result()
    seconds = time.monotonic() - begun
    events = [event for record in await box.journal.records(run.id) for event in record.events]
    return counted(crew, result, seconds, events)


def counted(crew: CrewDefinition, result: Result, seconds: float, events: Sequence[Event]) -> Played:
    bound = list(bound_replies(crew, events))
    return Played(
        result,
        seconds,
        len(bound),
        sum(reply.text.rstrip().endswith(marks) for reply, marks in bound),
        sum(reply.unconstrained for reply, _ in bound),
        sum(isinstance(event, Nudged) for event in events),
        sum(isinstance(event, ModelFailed) for event in events),
    )


def bound_replies(crew: CrewDefinition, events: Sequence[Event]) -> Iterator[tuple[ModelReplied, tuple[str, ...]]]:
    """Replies of agents that can steer at that point, with their signals."""
    group = ""
    for event in events:
        if isinstance(event, GroupStarted):
            group = event.group
        elif isinstance(event, GroupJoined):
            group = ""
        elif isinstance(event, ModelReplied):
            marks = tuple(route.signal for route in usable_marks(crew, event.agent, group).steering)
            if marks:
                yield event, marks


HEADS = (
    "runs that ended by a signal",
    "replies that end in a mark of their agent, where one steers",
    "nudges",
    "failed calls",
    "seconds a run",
    "output tokens a second, prompts included",
    "outcomes",
)


def column(runs: Sequence[Played]) -> list[object]:
    replies, seconds = sum(run.replies for run in runs), sum(run.seconds for run in runs)
    return [
        f"{sum(run.ended_by_signal for run in runs)} of {len(runs)}",
        f"{sum(run.marked for run in runs)} of {replies}",
        sum(run.nudges for run in runs),
        sum(run.failures for run in runs),
        f"{seconds / len(runs):.1f}",
        f"{sum(run.result.usage.output_tokens for run in runs) / seconds:.1f}",
        ", ".join(f"{reason} {count}" for reason, count in _outcomes(runs)),
    ]


def _outcomes(runs: Sequence[Played]) -> list[tuple[str, int]]:
    return sorted(Counter(f"{run.result.status} ({run.result.reason})" for run in runs).items())


QUIZZES: tuple[tuple[str, Callable[[str], CrewDefinition]], ...] = (
    ("`examples/quiz-local`: one question, and every way leads to an end", short_quiz),
    (f"`examples/quiz-exam`: questions until the teacher ends it, or {HANDOFFS_MAX} handoffs", seeds_quiz),
)
MODES = ("constrained", "text")


def page(found: Sequence[Sequence[Sequence[Played]]]) -> str:
    """`found` has the runs by quiz and mode, in the order of both lists."""
    parts = [
        "# Local model campaign",
        f"Written by `python -m campaign.local_model`. {machine()}. `{MODEL}`, one thread.",
        "With `signal_mode: constrained` and with `text`. A reply that runs to 512 tokens without an end is a failed"
        " call.",
    ]
    for (name, _), by_mode in zip(QUIZZES, found, strict=True):
        columns = [column(runs) for runs in by_mode]
        parts += [name, table(("what", *MODES), list(zip(HEADS, *columns, strict=True)))]
    return "\n\n".join(parts) + "\n"


def is_sound(found: Sequence[Sequence[Sequence[Played]]]) -> bool:
    held = [run for constrained, _ in found for run in constrained]
    return all(run.is_over for by_mode in found for runs in by_mode for run in runs) and all(
        run.kept_to_its_marks for run in held
    )


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    found = [[asyncio.run(played(quiz(mode), runs)) for mode in MODES] for _, quiz in QUIZZES]
    written = page(found)
    results.put(written)
    print(written)
    sys.exit(0 if is_sound(found) else 1)
