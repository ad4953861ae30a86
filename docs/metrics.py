"""Measure how readable the source is: names, sizes, dialect, and the path of one reply. docs/style.md has the rules.

Usage: python -m docs.metrics [FOLDER]      FOLDER is a tree of the package; src/interlock unless given

tests/test_house.py holds the limits; this prints the numbers, so that two trees can be compared.
"""

import ast
import asyncio
import gc
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "interlock"

# Words that only this project used for ordinary things.
DIALECT = re.compile(r"\b(whoever|nobody|somebody|anew|under way|go(es)? on|let go of|take[ns]? up)\b", re.IGNORECASE)
NO_PARTICIPLES = frozenset(["need", "feed", "seed", "speed", "embed", "exceed", "proceed", "shed", "red", "bed"])
IRREGULAR_PARTICIPLES = frozenset(
    [
        "begun",
        "taken",
        "told",
        "said",
        "shown",
        "kept",
        "made",
        "held",
        "left",
        "met",
        "sent",
        "heard",
        "seen",
        "spent",
        "written",
        "given",
        "drawn",
        "found",
        "known",
        "chosen",
        "done",
        "gone",
        "stuck",
        "bound",
        "broken",
        "hidden",
        "led",
        "lost",
        "meant",
        "paid",
        "stood",
        "woken",
        "won",
        "learnt",
    ]
)
# Nouns of this form: the ending that a reply is constrained to, the reading of a mark, the briefing of an agent.
NOUNS_IN_ING = frozenset({"ending", "reading", "briefing", "nothing"})
# Names that others decide: a method of uvicorn that we override, and an attribute of seed 004.
NAMES_OF_OTHERS = frozenset({"_unsupported_upgrade_warning", "acknowledged"})


class Module(NamedTuple):
    path: str
    text: str
    tree: ast.Module


def modules_in(source: Path) -> list[Module]:
    files = sorted(source.rglob("*.py"))
    texts = [file.read_text("utf-8") for file in files]
    return [
        Module(file.relative_to(source).as_posix(), text, ast.parse(text))
        for file, text in zip(files, texts, strict=True)
    ]


def functions_of(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_participle(name: str) -> bool:
    """Whether a function's name begins with a participle, which hides whether it asks, answers or acts."""
    word, _, rest = name.lstrip("_").partition("_")
    if word.endswith("ing") and not rest:  # `watching` hides it too; `remaining_ms` does not
        return word not in NOUNS_IN_ING
    return (word.endswith("ed") and word not in NO_PARTICIPLES) or word in IRREGULAR_PARTICIPLES


def participle_names(modules: list[Module]) -> list[str]:
    return [
        f"{module.path}:{function.lineno} {function.name}"
        for module in modules
        for function in functions_of(module)
        if is_participle(function.name) and function.name not in NAMES_OF_OTHERS
    ]


def duplicate_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Public class names that stand in more than one module, with these modules."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.path)
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def modules_by_folder(modules: list[Module]) -> Counter[str]:
    return Counter(Path(module.path).parent.as_posix() for module in modules)


def lines_of(module: Module) -> int:
    return module.text.count("\n")


def longest_function(modules: list[Module]) -> int:
    return max((node.end_lineno or 0) - node.lineno + 1 for module in modules for node in functions_of(module))


def dialect_in(modules: list[Module]) -> Counter[str]:
    """Words of the private dialect, by module."""
    return Counter({module.path: found for module in modules if (found := len(DIALECT.findall(module.text)))})


def bare_statuses(modules: list[Module]) -> list[str]:
    """Where an attribute or argument `status` is compared with or given a text, which hides the enum it is of."""
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "status":
                values = node.comparators
            elif isinstance(node, ast.keyword) and node.arg == "status":
                values = [node.value]
            else:
                continue
            if any(isinstance(value, ast.Constant) for value in values):
                found.append(f"{module.path}:{values[0].lineno}")
    return found


def symbols_in(folder: Path) -> Iterator[str]:
    """The last parts of all names that a tree defines: functions, classes, variables and attributes."""
    for module in modules_in(folder):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


CREW = """\
version: "2.0"
name: pair
entry_point: a
agents: [{id: a}, {id: b}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[END]"}]
    b: [{signal: "[NEXT]", target: a}, {signal: "[END]"}]
"""
# The reply whose path is recorded: by then every cache is filled.
RECORDED_REPLY, LAST_REPLY = 6, 9


class ReplyPath(NamedTuple):
    """Distinct files and functions of the package that one reply passes until the next model call.

    `calls` are all calls of Python functions on it, those of the standard library included. A step costs about as much
    as it has calls, and unlike its time their number is the same in each run.
    """

    files: list[str]
    functions: list[tuple[str, str]]
    calls: int

    def within(self, package: str) -> "ReplyPath":
        """The part of the path in one package."""
        functions = [each for each in self.functions if each[0].startswith(f"{package}/")]
        return ReplyPath(sorted({file for file, _ in functions}), functions, self.calls)


class _RecordingModel:
    """A model that records what is entered between one of its replies and its next call."""

    def __init__(self) -> None:
        from interlock.ports import ModelReply

        self.entered: set[tuple[str, str]] = set()
        self.calls = 0
        self._reply_type, self._replies = ModelReply, 0

    async def reply(self, request: Any) -> AsyncIterator[Any]:
        sys.setprofile(None)
        self._replies += 1
        mark = "[NEXT]" if self._replies < LAST_REPLY else "[END]"
        reply = self._reply_type(text=f"Reply {self._replies} to {request.agent}.\n{mark}")
        if self._replies == RECORDED_REPLY:
            sys.setprofile(self._record)
        yield reply

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or path == Path(__file__):
            return
        self.calls += 1
        if SOURCE in path.parents and not frame.f_code.co_name.startswith("<"):
            self.entered.add((path.relative_to(SOURCE).as_posix(), frame.f_code.co_qualname))


async def reply_path() -> ReplyPath:
    """Run a crew of two agents in memory, and record the path of one reply."""
    from interlock.adapters.clock import SystemClock
    from interlock.adapters.process_deltas import ProcessDeltas
    from interlock.adapters.tools.python_tools import PythonToolbox
    from interlock.compose.crews import load_definition
    from interlock.runtime.runner import Runner
    from interlock.testing import MemoryStore
    from interlock.testing.memory_owners import MemoryLeaders

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "crew.yaml").write_text(CREW, "utf-8")
        crew = load_definition(folder)
    store, model = MemoryStore(), _RecordingModel()
    async with Runner(
        journal=store,
        owners=store,
        orders=store,
        budgets=store,
        outbox=store,
        leaders=MemoryLeaders(store),
        bus=store.bus,
        deltas=ProcessDeltas(),
        clock=SystemClock(),
        model_for=lambda _crew, _agent, _run: model,
        toolbox=PythonToolbox(()),
    ) as runner:
        gc.disable()  # a collection in between would call finalizers
        try:
            await runner.start(crew, "0" * 64, "go", run_id="run")
            await runner.wait_until_settled("run")
        finally:
            gc.enable()
    return ReplyPath(sorted({file for file, _ in model.entered}), sorted(model.entered), model.calls)


def report(source: Path) -> Iterator[str]:
    modules = modules_in(source)
    folders, largest = modules_by_folder(modules), max(modules, key=lines_of)
    fullest = max(folders, key=lambda folder: folders[folder])
    yield f"functions named by a participle   {len(participle_names(modules))}"
    yield f"public class names in two modules {len(duplicate_classes(modules))}"
    yield f"modules in the fullest folder     {folders[fullest]} ({fullest})"
    yield f"lines of the longest file         {lines_of(largest)} ({largest.path})"
    yield f"lines of the longest function     {longest_function(modules)}"
    yield f"words of dialect                  {dialect_in(modules).total()}"


def main(arguments: list[str]) -> int:
    source = Path(arguments[0]) if arguments else SOURCE
    print("\n".join(report(source)))  # noqa: T201 - a command
    if not arguments:
        path = asyncio.run(reply_path())
        road = path.within("engine")
        print(f"the path of one reply             {len(path.functions)} functions in {len(path.files)} files")  # noqa: T201
        print(f"of these on the engine's road     {len(road.functions)} functions in {len(road.files)} files")  # noqa: T201
        print(f"calls of Python functions on it   {path.calls}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
