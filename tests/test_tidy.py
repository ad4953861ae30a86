"""The shape of the source: layers, purity, names. Each rule is STYLE.md's."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "interlock"

# Left of a layer is who may import it; packages on one line never import each other.
LAYERS = (
    ("cli",),
    ("server",),
    ("authoring",),
    ("compose", "testing"),
    ("runtime", "adapters"),
    ("ports",),
    ("events",),
    ("engine", "diagrams"),
    ("crew", "approvals"),
    ("signals", "broadcast", "messages"),
    ("errors",),
    ("ids",),
    ("limits",),
)
PURE = (
    "signals", "broadcast", "messages", "approvals", "crew", "diagrams", "engine", "events", "errors", "ids", "limits",
)  # fmt: skip
FORBIDDEN_IN_PURE = {
    "asyncio", "time", "random", "uuid", "os", "pathlib", "sqlite3", "logging", "datetime", "secrets",
    "socket", "threading", "subprocess", "io", "tempfile", "shutil", "sys",
}  # fmt: skip
# Reckoning with dates is no clock, as long as nobody asks what day it is.
MAY_RECKON = {"broadcast/schedules.py": {"datetime"}, "messages/answers.py": {"datetime"}}
ASKS_THE_CLOCK = {"now", "today", "utcnow"}
VAGUE_NAMES = {"utils", "helpers", "common", "manager", "base", "misc"}
RANK = {package: n for n, layer in enumerate(LAYERS) for package in layer}
FUNCTION_LINES_MAX = 45


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield str(file.relative_to(SOURCE)), ast.parse(file.read_text("utf-8"), str(file))


def test_there_is_something_to_look_at() -> None:
    assert set(RANK) <= {package_of(name) for name, _ in modules()}


def package_of(name: str) -> str:
    return name.split("/")[0].removesuffix(".py")


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


# What programs await is exported beside the pure names, and imported only when it is first asked for (decision 51).
EXCEPTIONS = (("messages/__init__.py", "interlock.runtime.mailboxes"),)


def layer_faults(name: str, imported: str) -> str | None:
    here, there = package_of(name), imported.removeprefix("interlock").removeprefix(".").split(".")[0]
    if here in ("__init__",) or not there or here == there or (name, imported) in EXCEPTIONS:
        return None
    if there not in RANK or here not in RANK:
        return f"{name} imports {imported}: unknown layer"
    return None if RANK[here] < RANK[there] else f"{name} imports {imported}: against the layers"


def test_imports_point_down_the_layers_only() -> None:
    faults = [
        fault
        for name, tree in modules()
        for imported in imports(tree)
        if imported.split(".")[0] == "interlock" and (fault := layer_faults(name, imported))
    ]
    assert faults == []


def test_the_layer_rule_can_fail() -> None:
    assert layer_faults("signals/matching.py", "interlock.crew.parse") is not None
    assert layer_faults("broadcast/pattern.py", "interlock.signals.matching") is not None
    assert layer_faults("crew/parse.py", "interlock.signals.matching") is None


def test_pure_packages_touch_nothing_outside() -> None:
    faults = []
    for name, tree in modules():
        if package_of(name) not in PURE:
            continue
        for imported in imports(tree):
            root = imported.split(".")[0]
            if root in MAY_RECKON.get(name, ()):
                continue
            if root in FORBIDDEN_IN_PURE or (root in THIRD_PARTIES and root != "msgspec"):
                faults.append(f"{name} imports {imported}")
    assert faults == []


def test_whoever_reckons_with_dates_does_not_ask_the_clock() -> None:
    trees = [tree for name, tree in modules() if name in MAY_RECKON]
    assert len(trees) == len(MAY_RECKON)
    attributes = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & ASKS_THE_CLOCK


THIRD_PARTIES = {
    "anyio", "click", "cuid2", "fastapi", "h11", "httpx2", "mcp", "mcp_types", "msgspec", "psycopg", "pydantic", "rich",
    "standardwebhooks", "starlette", "uvicorn", "yaml",
}  # fmt: skip


def test_heavy_libraries_stay_in_their_place() -> None:
    served = ("adapters", "server")
    homes = {
        "yaml": ("adapters",),
        "click": ("cli",),
        "rich": ("cli",),
        "cuid2": ("adapters",),
        "httpx2": ("adapters",),
        "mcp": served,
        "anyio": served,
        "pydantic": served,
        "psycopg": ("adapters",),
        "standardwebhooks": served,
        **dict.fromkeys(("fastapi", "h11", "starlette", "uvicorn"), ("server",)),
    }
    faults = [
        f"{name} imports {imported}"
        for name, tree in modules()
        for imported in imports(tree)
        for library, packages in homes.items()
        if imported.split(".")[0] == library and package_of(name) not in packages
    ]
    assert faults == []
    drivers = {"psycopg": "adapters/postgres/", "sqlite3": "adapters/"}
    assert [
        f"{name} imports {imported}"
        for name, tree in modules()
        for imported in imports(tree)
        if (home := drivers.get(imported.split(".")[0])) is not None and not name.startswith(home)
    ] == []


def test_no_module_has_a_vague_name() -> None:
    assert [name for name, _ in modules() if VAGUE_NAMES & set(Path(name).with_suffix("").parts)] == []


def test_every_module_says_what_it_is() -> None:
    assert [name for name, tree in modules() if not ast.get_docstring(tree)] == []


def test_functions_stay_small() -> None:
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_eval_no_exec_no_pickle() -> None:
    faults = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("eval", "exec", "compile")
    ]
    assert faults == []
    assert all("pickle" not in list(imports(tree)) for _, tree in modules())
