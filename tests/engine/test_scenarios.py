"""Stories of runs, one a file: a command, then what it must lead to.

A file holds a crew, then steps. Each step is a command, a line of dashes, and the facts and orders it gave:

    crew                 the crew, in YAML, without version and name
    start TEXT           a run begins
    reply AGENT: TEXT    the model of AGENT answers; `\\n` is a line break
    tools AGENT: A, B    the model of AGENT calls tools A and B
    output TOOL: TEXT    the tool gives its output; `broke TOOL: TEXT` is an error, `lost TOOL` an unknown outcome
    fail AGENT: TEXT     the model call fails; `refuse AGENT: TEXT` fails it for good
    after PURPOSE        the timer of PURPOSE fires
    resume TEXT          the oldest wait is answered
    cancel               somebody cancels the run
    history              shows what is shared

Changed output is rewritten by `python tests/engine/test_scenarios.py`; read its diff before you commit it.
After every step the state must survive a trip through JSON, and a replay of the events must give the same facts.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.adapters.crew_files import read_crew
from interlock.crew.definition import Crew
from interlock.engine.effects import Announce, CallModel, Cancel, Effect, RunTool, SetTimer, Tell
from interlock.engine.events import (
    CancelRequested,
    DerivedEvent,
    IncomingEvent,
    ModelFailed,
    ModelReplied,
    RunResumed,
    RunStarted,
    TimerFired,
    ToolOutcomeLost,
    ToolRequest,
    ToolReturned,
    Usage,
)
from interlock.engine.step import RULES, Run, Step

SCENARIOS = Path(__file__).parent / "scenarios"
DASHES = "----"


class Story:
    """One run, told step by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[IncomingEvent] = []
        self.facts: list[tuple[DerivedEvent, ...]] = []
        self.open: dict[str, Effect] = {}
        self.names: dict[str, str] = {}

    def tell(self, command: str) -> str:
        word, _, rest = command.partition(" ")
        if word.startswith("crew"):
            return self._crew(command.partition("\n")[2])
        if word == "history":
            return "\n".join(f"{e.role} {e.author}: {e.text}".replace("\n", "\\n") for e in self.run.state.history)
        step = self._apply(self._event(word, rest.replace("\\n", "\n")))
        return "\n".join([*(self._fact(fact) for fact in step.facts), *(self._effect(e) for e in step.effects)])

    def _crew(self, text: str) -> str:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "crew.yaml").write_text(f'version: "2.0"\nname: story\n{text}\n', "utf-8")
        loaded = read_crew(self.folder)
        assert loaded.crew is not None
        self.crew: Crew = loaded.crew
        self.run = Run(self.crew, "r")
        return "ok" if loaded.is_sound else "\n".join(f"{p.code}: {p.message}" for p in loaded.problems)

    def _apply(self, event: IncomingEvent) -> Step:
        step = self.run.apply(event)
        self.events.append(event)
        self.facts.append(step.facts)
        for effect in step.effects:
            if isinstance(effect, Cancel):
                self.open.pop(effect.key, None)
            else:
                self.open[effect.key] = effect
        assert Run.restore(self.crew, self.run.snapshot()).snapshot() == self.run.snapshot()
        return step

    def replayed(self) -> Run:
        run = Run(self.crew, "r")
        for event, facts in zip(self.events, self.facts, strict=True):
            assert run.apply(event).facts == facts
        return run

    def _event(self, word: str, rest: str) -> IncomingEvent:
        who, _, text = rest.partition(":")
        who, text = who.strip(), text.strip()
        match word:
            case "start":
                return RunStarted(crew="story", input=rest, rules=RULES)
            case "reply":
                return ModelReplied(
                    call=self._call(who), agent=who, text=text, usage=Usage(input_tokens=3, output_tokens=2)
                )
            case "tools":
                requests = [
                    ToolRequest(id=f"t{n}", name=name.strip(), arguments="{}") for n, name in enumerate(text.split(","))
                ]
                return ModelReplied(call=self._call(who), agent=who, text="", usage=Usage(), tool_calls=tuple(requests))
            case "output" | "broke":
                return ToolReturned(call=self._tool(who), ok=word == "output", output=text)
            case "lost":
                return ToolOutcomeLost(call=self._tool(rest))
            case "fail" | "refuse":
                return ModelFailed(call=self._call(who), agent=who, error=text, retry=word == "fail")
            case "after":
                return self._timer(rest)
            case "resume":
                waits = self.run.state.waits
                return RunResumed(token=waits[0].token if waits else "gone", input=rest)
            case "cancel":
                return CancelRequested(by="somebody")
            case _:
                raise AssertionError(f"unknown command {word!r}")

    def _timer(self, purpose: str) -> TimerFired:
        timer = self.run.state.timers[purpose]
        return TimerFired(timer=timer.key, worked_ms=timer.left_ms)

    def _call(self, agent: str) -> str:
        found = [e for e in self.open.values() if isinstance(e, CallModel) and e.agent == agent]
        return found[-1].key if found else "gone"

    def _tool(self, name: str) -> str:
        found = [e for e in self.open.values() if isinstance(e, RunTool) and e.name == name]
        return found[-1].key if found else "gone"

    def _fact(self, fact: DerivedEvent) -> str:
        kind = str(fact.__struct_config__.tag)
        shown = {
            name: getattr(fact, name)
            for name in fact.__struct_fields__
            if name not in ("candidates", "call", "usage", "token") and getattr(fact, name) not in ("", 0, None)
        }
        return f"{kind} " + " ".join(f"{name}={_short(value)}" for name, value in shown.items())

    def _effect(self, effect: Effect) -> str:
        match effect:
            case CallModel():
                return f"  -> call {effect.agent}" + (f" again ({effect.attempt})" if effect.attempt else "")
            case RunTool():
                return f"  -> run tool {effect.name} for {effect.agent}"
            case SetTimer():
                self.names[effect.key] = f"timer of {effect.duration_ms} ms"
                return f"  -> set timer of {effect.duration_ms} ms"
            case Cancel():
                return f"  -> give up {self._given_up(effect.key)}"
            case Tell():
                return f"  -> tell the host {effect.signal}"
            case Announce():
                return f"  -> announce {effect.type}"

    def _given_up(self, key: str) -> str:
        if key in self.names:
            return self.names[key]
        return "a call" if key else "nothing"


def _requests(names: str) -> tuple[ToolRequest, ...]:
    return tuple(ToolRequest(id=f"t{n}", name=name.strip(), arguments="{}") for n, name in enumerate(names.split(",")))


def _short(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    text = text.replace("\n", "\\n")
    return f"'{text}'" if " " in text else text


def steps(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a file, each with the output below it."""
    for block in re.split(r"\n\n(?=\S)", text.strip()):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        command, _, output = "\n".join(lines).partition(f"\n{DASHES}\n")
        if command.removesuffix(f"\n{DASHES}").strip():
            yield command.removesuffix(f"\n{DASHES}"), output


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.txt")), ids=lambda file: file.stem)
def test_the_story_goes_as_written(file: Path, tmp_path: Path) -> None:
    story = Story(tmp_path / "crew")
    for command, expected in steps(file.read_text("utf-8")):
        assert story.tell(command) == expected, command
    assert story.replayed().snapshot() == story.run.snapshot()


def rewritten(file: Path, folder: Path) -> str:
    story = Story(folder)
    comments = [line for line in file.read_text("utf-8").splitlines() if line.startswith("#")]
    blocks = [f"{command}\n{DASHES}\n{story.tell(command)}".rstrip() for command, _ in steps(file.read_text("utf-8"))]
    return "\n".join(comments) + "\n" + "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:] or sorted(map(str, SCENARIOS.glob("*.txt"))):
        with tempfile.TemporaryDirectory() as scratch:
            Path(name).write_text(rewritten(Path(name), Path(scratch) / "crew"), "utf-8")
