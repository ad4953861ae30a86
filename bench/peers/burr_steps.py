"""A handoff a step in Burr: two actions and a transition between them, with and without its SQLite persister."""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from burr.core import ApplicationBuilder, State, action, default, expr  # type: ignore[import-not-found]
from burr.core.persistence import SQLitePersister  # type: ignore[import-not-found]

from bench.harness import measure
from bench.peers import SIZES

REPLY = "x" * 183 + " [NEXT]"


def counted(state: Any) -> Any:
    return state.update(step=state["step"] + 1)


def spoken(state: Any) -> Any:
    return counted(state).append(messages=f"{state['step']} {REPLY}")


def turn(work: Callable[[Any], Any]) -> Any:
    @action(reads=["step", "messages"], writes=["step", "messages"])  # type: ignore[untyped-decorator]
    def agent(state: State) -> State:
        return work(state)

    return agent


@action(reads=["step"], writes=[])  # type: ignore[untyped-decorator]
def end(state: State) -> State:
    return state


def run(work: Callable[[Any], Any], steps: int, persister: Any = None, app: str = "app") -> None:
    done = expr(f"step >= {steps}")
    builder = (
        ApplicationBuilder()
        .with_actions(a=turn(work), b=turn(work), end=end)
        .with_transitions(("a", "end", done), ("a", "b", default), ("b", "end", done), ("b", "a", default))
        .with_identifiers(app_id=app, partition_key="bench")
        .with_state(step=0, messages=[])
        .with_entrypoint("a")
    )
    if persister is not None:
        builder = builder.with_state_persister(persister)
    builder.build().run(halt_after=["end"])


def _run_stored(steps: int, persister: Any, apps: Iterator[int]) -> None:
    run(spoken, steps, persister, f"app{next(apps)}")


def report(name: str, steps: int, work: Callable[[], object]) -> None:
    cost = measure(work, steps, repeats=3)
    row = {"peer": f"Burr {version('burr')}", "name": name, "steps": steps}
    print(json.dumps({**row, "cpu_us": cost.cpu_us, "wall_us": cost.wall_us}), flush=True)


def main(folder: Path) -> None:
    run(counted, 10)
    for work, name in ((counted, "in memory, no messages kept"), (spoken, "in memory, messages kept")):
        for steps in SIZES:
            report(name, steps, partial(run, work, steps))
    persister = SQLitePersister(str(folder / "burr.db"), connect_kwargs={"check_same_thread": False})
    persister.initialize()
    apps = iter(range(100))
    for steps in SIZES:
        report("durable, SQLitePersister", steps, partial(_run_stored, steps, persister, apps))
    persister.connection.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
