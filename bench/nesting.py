"""Measures nested crews: a level of nesting, and one of many parallel children, in time and memory."""

import asyncio
import gc
import tempfile
import tracemalloc
from pathlib import Path
from typing import NamedTuple

from bench.harness import Measurement, machine, measure, table, verdict
from interlock import Interlock
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition

LEVELS = (1, 5, 10)
CHILDREN = (10, 50, 100)
REPEATS = 7


class Tree(NamedTuple):
    """A crew, and the replies of its agents."""

    crew: CrewDefinition
    script: dict[str, list[str]]


def chain(folder: Path, levels: int) -> Tree:
    """A crew that calls a crew that calls a crew."""
    root, script = folder, dict[str, list[str]]()
    for level in range(levels):
        folder.mkdir()
        is_last = level == levels - 1
        sub = "" if is_last else "sub_crews: {down: {config_path: down}}\n"
        route = "" if is_last else '{signal: "[DOWN]", type: sub_crew, target_crew: down}, '
        _write(folder, f"level{level}", f"a{level}", sub, f'{route}{{signal: "[END]"}}')
        script[f"a{level}"] = ["[END]"] if is_last else ["[DOWN]", "back [END]"]
        folder = folder / "down"
    return Tree(load_definition(root), script)


def fan(folder: Path, children: int) -> Tree:
    """A crew whose one reply calls its children in parallel."""
    folder.mkdir()
    names = [f"c{n}" for n in range(children)]
    for name in names:
        (folder / name).mkdir()
        _write(folder / name, name, f"a{name}", "", '{signal: "[END]"}')
    subs = ", ".join(f"{name}: {{config_path: {name}}}" for name in names)
    routes = ", ".join(f'{{signal: "[{name.upper()}]", type: sub_crew, target_crew: {name}}}' for name in names)
    _write(folder, "fan", "boss", f"sub_crews: {{{subs}}}\n", f'{routes}, {{signal: "[END]"}}')
    marks = " ".join(f"[{name.upper()}]" for name in names)
    return Tree(load_definition(folder), {"boss": [marks, "[END]"], **{f"a{name}": ["done [END]"] for name in names}})


def _write(folder: Path, name: str, agent: str, more: str, routes: str) -> None:
    text = f'version: "2.0"\nname: {name}\nentry_point: {agent}\nagents: [{{id: {agent}}}]\n{more}'
    (folder / "crew.yaml").write_text(f"{text}routing: {{signals: {{{agent}: [{routes}]}}}}\n", "utf-8")


async def played(tree: Tree, folder: Path, times: int = 1) -> None:
    async with Interlock(folder, models=ScriptedModel(tree.script), durability="normal") as box:
        for _ in range(times):
            result = await (await box.start(tree.crew, "go")).result()
            assert result.status == "completed", result


def cost(tree: Tree, folder: Path) -> Measurement:
    """The cost of one run of the tree, from playing it once and eleven times, without opening the folder."""
    once = measure(lambda: asyncio.run(played(tree, folder)), repeats=REPEATS)
    more = measure(lambda: asyncio.run(played(tree, folder, 11)), repeats=REPEATS)
    return Measurement((more.cpu_us - once.cpu_us) / 10, (more.wall_us - once.wall_us) / 10)


def peak_kb(tree: Tree, folder: Path) -> float:
    """The peak memory of one run, beyond that before it."""
    asyncio.run(played(tree, folder))
    gc.collect()
    tracemalloc.start()
    try:
        asyncio.run(played(tree, folder))
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


def _rows(kind: str, trees: dict[int, Tree], folder: Path) -> list[tuple[str, int, Measurement, float]]:
    rows = []
    for size, tree in trees.items():
        place = folder / f"{kind}-{size}-data"
        rows.append((kind, size, cost(tree, place), peak_kb(tree, place)))
    return rows


def run() -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        levels = _rows("levels", {n: chain(folder / f"chain{n}", n) for n in LEVELS}, folder)
        fans = _rows("children at once", {n: fan(folder / f"fan{n}", n) for n in CHILDREN}, folder)
    shown = [
        [kind, size, m.cpu_us / 1e3, m.wall_us / 1e3, m.cpu_us / 1e3 / size, kb]
        for kind, size, m, kb in (*levels, *fans)
    ]
    deep = (levels[2][2].cpu_us - levels[1][2].cpu_us) / (levels[1][2].cpu_us - levels[0][2].cpu_us) * 4 / 5
    wide = (fans[2][2].cpu_us / CHILDREN[2]) / (fans[0][2].cpu_us / CHILDREN[0])
    memory = (fans[2][3] - fans[1][3]) / (fans[1][3] - fans[0][3]) * 40 / 50
    return "\n".join(
        [
            "## nesting: crews that call crews, on disk (durability normal)",
            "",
            machine(),
            "",
            table(["what", "how many", "CPU ms a run", "wall ms a run", "CPU ms each", "peak kB"], shown),
            "",
            verdict(
                "a level from 5 to 10 costs at most 1.5 times one from 1 to 5", f"{deep:.2f} times of CPU", deep < 1.5
            ),
            verdict("a child of 100 costs at most 1.5 times one of 10", f"{wide:.2f} times of CPU", wide < 1.5),
            verdict(
                "a child from 50 to 100 takes at most 1.5 times the memory of one from 10 to 50",
                f"{memory:.2f} times",
                memory < 1.5,
            ),
        ]
    )


if __name__ == "__main__":
    print(run())
