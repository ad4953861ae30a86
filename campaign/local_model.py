"""The quiz on a real small model: held to its marks, and left to itself. Writes its part of campaign/RESULTS.md.

Usage: python -m campaign.local_model [RUNS]     20 of each kind unless told; 1 if a constrained one had no signal

It needs the extra `local` and `interlock model get smollm2`; `make demo-real` brings both.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.harness import machine, table
from campaign import results
from interlock import Crew, Interlock, load_crew
from interlock.compose.box import Result
from interlock.engine.events import Event, ModelFailed, ModelReplied, Nudged

RUNS = 20
ROOT = Path(__file__).parent.parent


class Played(msgspec.Struct, frozen=True):
    """How one run went."""

    result: Result
    seconds: float
    replies: int
    marked: int
    nudges: int
    failures: tuple[str, ...]

    @property
    def ended_by_signal(self) -> bool:
        return self.result.reason.startswith("signal:")


def quiz(mode: str) -> Crew:
    crew = load_crew(ROOT / "examples" / "quiz-local")
    settings = msgspec.structs.replace(crew.settings, signal_mode=mode)
    return msgspec.structs.replace(crew, settings=settings)


async def played(mode: str, runs: int) -> list[Played]:
    """So many runs one after another, on one server."""
    crew = quiz(mode)
    with TemporaryDirectory() as folder:
        async with Interlock(folder) as box:
            return [await _one(box, crew) for _ in range(runs)]


async def _one(box: Interlock, crew: Crew) -> Played:
    begun = time.monotonic()
    run = await box.start(crew, "Begin the exam")
    result = await run.result()
    seconds = time.monotonic() - begun
    events = [event for record in await box.journal.records(run.id) for event in record.events]
    return _counted(result, seconds, events, marks_of(crew))


def marks_of(crew: Crew) -> tuple[str, ...]:
    return tuple(route.signal for routes in crew.routes.values() for route in routes)


def _counted(result: Result, seconds: float, events: Sequence[Event], marks: tuple[str, ...]) -> Played:
    replies = [event for event in events if isinstance(event, ModelReplied)]
    marked = [reply for reply in replies if reply.text.rstrip().endswith(marks)]
    nudges = [event for event in events if isinstance(event, Nudged)]
    failures = tuple(event.error for event in events if isinstance(event, ModelFailed))
    return Played(result, seconds, len(replies), len(marked), len(nudges), failures)


def column(runs: Sequence[Played]) -> list[object]:
    replies, seconds = sum(run.replies for run in runs), sum(run.seconds for run in runs)
    return [
        f"{sum(run.ended_by_signal for run in runs)} of {len(runs)}",
        f"{sum(run.marked for run in runs)} of {replies}",
        sum(run.nudges for run in runs),
        sum(len(run.failures) for run in runs),
        f"{seconds / len(runs):.1f}",
        f"{sum(run.result.usage.output_tokens for run in runs) / seconds:.1f}",
        ", ".join(f"{reason} {count}" for reason, count in _outcomes(runs)),
    ]


def _outcomes(runs: Sequence[Played]) -> list[tuple[str, int]]:
    return sorted(Counter(f"{run.result.status} ({run.result.reason})" for run in runs).items())


HEADS = (
    "runs that ended by a signal",
    "replies that end in a mark",
    "nudges",
    "failed calls",
    "seconds a run",
    "output tokens a second, prompts included",
    "outcomes",
)


def page(constrained: Sequence[Played], text: Sequence[Played]) -> str:
    rows = list(zip(HEADS, column(constrained), column(text), strict=True))
    parts = [
        "# Local model campaign",
        f"Written by `python -m campaign.local_model`. {machine()}. `local:smollm2`, one thread.",
        "`examples/quiz-local`, with `signal_mode: constrained` and with `text`."
        " A reply that runs to 512 tokens without an end is a failed call.",
        table(("what", "constrained", "text"), rows),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    constrained, text = asyncio.run(played("constrained", runs)), asyncio.run(played("text", runs))
    written = page(constrained, text)
    results.put(written)
    print(written)
    sys.exit(1 if any(run.marked < run.replies or not run.ended_by_signal for run in constrained) else 0)
