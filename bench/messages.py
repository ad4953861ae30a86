"""What messages cost: a task given and reported, in the engine alone and on disk; and a thousand children at once."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.harness import Measurement, machine, measure, table, verdict
from interlock import Interlock, load_crew
from interlock.adapters.models.scripted import Answer, ScriptedModel, ToolCall
from interlock.crew.definition import Crew
from interlock.engine.effects import CallModel
from interlock.engine.events import ModelReplied, RunStarted, ToolRequest
from interlock.engine.step import RULES, Run

ROUNDS = 5
CHILDREN = (10, 100, 1_000)
REPEATS = 5


def tree(folder: Path, children: int) -> Crew:
    folder.mkdir()
    names = ", ".join(f"c{n}" for n in range(children))
    agents = "".join(f"  - {{id: c{n}}}\n" for n in range(children))
    (folder / "crew.yaml").write_text(
        'version: "2.0"\nname: tree\nentry_point: root\nagents:\n  - {id: root, is_terminal: true}\n'
        f"{agents}delegation: {{children: {{root: [{names}]}}, select: all}}\n"
        "settings: {max_rounds: 100, max_context_window: 1000000}\n",
        "utf-8",
    )
    return load_crew(folder)


def tasks(children: int) -> tuple[ToolRequest, ...]:
    return tuple(
        ToolRequest(
            id=f"t{n}", name="delegate", arguments=msgspec.json.encode({"to": f"c{n}", "task": "look"}).decode()
        )
        for n in range(children)
    )


def conversation(crew: Crew, children: int, rounds: int) -> None:
    """The engine alone: so many rounds of tasks to all children and their reports."""
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


async def stored(crew: Crew, children: int, rounds: int, folder: Path) -> None:
    """The whole: a driver, a store, scripted models."""
    gives = Answer(tool_calls=tuple(ToolCall("delegate", {"to": f"c{n}", "task": "look"}) for n in range(children)))
    script: dict[str, list[Answer | str]] = {"root": [*[gives] * rounds, "done"]}
    script |= {f"c{n}": ["a report"] * rounds for n in range(children)}
    async with Interlock(folder, models=ScriptedModel(script), durability="normal") as box:
        result = await (await box.start(crew, "go")).result()
        assert result.status == "completed", result


def beyond_one(play: Callable[[int], object]) -> Measurement:
    """What a further round costs: all rounds, less a run of one."""
    one = measure(lambda: play(1), repeats=REPEATS)
    all_ = measure(lambda: play(1 + ROUNDS), repeats=REPEATS)
    return Measurement((all_.cpu_us - one.cpu_us) / ROUNDS, (all_.wall_us - one.wall_us) / ROUNDS)


def run() -> str:
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        one = tree(folder / "one", 1)
        alone = beyond_one(lambda rounds: conversation(one, 1, rounds))
        on_disk = beyond_one(lambda rounds: asyncio.run(stored(one, 1, rounds, folder / "data")))
        rows += [["a round trip, the engine alone", 1, alone.cpu_us, alone.wall_us]]
        rows += [["a round trip, on disk (normal)", 1, on_disk.cpu_us, on_disk.wall_us]]
        each = {}
        for children in CHILDREN:
            crew = tree(folder / f"fan{children}", children)
            cost = measure(lambda c=crew, n=children: conversation(c, n, 1), repeats=3)
            each[children] = cost.cpu_us / children
            rows.append(["children at once, the engine alone, each", children, each[children], cost.wall_us / children])
        crew = tree(folder / "fan", CHILDREN[-1])
        cost = measure(lambda: asyncio.run(stored(crew, CHILDREN[-1], 1, folder / "many")), repeats=1)
        rows.append(
            ["children at once, on disk, each", CHILDREN[-1], cost.cpu_us / CHILDREN[-1], cost.wall_us / CHILDREN[-1]]
        )
    grows = each[CHILDREN[-1]] / each[CHILDREN[0]]
    return "\n".join(
        [
            "## messages: tasks given and reported",
            "",
            machine(),
            "",
            table(["what", "children", "CPU µs", "wall µs"], rows),
            "",
            verdict(
                "a thousand children at once all report, and each costs at most 10 times one of ten",
                f"{grows:.1f} times of CPU",
                grows <= 10,
            ),
        ]
    )


if __name__ == "__main__":
    print(run())
