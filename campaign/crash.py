"""Kills a process repeatedly while it plays a story, lets another one continue, and checks what must still hold.

Rule 1: the judge trusts three things only: what the outside world saw, what dead processes had acknowledged, and
the journal. None of them is compared with itself.
Rule 2: every life of the process has its own number; the last one is never killed.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from campaign.story import DELEGATED, ENTRUSTED, NESTED, SHORT, Story, random_story
from interlock.adapters.sqlite.store import SqliteStore
from interlock.engine.builtin_tools import BUILTIN_TOOLS
from interlock.engine.events import (
    Event,
    InputRequested,
    ModelReplied,
    RunResumed,
    ToolCalled,
    ToolOutcomeLost,
    ToolReturned,
)
from interlock.ports import StoredRecord
from tests.campaign.crash_child import RUN, digest

CHILD = Path(__file__).parent.parent / "tests" / "campaign" / "crash_child.py"
KILLED, HUNG = 137, 124

# The longest life of a process; a longer one hangs.
LIFE_MAX_S = 30.0


class Life(NamedTuple):
    """The life of one process: until its n-th boundary, for some seconds, or until it is done."""

    crash_at: int = 0
    kill_after_s: float | None = None
    step: str = "resume"
    planted: str = ""


class Nursery:
    """Starts processes quickly: each is a fork of one that has imported everything and opened nothing."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHILD.parent.parent.parent,
            env={"PYTHONPATH": ".", "PATH": ""},
        )

    def live(self, folder: Path, generation: int, life: Life) -> int:
        """The exit code, or `HUNG`."""
        job = {"folder": str(folder), "generation": generation, **life._asdict()}
        if life.kill_after_s is None:
            job["kill_after_s"] = LIFE_MAX_S
        assert self._process.stdin is not None, "it was opened with a pipe"
        assert self._process.stdout is not None, "it was opened with a pipe"
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        began = time.monotonic()
        code = int(self._process.stdout.readline())
        return HUNG if time.monotonic() - began >= LIFE_MAX_S else code

    def close(self) -> None:
        assert self._process.stdin is not None, "it was opened with a pipe"
        assert self._process.stdout is not None, "it was opened with a pipe"
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextmanager
def nursery() -> Iterator[Nursery]:
    opened = Nursery()
    try:
        yield opened
    finally:
        opened.close()


class Trial:
    """One run of a story in a folder of its own, over as many lives as it takes."""

    def __init__(self, nursery: Nursery, folder: Path, story: Story) -> None:
        self.nursery, self.folder, self.story = nursery, folder, story
        self.codes: list[int] = []
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "story").write_bytes(story.encoded())

    def live(self, life: Life) -> int:
        code = self.nursery.live(self.folder, len(self.codes) + 1, life)
        self.codes.append(code)
        return code

    @property
    def kills(self) -> int:
        return self.codes.count(KILLED)

    def said(self, generation: int) -> list[list[Any]]:
        """The output of a life; its death may have cut off the last line."""
        file = self.folder / f"said.{generation}"
        lines = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    def errors(self) -> str:
        return "".join(file.read_text("utf-8") for file in sorted(self.folder.glob("errors.*")))

    def world(self) -> list[tuple[int, str, str, str]]:
        file = self.folder / "world"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        return [tuple(json.loads(line)) for line in lines]

    def journal(self) -> list[StoredRecord]:
        """The journal of the run and of all below it."""
        return asyncio.run(_records(self.folder / "data"))

    def result(self) -> list[Any]:
        return next((words[1:] for words in self.said(len(self.codes)) if words[0] == "result"), [])


async def _records(data: Path) -> list[StoredRecord]:
    store = SqliteStore(data)
    try:
        for run in (RUN, *(row.run for row in await store.rows_below(RUN))):
            await store.records(run)  # every chain holds
        return list(await store.tree(RUN))
    finally:
        await store.close()


def _events(journal: list[StoredRecord]) -> list[tuple[str, Event]]:
    """Each with its run."""
    return [(stored.run, event) for stored in journal for event in stored.record.events]


class Decisions(NamedTuple):
    """Answers of people about tools with an unknown outcome; calls have the names that the outside world knows."""

    told: set[str]  # calls whose output is the person's word
    first: dict[str, str]  # by the call that a person ordered again: the first try, under whose key the tool runs


def decisions(journal: list[StoredRecord]) -> Decisions:
    """A question and the answer to it are known by their token; each stands in the record of what it led to."""
    lost: dict[str, str] = {}
    found = Decisions(set(), {})
    for stored in journal:
        begins, events = stored.record.events[0], stored.record.events[1:]
        if isinstance(begins, ToolOutcomeLost):
            asked = [event.token for event in events if isinstance(event, InputRequested)]
            lost |= dict.fromkeys(asked, f"{stored.run}:{begins.call}")
        if isinstance(begins, RunResumed) and begins.token in lost:
            call = lost[begins.token]
            ended = [f"{stored.run}:{event.call}" for event in events if isinstance(event, ToolReturned)]
            found.told.update(each for each in ended if each == call)
            again = [f"{stored.run}:{event.call}" for event in events if isinstance(event, ToolCalled)]
            found.first.update(dict.fromkeys(again, found.first.get(call, call)))
    return found


# The judge: each function yields what is wrong


def faults(trial: Trial, expected: Sequence[Any]) -> list[str]:
    """All violations after the last life. `expected` is the result of the story without a crash."""
    if trial.codes[-1] != 0 or any(code not in (0, KILLED) for code in trial.codes):
        return [f"exit codes {trial.codes}: {trial.errors()[-2000:]}"]
    journal = trial.journal()
    found = [] if trial.result() == list(expected) else [f"the result is {trial.result()}, not {list(expected)}"]
    found += _lost(trial, journal)
    found += _repeated(trial, decisions(journal))
    found += _paid_twice(trial, journal)
    found += _asked_twice(trial, journal)
    found += _invented(trial, journal)
    return found


def _lost(trial: Trial, journal: list[StoredRecord]) -> Iterator[str]:
    """Law 3: what was acknowledged is there."""
    kept = {(stored.run, stored.record.seq, digest(stored.record)) for stored in journal}
    answers = [(e.token, e.input) for _, e in _events(journal) if isinstance(e, RunResumed)]
    for generation in range(1, len(trial.codes) + 1):
        for word, *rest in trial.said(generation):
            if word == "stored" and tuple(rest) not in kept:
                yield f"life {generation} acknowledged the record at seq {rest[1]} of {rest[0]}, and it is gone"
            if word == "answered" and tuple(rest) not in answers:
                yield f"life {generation} acknowledged the answer {rest}, and it is gone"


def _repeated(trial: Trial, decided: Decisions) -> Iterator[str]:
    """Law 4: a call whose answer was in the journal when a life began was not made by that life, or any later one."""
    had: dict[int, set[str]] = {}
    for generation in range(1, len(trial.codes) + 1):
        words = [rest[0] for word, *rest in trial.said(generation) if word == "had"]
        had[generation] = {decided.first.get(key, key) for key in words[0]} if words else set()
    for generation, kind, key, what in trial.world():
        if key in had[generation]:
            yield f"life {generation} made {kind} call {key} ({what}) again, although its answer was in the journal"
    for (generation, key), times in Counter((g, key) for g, _, key, _ in trial.world()).items():
        if times > 1:
            yield f"life {generation} made call {key} {times} times"


def _paid_twice(trial: Trial, journal: list[StoredRecord]) -> Iterator[str]:
    """A tool that is not idempotent runs once, and once more for every time a person said so."""
    events = [event for _, event in _events(journal)]
    allowed = sum(isinstance(e, RunResumed) and e.input == "retry" for e in events)
    times = Counter(what for _, kind, _, what in trial.world() if kind == "pay")
    more = sum(count - 1 for count in times.values())
    if more > allowed:
        yield f"payments made more than once: {dict(times)}; a person allowed {allowed} more"


def _asked_twice(trial: Trial, journal: list[StoredRecord]) -> Iterator[str]:
    """One question an unknown outcome, and those that the story itself asks once each."""
    lost = Counter(f"{run}:{e.call}" for run, e in _events(journal) if isinstance(e, ToolOutcomeLost))
    for call, times in lost.items():
        if times > 1:
            yield f"the outcome of {call} was asked for {times} times"
    said = [answer for answers in trial.story.script.values() for answer in answers]
    own = sum("[WAIT]" in answer.text for answer in said)
    own += sum(call.name == "ask_user" for answer in said for call in answer.tool_calls)
    events = [event for _, event in _events(journal)]
    asked = sum(isinstance(e, InputRequested) and not e.question.startswith("tool ") for e in events)
    if asked != own:
        yield f"the story asks {own} questions, and {asked} were asked"


def _invented(trial: Trial, journal: list[StoredRecord]) -> Iterator[str]:
    """Every answer in the journals came from the world, once, or from a person; every tool of the script was called."""
    decided = decisions(journal)
    events = [event for _, event in _events(journal)]
    seen = {key for _, _, key, _ in trial.world()}
    answers = Counter(f"{run}:{e.call}" for run, e in _events(journal) if isinstance(e, ModelReplied | ToolReturned))
    ours = {f"{run}:{e.call}" for run, e in _events(journal) if isinstance(e, ToolCalled) and e.name in BUILTIN_TOOLS}
    for call, times in answers.items():
        is_seen = decided.first.get(call, call) in seen
        if times > 1 or not (is_seen or call in ours or call in decided.told):
            yield f"call {call} has {times} answers in the journal, and the world saw it: {is_seen}"
    wanted = sum(len(answer.tool_calls) for answers in trial.story.script.values() for answer in answers)
    again = sum(isinstance(e, RunResumed) and e.input == "retry" for e in events)
    called = sum(isinstance(e, ToolCalled) for e in events)
    if called != wanted + again:
        yield f"the story calls {wanted} tools, {again} again, and {called} were called"


# The long version


class Tally:
    """The counts of a campaign so far."""

    def __init__(self) -> None:
        self.trials = self.kills = self.lives = self.repeats = 0
        self.by_boundary: Counter[str] = Counter()
        self.faults: list[str] = []

    def add(self, trial: Trial, seed: int, found: list[str]) -> None:
        self.trials += 1
        self.kills += trial.kills
        self.lives += len(trial.codes)
        keys = Counter(key for _, _, key, _ in trial.world())
        self.repeats += sum(times - 1 for times in keys.values())
        self.faults += [f"seed {seed}: {fault}" for fault in found]
        for line in trial.errors().splitlines():
            self.by_boundary[line.partition("stopped at ")[2]] += 1
        self.by_boundary["a random moment"] += trial.kills - trial.errors().count("stopped at ")


# The share of trials that goes to each of them and those before it; the rest is drawn at random.
STORIES = ((0.1, SHORT), (0.25, NESTED), (0.35, DELEGATED), (0.5, ENTRUSTED))


def random_trial(nursery: Nursery, folder: Path, seed: int) -> tuple[Trial, list[str]]:
    """A story is played undisturbed for its result and length, and then with up to five deaths on its way."""
    random = Random(seed)
    luck = random.random()
    told = next((story for most, story in STORIES if luck < most), None)
    story = told or random_story(seed)
    calm = Trial(nursery, folder / "calm", story)
    began = time.monotonic()
    calm.live(Life())
    length_s = time.monotonic() - began
    trial = Trial(nursery, folder / "killed", story)
    for _ in range(random.randint(1, 5)):
        if random.random() < 0.5:
            life = Life(kill_after_s=random.uniform(0, length_s))
        else:
            life = Life(crash_at=int(2 ** random.uniform(0, 7)))
        if trial.live(life) == 0:
            break
    if trial.codes[-1] == KILLED:
        trial.live(Life())
    return trial, [*faults(calm, calm.result()), *faults(trial, calm.result())]


def _lane(first_seed: int, step: int, until: float, tally: Tally) -> None:
    with nursery() as started:
        seed = first_seed
        while time.monotonic() < until:
            with TemporaryDirectory(prefix="interlock-crash-") as folder:
                trial, found = random_trial(started, Path(folder), seed)
                tally.add(trial, seed, found)
            seed += step


def run(seconds: float, first_seed: int = 0, lanes: int = 2) -> list[Tally]:
    """Seeds are dealt to the lanes in turn, so any seed can be played again alone."""
    tallies = [Tally() for _ in range(lanes)]
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(lanes) as pool:
        for lane in [pool.submit(_lane, first_seed + n, lanes, until, tally) for n, tally in enumerate(tallies)]:
            lane.result()
    return tallies
