"""Measures messages: a task and its report, in the engine alone and on disk; many children, many messages."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.harness import Measurement, machine, measure, table, verdict
from interlock import Interlock
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.engine.effects import CallModel
from interlock.engine.events import ModelReplied, RunStarted, ToolRequest
from interlock.engine.run import RULES, Run

ROUNDS = 5
CHILDREN = (10, 100, 1_000)
REPEATS = 5

# One of the most may cost so much of one of the fewest.
GROWS_MAX = 1.5


def tree(folder: Path, children: int) -> CrewDefinition:
    folder.mkdir()
    names = ", ".join(f"c{n}" for n in range(children))
    agents = "".join(f"  - {{id: c{n}}}\n" for n in range(children))
    (folder / "crew.yaml").write_text(
        'version: "2.0"\nname: tree\nentry_point: root\nagents:\n  - {id: root, is_terminal: true}\n'
        f"{agents}delegation: {{children: {{root: [{names}]}}, select: all}}\n"
        "settings: {max_rounds: 2000, max_context_window: 1000000}\n",
        "utf-8",
    )
    return load_definition(folder)


def tasks(children: int) -> tuple[ToolRequest, ...]:
    return tuple(
        ToolRequest(
            id=f"t{n}", name="delegate", arguments=msgspec.json.encode({"to": f"c{n}", "task": "look"}).decode()
        )
        for n in range(children)
    )


def conversation(crew: CrewDefinition, children: int, rounds: int) -> None:
    """The engine alone: rounds of tasks to all children and their reports."""
    run, calls = Run(crew, "r"), list[CallModel]()
    calls += _calls(run.apply(RunStarted(crew=crew.name, input="go", rules=RULES)).effects)
    said, given = 0, tasks(children)
    while calls:
        call = calls.pop(0)
        said += call.agent == "root"
        asks = given if call.agent == "root" and said <= rounds else ()
        text = "done" if call.agent == "root" else "a report"
        reply = ModelReplied(call=call.key, agent=call.agent, text="" if asks else text, tool_calls=asks)
        calls += _calls(run.apply(reply).effects)
    assert run.state.status == "completed", run.state.reason
    assert run.state.messages == 2 * children * rounds


def _calls(effects: tuple[object, ...]) -> list[CallModel]:
    return [effect for effect in effects if isinstance(effect, CallModel)]


async def stored(crew: CrewDefinition, children: int, rounds: int, folder: Path) -> None:
    """The whole stack: a driver, a store, scripted models."""
    gives = ScriptedAnswer(
        tool_calls=tuple(ToolCall("delegate", {"to": f"c{n}", "task": "look"}) for n in range(children))
    )
    script: dict[str, list[ScriptedAnswer | str]] = {"root": [*[gives] * rounds, "done"]}
    script |= {f"c{n}": ["a report"] * rounds for n in range(children)}
    async with Interlock(folder, models=ScriptedModel(script), durability="normal") as box:
        result = await (await box.start(crew, "go")).result()
        assert result.status == "completed", result


def beyond_one(play: Callable[[int], object]) -> Measurement:
    """The cost of a further round: all rounds, less a run of one."""
    one = measure(lambda: play(1), repeats=REPEATS)
    all_ = measure(lambda: play(1 + ROUNDS), repeats=REPEATS)
    return Measurement((all_.cpu_us - one.cpu_us) / ROUNDS, (all_.wall_us - one.wall_us) / ROUNDS)


async def questions(crew: CrewDefinition, count: int, folder: Path) -> None:
    """One agent that asks its parent `count` times, and gets answers."""
    asks = [
        ScriptedAnswer(tool_calls=(ToolCall("query_parent", {"question": f"what about {n}?"}),)) for n in range(count)
    ]
    answers = [ScriptedAnswer(tool_calls=(ToolCall("answer_child", {"answer": "yes"}),)) for _ in range(count)]
    task = ScriptedAnswer(tool_calls=(ToolCall("delegate", {"to": "c0", "task": "look"}),))
    script: dict[str, list[ScriptedAnswer | str]] = {"root": [task, *answers, "done"], "c0": [*asks, "a report"]}
    async with Interlock(folder, models=ScriptedModel(script), durability="normal") as box:
        result = await (await box.start(crew, "go")).result()
        assert result.status == "completed", result


def each_of(play: Callable[[int], object], counts: tuple[int, ...]) -> dict[int, Measurement]:
    """The cost of one of many, less the cost of a run of one."""
    one, found = measure(lambda: play(1), repeats=REPEATS), {}
    for count in counts:
        whole = measure(lambda n=count: play(n), repeats=REPEATS if count < counts[-1] else 3)
        further = count - 1
        found[count] = Measurement((whole.cpu_us - one.cpu_us) / further, (whole.wall_us - one.wall_us) / further)
    return found


def run() -> str:
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        one = tree(folder / "one", 1)
        alone = beyond_one(lambda rounds: conversation(one, 1, rounds))
        on_disk = beyond_one(lambda rounds: asyncio.run(stored(one, 1, rounds, folder / "data")))
        rows += [["a round trip, the engine alone", 1, alone.cpu_us, alone.wall_us]]
        rows += [["a round trip, on disk (normal)", 1, on_disk.cpu_us, on_disk.wall_us]]
        crews = {children: tree(folder / f"fan{children}", children) for children in (1, *CHILDREN)}
        plays: dict[str, Callable[[int], object]] = {
            "children at once, the engine alone, each": lambda n: conversation(crews[n], n, 1),
            "children at once, on disk, each": lambda n: asyncio.run(stored(crews[n], n, 1, folder / "many")),
            "questions of one agent, on disk, each": lambda n: asyncio.run(questions(one, n, folder / "asked")),
        }
        grows = {}
        for what, play in plays.items():
            found = each_of(play, CHILDREN)
            rows += [[what, count, cost.cpu_us, cost.wall_us] for count, cost in found.items()]
            grows[what] = found[CHILDREN[-1]].cpu_us / found[CHILDREN[0]].cpu_us
    return "\n".join(
        [
            "## messages: tasks given and reported, questions asked and answered",
            "",
            machine(),
            "",
            table(["what", "how many", "CPU µs", "wall µs"], rows),
            "",
            *(
                verdict(
                    f"{what}: one of {CHILDREN[-1]:,} costs at most {GROWS_MAX} times one of {CHILDREN[0]}",
                    f"{times:.1f} times of CPU",
                    times <= GROWS_MAX,
                )
                for what, times in grows.items()
            ),
        ]
    )


if __name__ == "__main__":
    print(run())
