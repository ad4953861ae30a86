"""Generated parts of hand-written pages: blocks between comments, and links to code.

Rule 1: a block is `<!-- NAME: … -->` to `<!-- end of NAME -->`. BLOCKS says what stands between them.
Rule 2: a link to code is [`Symbol`](path), where path ends in .py, .ts or .tsx. If the file does not define the symbol,
the link moves to the file that does: the only one, or the only one in the same package. Otherwise it is an error.
"""

import re
import runpy
from collections.abc import Callable, Iterator
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Any

import interlock.ports as ports
from docs.figures import figures

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]

_BLOCK = re.compile(r"(<!-- (\w+): [^>]*? -->\n).*?(<!-- end of \2 -->)", re.DOTALL)
_LINK = re.compile(r"\[`([\w.]+)`\]\(([\w./-]+\.(?:py|tsx?))\)")
_SOURCES = (("src/interlock", "*.py"), ("web/src", "*.ts"), ("web/src", "*.tsx"))


def current_page(file: Path) -> str:
    """The page as it should be: blocks and links follow the code."""
    return with_links(with_blocks(file.read_text("utf-8")), file.parent)


def with_blocks(text: str) -> str:
    return _BLOCK.sub(lambda block: block[1] + "".join(f"{line}\n" for line in BLOCKS[block[2]]()) + block[3], text)


def with_links(text: str, folder: Path) -> str:
    return _LINK.sub(lambda link: f"[`{link[1]}`]({_target(link[1], folder, link[2])})", text)


def code_links(text: str) -> list[tuple[str, str]]:
    """Symbol and path of each link to code."""
    return _LINK.findall(text)


def _target(symbol: str, folder: Path, path: str) -> str:
    if (folder / path).exists() and defines((folder / path).read_text("utf-8"), symbol):
        return path
    homes = [file for file, text in _source_texts() if defines(text, symbol)]
    if len(homes) > 1:
        homes = [file for file in homes if _package(file) == _package((folder / path).resolve())] or homes
    if len(homes) != 1:
        raise LookupError(f"{path} does not define {symbol}; files that do: {[str(home) for home in homes]}")
    return relpath(homes[0], folder)


def _package(file: Path) -> tuple[str, ...]:
    """The first three folders: `src/interlock/engine`."""
    return file.relative_to(ROOT).parts[:3]


@cache
def _source_texts() -> list[tuple[Path, str]]:
    files = [file for folder, ending in _SOURCES for file in sorted((ROOT / folder).rglob(ending))]
    return [(file, file.read_text("utf-8")) for file in files]


def defines(text: str, symbol: str) -> bool:
    """Whether a file defines a function, method, class or constant; `Run.apply` is a member of a class."""
    owner, _, name = symbol.rpartition(".")
    if not owner:
        kinds = "class|function|async function|const|interface|type"
        found = rf"^(?:export )?(?:{kinds}) {name}\b|^ *(?:async )?def {name}\b|^{name}\b[^=\n(]*="
        return re.search(found, text, re.MULTILINE) is not None
    body = re.search(rf"^class {owner}\b.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return body is not None and re.search(rf"^    (?:(?:async )?def )?{name}\b", body[0], re.MULTILINE) is not None


@cache
def tidy_tables() -> dict[str, Any]:
    """The tables of the test that keeps the layers."""
    return runpy.run_path(str(ROOT / "tests" / "test_tidy.py"))


def layer_line() -> Iterator[str]:
    yield "```text"
    yield " ▸ ".join(" | ".join(layer) for layer in tidy_tables()["LAYERS"])
    yield "```"


def layer_table() -> Iterator[str]:
    """Each package with its layer, the top first."""
    layers, pure = tidy_tables()["LAYERS"], tidy_tables()["PURE"]
    yield "| layer | package | what it is | pure |"
    yield "|---|---|---|---|"
    for n, layer in enumerate(layers, 1):
        for package in layer:
            yield f"| {n} | `{package}` | {_first_sentence(package)} | {'yes' if package in pure else ''} |"


def _first_sentence(package: str) -> str:
    folder = ROOT / "src" / "interlock" / package
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    opening = re.match(r'"""(.*?)(?:"""|\n\n)', file.read_text("utf-8"), re.DOTALL)
    assert opening is not None, "tests/test_tidy.py asks for a docstring of each module"
    return re.split(r"(?<=\.) ", " ".join(opening[1].split()))[0]


def purity() -> Iterator[str]:
    forbidden = sorted(tidy_tables()["FORBIDDEN_IN_PURE"])
    yield "Pure packages import none of these modules: " + ", ".join(f"`{name}`" for name in forbidden) + "."
    yield "Exceptions to the layers: " + "; ".join(f"`{a}` imports `{b}`" for a, b in tidy_tables()["EXCEPTIONS"]) + "."


def port_table() -> Iterator[str]:
    """Each port with its methods, in the order of their names."""
    yield "| port | what it is for | methods |"
    yield "|---|---|---|"
    for name, port in sorted(vars(ports).items()):
        if isinstance(port, type) and getattr(port, "_is_protocol", False) and port.__module__.startswith("interlock"):
            methods = [member for member in vars(port) if not member.startswith("_")]
            yield f"| `{name}` | {_summary(port)} | {', '.join(f'`{m}`' for m in methods) or '`__call__`'} |"


def _summary(port: type) -> str:
    return (port.__doc__ or "").strip().partition("\n")[0] if "__doc__" in vars(port) else ""


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "figures": figures,
    "layers": layer_line,
    "packages": layer_table,
    "purity": purity,
    "ports": port_table,
}
