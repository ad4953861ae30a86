"""Whatever stands in a crew's files, reading and checking it gives problems and never an exception."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.crew.keys import AGENT, CREW
from interlock.crew.problem import Severity
from interlock.crew.shapes import (
    Either,
    Flag,
    JsonMap,
    ListOf,
    MapOf,
    Number,
    Section,
    Shape,
    Share,
    SignalText,
    Text,
    WordOrNumber,
)
from interlock.diagrams.builder import diagram_of
from interlock.engine.routing.decision import OwnReply, RoutingTable

TEMPLATES = Path(__file__).parents[3] / "src" / "interlock" / "templates"
TEXTS = [file.read_text(encoding="utf-8") for file in sorted(TEMPLATES.glob("*/crew.yaml"))]

few = settings(
    max_examples=120, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)

# Values that crews are made of, so that names meet other names, and some that they should not be made of.
IDS = st.sampled_from(["a", "a", "a", "b", "b", "g", "kid"]) | st.sampled_from(
    ["user", "A", "", " ", "a b", "../a", "x" * 65, "ä", "a\0"]
)
SIGNALS = st.sampled_from(
    ["[END]", "[end]", "[NEXT]", "[OK]", "[WAIT]", "[X Y]", "[X_Y]", "[]", "X", "[É]", "[E\u0301]"]
)
PATHS = st.sampled_from([".", "..", "kid", "crew.yaml", "/", "a\0", "a" * 300, "kid/crew.yaml", "~", "%2e"])
TEMPLATE = st.sampled_from(
    ["{{name}}", "{{.Input}}", "{{.PreviousResults.kid}}", "{{x}}", "{{}}", "[END] [OOPS]", "{{{{"]
)
WORDS = IDS | SIGNALS | PATHS | TEMPLATE | st.text(max_size=8)
NUMBERS = st.integers(-2, 200) | st.sampled_from([0.5, -1.5, 1e18, 10**30, 1e300, float("inf"), float("nan")])
SCALARS = st.none() | st.booleans() | NUMBERS | WORDS
KEYS = st.sampled_from([key.name for section in (CREW, AGENT) for key in section.keys]) | IDS
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda n: usual if n else rare)


def shaped(shape: Shape) -> st.SearchStrategy[Any]:
    """Mostly a value of that shape."""
    return mostly(_holding(shape) if isinstance(shape, ListOf | MapOf | Either | Section) else _single(shape), ANYTHING)


def _single(shape: Shape) -> st.SearchStrategy[Any]:
    match shape:
        case Text(options=options) if options:
            return st.sampled_from([str(option) for option in options])
        case Text():
            return mostly(IDS, WORDS)
        case SignalText():
            return SIGNALS
        case Number():
            return mostly(st.integers(1, 60), NUMBERS)
        case Flag():
            return st.booleans()
        case Share():
            return st.sampled_from(["none", "all", 0, 3])
        case WordOrNumber():
            return st.sampled_from([*shape.words, 1, 4_000])
        case JsonMap():
            return st.dictionaries(IDS, ANYTHING, max_size=3)
        case _:
            return ANYTHING


def _holding(shape: ListOf | MapOf | Either | Section) -> st.SearchStrategy[Any]:
    match shape:
        case ListOf():
            return st.lists(shaped(shape.item), max_size=3)
        case MapOf():
            return st.dictionaries(IDS, shaped(shape.value), max_size=3)
        case Either():
            return shaped(shape.section) | IDS
        case Section():
            return documents(shape)


def documents(section: Section) -> st.SearchStrategy[dict[str, Any]]:
    """A section with its required keys and some others, mostly."""
    required = {key.name: shaped(key.shape) for key in section.keys if key.required}
    optional = {key.name: shaped(key.shape) for key in section.keys if not key.required}
    some = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True) if optional else st.just([])
    whole = some.flatmap(lambda names: st.fixed_dictionaries({**required, **{name: optional[name] for name in names}}))
    return mostly(whole, st.dictionaries(KEYS, ANYTHING, max_size=4))


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LoadedCrew]:
    """Reads bytes as a crew; with two, the second is the file of agent `a`."""
    folder = tmp_path_factory.mktemp("crew")
    (folder / "agents").mkdir()
    (folder / "kid").mkdir()
    (folder / "kid" / "crew.yaml").write_text('version: "2.0"\nentry_point: x\nagents: [{id: x}]\n', encoding="utf-8")

    def read(crew: bytes, agent: bytes | None = None) -> LoadedCrew:
        (folder / "crew.yaml").write_bytes(crew)
        (folder / "agents" / "a.yaml").unlink(missing_ok=True)
        if agent is not None:
            (folder / "agents" / "a.yaml").write_bytes(agent)
        return read_crew(folder)

    return read


class PlainDumper(yaml.SafeDumper):
    """Writes equal values out instead of pointing back at them, which crew files do not allow."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dumped(document: Any) -> bytes:
    return bytes(yaml.dump(document, Dumper=PlainDumper, allow_unicode=True, encoding="utf-8", sort_keys=False))


def judge(loaded: LoadedCrew) -> None:
    """Every problem is whole, and a crew, sound or not, can be drawn; a sound one can be asked."""
    for problem in loaded.problems:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", problem.code)
        assert problem.message.strip()
        assert problem.fix.strip()
        assert problem.file
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.severity in Severity
    assert loaded.is_sound or any(problem.severity is Severity.ERROR for problem in loaded.problems)
    if loaded.crew is not None:
        assert len(diagram_of(loaded.crew).nodes) >= len(loaded.crew.agents)
    if loaded.crew is not None and loaded.is_sound:
        table = RoutingTable(loaded.crew)
        for agent in loaded.crew.agent_ids:
            table.decide(OwnReply(agent, "Hm. [END] [NEXT]\n[x y]"))


CREW_DOCUMENTS = documents(CREW)


@few
@given(document=CREW_DOCUMENTS)
def test_a_crew_of_real_keys_with_any_values(read: Callable[..., LoadedCrew], document: dict[str, Any]) -> None:
    judge(read(dumped(document)))


AGENT_DOCUMENTS = documents(AGENT)


@few
@given(agent=AGENT_DOCUMENTS | ANYTHING)
def test_an_agent_file_of_real_keys_with_any_values(read: Callable[..., LoadedCrew], agent: Any) -> None:
    crew = b'version: "2.0"\nentry_point: a\nagents: [a]\nsettings: {on_no_signal: complete}\n'
    judge(read(crew, dumped(agent)))


@few
@given(document=ANYTHING)
def test_a_document_of_any_structure(read: Callable[..., LoadedCrew], document: Any) -> None:
    judge(read(dumped(document)))


@few
@given(crew=st.binary(max_size=200), agent=st.binary(max_size=50))
def test_any_bytes(read: Callable[..., LoadedCrew], crew: bytes, agent: bytes) -> None:
    judge(read(crew, agent))


@few
@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"%@`#, \n\t~?<0.\\\r", max_size=60))
def test_any_text_of_the_characters_that_mean_something_in_yaml(read: Callable[..., LoadedCrew], text: str) -> None:
    judge(read(b'version: "2.0"\nentry_point: a\nagents:\n' + text.encode()))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real crew of which some lines were deleted, doubled, moved, cut or replaced."""
    lines = draw(st.sampled_from(TEXTS)).splitlines()
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        what = draw(st.sampled_from(["delete", "double", "move", "swap", "cut", "replace", "indent"]))
        line = lines[n]
        match what:
            case "delete" if len(lines) > 1:
                del lines[n]
            case "double":
                lines.insert(other, line)
            case "move":
                lines.insert(min(other, len(lines) - 1), lines.pop(n))
            case "swap":
                lines[n], lines[other] = lines[other], lines[n]
            case "cut":
                lines[n] = line[: draw(st.integers(0, len(line)))]
            case "replace":
                lines[n] = re.sub(r": .*", lambda _: f": {draw(SCALARS)}", line)
            case "indent":
                lines[n] = "  " + line
            case _:
                pass
    return "\n".join(lines) + "\n"


@few
@given(text=mutated())
def test_a_real_crew_with_lines_deleted_doubled_moved_cut_or_replaced(
    read: Callable[..., LoadedCrew], text: str
) -> None:
    judge(read(text.encode("utf-8", "surrogatepass")))


@pytest.mark.parametrize("text", TEXTS)
def test_a_real_crew_cut_off_after_any_line(read: Callable[..., LoadedCrew], text: str) -> None:
    lines = text.splitlines(keepends=True)
    for n in range(len(lines)):
        judge(read("".join(lines[:n]).encode()))


def test_the_strategies_reach_sound_crews_and_most_codes(read: Callable[..., LoadedCrew]) -> None:
    """A test of the tests above: they are worth little if every crew fails at its first key."""
    seen: set[str] = set()
    sound = 0

    @settings(few, max_examples=400, derandomize=True)
    @given(document=CREW_DOCUMENTS)
    def collect(document: dict[str, Any]) -> None:
        loaded = read(dumped(document))
        seen.update(problem.code for problem in loaded.problems)

    @settings(few, max_examples=100)
    @given(text=mutated())
    def count(text: str) -> None:
        nonlocal sound
        sound += read(text.encode("utf-8", "surrogatepass")).is_sound

    collect()
    count()
    assert sound
    assert len(seen) >= 15, sorted(seen)
