"""Crews of version 1.0 as 2.0: what must be edited is, nothing changes its meaning, and the rest is refused."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.adapters.crews.crew_migration import CannotMigrate, CrewMigration, migration_of
from interlock.crew.definition import VERSION_1_SETTINGS
from interlock.crew.host import Host
from tests.crew import test_seed_examples as seeds
from tests.crew.parse.test_parse_never_raises import few, mutated
from tests.crew.test_seed_examples import agent_files, crew_text, under
from tests.engine.test_seed_001 import completed

ROOT = Path(__file__).parents[3]
SOLO = 'version: "1.0"\nentry_point: a\nagents: [{id: a}]\n'


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def migrated(folder: Path, host: Host | None = None) -> CrewMigration:
    return migration_of(folder, read_crew(folder, host), host)


def text_of(folder: Path, text: str | bytes) -> str:
    """What a crew file of this text becomes; the only file that changes."""
    ((_, data),) = migrated(write(folder, {"crew.yaml": text})).files
    return data.decode()


def found(loaded: LoadedCrew) -> list[tuple[str, str, str, str]]:
    """Every problem but for its line, which the written settings move; a dead end is written out as an ending."""
    return [(p.code, p.severity, p.message, p.path) for p in loaded.problems if p.code != "no-way-on"]


def settle(folder: Path) -> CrewMigration:
    """Migrates for good; what is there now means what was there before, and there is nothing left to do."""
    before, migration = read_crew(folder), migrated(folder)
    assert migration.errors == ()
    for file, data in migration.files:
        file.real.write_bytes(data)
    after = read_crew(folder)
    assert found(after) == found(before)
    assert [msgspec.structs.replace(file.crew, version="2.0") for file in before.files] == [f.crew for f in after.files]
    assert migrated(folder) == CrewMigration((), ())
    return migration


def judge(folder: Path) -> None:
    """As `settle`, and but for what was added the files are what they were."""
    for file, data in settle(folder).files:
        assert without_additions(data) == file.data, file.path


def without_additions(data: bytes) -> bytes:
    """The file without what a migration of a block adds, and with its old version."""
    added = rf"^settings:\r?\n(?=  {_ADDED}\r?\n  {_ADDED}\r?\n\S)|^ +{_ADDED}\r?\n"
    text = re.sub(added, "", data.decode(), flags=re.MULTILINE)
    return re.sub(r"^(version: *[\"']?)2\.0", r"\g<1>1.0", text, count=1, flags=re.MULTILINE).encode()


_ADDED = "(?:signal_registration: inferred|signal_position: anywhere)"


# Everything of version 1.0 that there is


def v1_folders() -> Iterator[Path]:
    for file in sorted([*(ROOT / "examples").rglob("crew.y*ml"), *(ROOT / "src").rglob("crew.y*ml")]):
        if re.search(r"""^version: *["']?1\.0""", file.read_text("utf-8"), re.MULTILINE):
            yield file.parent


@pytest.mark.parametrize("folder", list(v1_folders()), ids=lambda folder: folder.name)
def test_every_crew_of_version_1_in_the_repository(tmp_path: Path, folder: Path) -> None:
    judge(Path(shutil.copytree(folder, tmp_path / "crew")))


def test_there_are_crews_of_version_1_in_the_repository() -> None:
    assert [folder.name for folder in v1_folders()] == ["quiz-exam"]


SEEDS: dict[str, tuple[str, dict[str, str]]] = {
    "000-3-route": (crew_text("1.0", "teacher", "teacher question_handler!", seeds.SEED_000_3_ROUTE), {}),
    "000-3-pause": (crew_text("1.0", "agent", "agent!", seeds.SEED_000_3_PAUSE), {}),
    "000-3-parallel": (
        crew_text(
            "1.0",
            "coordinator",
            "coordinator worker!",
            seeds.SEED_000_3_PARALLEL,
            "  parallel_groups: {parallel_group_name: {agents: [worker], next_agent: worker}}\n",
        ),
        {},
    ),
    "000-6-1": (seeds.SEED_000_6_EXAMPLE_1, agent_files("teacher", "reporter!")),
    "000-6-2": (
        crew_text("1.0", "analyzer", "analyzer processor! error_handler! reporter!", seeds.SEED_000_6_EXAMPLE_2),
        {},
    ),
    "000-6-3": (crew_text("1.0", "giao_vien", "giao_vien bao_cao!", seeds.SEED_000_6_EXAMPLE_3), {}),
    "000-9": (
        crew_text("1.0", "teacher", "teacher agent!", under("routing.signals.teacher", seeds.SEED_000_9_DO_NOT_2)),
        {},
    ),
    "001-1-1": (
        crew_text(
            "1.0",
            "teacher",
            "teacher reporter! executor student",
            seeds.SEED_001_1_1,
            "  parallel_groups: {parallel_question: {agents: [student], next_agent: executor}}\n",
        ),
        {},
    ),
    "001-5-1": (crew_text("1.0", "a", "a!", seeds.SEED_001_5_1), {}),
    "001-6-1": (crew_text("1.0", "teacher", "teacher! student reporter", seeds.SEED_001_6_1), {}),
}


@pytest.mark.parametrize("name", SEEDS)
def test_every_sound_example_of_the_seeds(tmp_path: Path, name: str) -> None:
    crew, files = SEEDS[name]
    judge(write(tmp_path, {"crew.yaml": crew, **files}))


def test_the_quiz_of_the_routing_analysis(tmp_path: Path) -> None:
    judge(completed(tmp_path))


# How it is written does not matter


ADDED = ["signal_registration: inferred", "signal_position: anywhere"]
QUOTES = ["", "'", '"']
COMMENTS = ["", "  # [END] of {it}: 1.0", " # {"]
BREAKS = ["\n", "\r\n", "\r", "\x85", "\u2028"]
OTHER = {
    "name": "quiz {version} é漢",
    "entry_point": "a",
    "agents": "[{id: a}]",
    "description": "'version: \"1.0\" # settings: {}'",
    "routing": '{signals: {a: [{signal: "[NOW]", target: ""}, {signal: "[END]"}]}}',
}


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, str]:
    """A crew of version 1.0 in some layout, and what it must become; both are made here, apart from the code."""
    newline = draw(st.sampled_from(BREAKS))
    root = " " * draw(st.sampled_from([0, 0, 2]))
    quote = draw(st.sampled_from(QUOTES))
    around = draw(st.sampled_from(QUOTES))
    version = f"{root}version: {around}<1.0>{around}{draw(st.sampled_from(COMMENTS))}{newline}"
    known = draw(st.sampled_from([(), ADDED[:1], ADDED[1:], ADDED]))
    first, missing = _settings(draw, root, quote, newline, known)
    others = [f"{root}{key}: {value}{draw(st.sampled_from(COMMENTS))}{newline}" for key, value in OTHER.items()]
    parts = draw(st.permutations([version + ("" if first else missing), *others, *([first] if first else [])]))
    head = draw(st.sampled_from(["", "\ufeff", f"---{newline}", f"# a crew{newline}{newline}"]))
    text = head + "".join(parts)
    return _before(text), _after(text)


def _settings(draw: st.DrawFn, root: str, quote: str, newline: str, known: Any) -> tuple[str, str]:
    """The entry `settings`, in which <+ +> holds what is added; and what is added where there is no such entry."""
    missing = [line for line in ADDED if line not in known]
    comment = draw(st.sampled_from(COMMENTS))
    kind = draw(st.sampled_from(["none", "empty", "null", "flow", "block"]) if not known else st.just("block"))
    if kind == "none":
        lines = [f"{root}settings:", *(f"{root}  {line}" for line in missing)]
        return "", "<+" + "".join(f"{line}{newline}" for line in lines) + "+>"
    if kind == "empty":
        added = "".join(f"{root}  {line}{newline}" for line in missing)
        return f"{root}settings:{comment}{newline}<+{added}+>", ""
    if kind == "null":
        return f"{root}settings: <-~->{comment}{newline}", ""
    keys = [f"{quote}max_handoffs{quote}: 7", *known]
    quoted = [re.sub(r"\w+", rf"{quote}\g<0>{quote}", line) for line in missing]
    if kind == "flow":
        space = draw(st.sampled_from(["", " ", newline + root + " "]))
        joined = ", ".join(quoted) + ("," if space else ", ")
        return f"{root}settings: {{<+{joined}+>{space}{', '.join(keys)}}}{comment}{newline}", ""
    indent = root + " " * draw(st.sampled_from([1, 2, 4]))
    lead = draw(st.sampled_from(["", f"{indent}# bounds{newline}", newline]))
    added = "".join(f"{indent}{line}{newline}" for line in quoted)
    body = "".join(f"{indent}{line}{newline}" for line in keys)
    return f"{root}settings:{comment}{newline}<+{added}+>{lead}{body}", ""


def _before(text: str) -> str:
    return re.sub(r"<\+.*?\+>", "", text.replace("<1.0>", "1.0").replace("<-~->", "~"), flags=re.DOTALL)


def _after(text: str) -> str:
    null = "{" + ", ".join(ADDED) + "}"
    return re.sub(r"<\+(.*?)\+>", r"\1", text.replace("<1.0>", "2.0").replace("<-~->", null), flags=re.DOTALL)


@pytest.fixture(scope="module")
def becomes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    folder = tmp_path_factory.mktemp("crew")
    return lambda text: text_of(folder, text)


@settings(few, max_examples=250)
@given(pair=layouts())
def test_any_layout_keeps_all_but_the_version_and_what_is_added(
    becomes: Callable[[str], str], pair: tuple[str, str]
) -> None:
    before, after = pair
    assert becomes(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '{version: "1.0", entry_point: a, agents: [{id: a}]}',
            "{settings: {signal_registration: inferred, signal_position: anywhere}, "
            'version: "2.0", entry_point: a, agents: [{id: a}]}',
        ),
        (
            '{"version": "1.0", "entry_point": "a", "agents": [{"id": "a"}]}',
            '{"settings": {"signal_registration": "inferred", "signal_position": "anywhere"}, '
            '"version": "2.0", "entry_point": "a", "agents": [{"id": "a"}]}',
        ),
        (
            "{ # all\n  version: 1.0, entry_point: a, agents: [{id: a}], settings: ,}\n",
            "{ # all\n  version: 2.0, entry_point: a, agents: [{id: a}], "
            "settings: {signal_registration: inferred, signal_position: anywhere},}\n",
        ),
        (
            SOLO + "settings: {}",
            SOLO.replace("1.0", "2.0") + "settings: {signal_registration: inferred, signal_position: anywhere}",
        ),
        (
            "entry_point: a\nagents: [{id: a}]\nversion: '1.0'",
            "entry_point: a\nagents: [{id: a}]\nversion: '2.0'\n"
            "settings:\n  signal_registration: inferred\n  signal_position: anywhere",
        ),
        (
            'entry_point: a\nagents: [{id: a}]\nsettings: {}\nversion: "1\\x2e0"\n',
            "entry_point: a\nagents: [{id: a}]\n"
            'settings: {signal_registration: inferred, signal_position: anywhere}\nversion: "2.0"\n',
        ),
        (
            "version: |- # no 1.0\n  1.0\nsettings: {}\nentry_point: a\nagents: [{id: a}]\n",
            "version: |- # no 1.0\n  2.0\nsettings: {signal_registration: inferred, signal_position: anywhere}\n"
            "entry_point: a\nagents: [{id: a}]\n",
        ),
        (
            SOLO + "description: |+\n  last\n\n\n",
            'version: "2.0"\nsettings:\n  signal_registration: inferred\n  signal_position: anywhere\n'
            "entry_point: a\nagents: [{id: a}]\ndescription: |+\n  last\n\n\n",
        ),
    ],
    ids=["flow", "json", "flow-empty", "braces", "last-line", "escapes", "block-text", "text-at-the-end"],
)
def test_odd_layouts(tmp_path: Path, before: str, after: str) -> None:
    assert text_of(tmp_path, before) == after
    settle(tmp_path)
    assert (tmp_path / "crew.yaml").read_text("utf-8") == after


def test_real_crews_with_lines_deleted_doubled_moved_cut_or_replaced(tmp_path: Path) -> None:
    """Whatever is sound of them means the same afterwards; nothing else is touched."""
    sound = 0

    @settings(few, derandomize=True, max_examples=800)
    @given(text=mutated())
    def migrate(text: str) -> None:
        nonlocal sound
        text = text.replace('version: "2.0"', 'version: "1.0"')
        loaded = read_crew(write(tmp_path, {"crew.yaml": text.encode("utf-8", "surrogatepass")}))
        if loaded.is_sound and loaded.crew is not None and loaded.crew.version == "1.0":
            sound += 1
            left_out = [p.path for p in loaded.problems if p.code == "unreachable-agent"]
            if left_out:  # what 1.0 leaves out 2.0 refuses, and nothing is written
                errors = migrated(tmp_path).errors
                assert [(p.code, p.path) for p in errors] == [("unreachable-agent", path) for path in left_out]
            else:
                settle(tmp_path)

    migrate()
    assert sound > 10


def test_settings_that_a_file_states_itself_stay(tmp_path: Path) -> None:
    text = SOLO + "settings: {signal_position: own_line, signal_registration: required}\n"
    assert text_of(tmp_path, text) == text.replace("1.0", "2.0")


# Crews inside crews


def test_crews_inside_are_migrated_too_each_once_and_only_those_of_version_1(tmp_path: Path) -> None:
    subs = "sub_crews: {x: {config_path: one}, y: {config_path: one}, z: {config_path: two}}\n"
    files = {"crew.yaml": SOLO.replace("1.0", "2.0") + subs, "one/crew.yml": SOLO, "two/crew.yaml": SOLO}
    write(tmp_path, {**files, "two/crew.yaml": SOLO.replace("1.0", "2.0")})
    assert [file.path.relative_to(tmp_path) for file, _ in migrated(tmp_path).files] == [Path("one/crew.yml")]
    judge(tmp_path)


def test_a_crew_file_that_is_a_link_is_changed_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"real.yaml": SOLO})
    (tmp_path / "crew.yaml").symlink_to("real.yaml")
    ((file, _),) = migrated(tmp_path).files
    assert (file.path, file.real) == (tmp_path / "crew.yaml", tmp_path / "real.yaml")


# What cannot be


@pytest.mark.parametrize(
    "text",
    [
        '? version\n: "1.0"\n? settings\n: max_handoffs: 3\n? entry_point\n: a\n? agents\n: [{id: a}]\n',
        '{version: "1.0", settings, entry_point: a, agents: [{id: a}]}',
    ],
    ids=["explicit-keys", "key-without-value"],
)
def test_what_cannot_be_edited_safely_is_refused(tmp_path: Path, text: str) -> None:
    assert read_crew(write(tmp_path, {"crew.yaml": text})).is_sound
    with pytest.raises(CannotMigrate, match=r"cannot be edited safely; nothing was changed; write 'version: \"2\.0\"'"):
        migrated(tmp_path)


def test_a_file_that_cannot_be_edited_keeps_every_other_one_as_it_is(tmp_path: Path) -> None:
    odd = '? version\n: "1.0"\n? settings\n: max_handoffs: 3\n? entry_point\n: a\n? agents\n: [{id: a}]\n'
    write(tmp_path, {"crew.yaml": SOLO + "sub_crews: {x: {config_path: sub}}\n", "sub/crew.yaml": odd})
    with pytest.raises(CannotMigrate, match=r"sub/crew\.yaml"):
        migrated(tmp_path)


def test_what_2_0_refuses_is_named(tmp_path: Path) -> None:
    """An unknown tool and an unknown price are warnings in 1.0; no edit makes them mean the same in 2.0."""
    agent = '{id: a, tools: [find_order, "mcp:notes/read"], model: "openai:gpt-dear"}'
    text = SOLO.replace("{id: a}", agent) + "settings: {max_cost_per_day: 5}\n"
    write(tmp_path, {"crew.yaml": text})
    host = Host(has_prices=True)
    assert read_crew(tmp_path, host).is_sound
    assert [problem.code for problem in migrated(tmp_path, host).errors] == [
        "unknown-tool",
        "unknown-tool",
        "missing-price",
    ]
    known = Host(tools=("find_order",), mcp_servers=("notes",), has_prices=True, priced_models=("openai:gpt-dear",))
    assert migrated(tmp_path, known).errors == ()


def test_everything_that_the_version_decides_is_written_out(tmp_path: Path) -> None:
    """A setting that a later version decides by its number must be added where this looks."""
    assert VERSION_1_SETTINGS
    for name, value in VERSION_1_SETTINGS.items():
        assert f"{name}: {value}" in ADDED
        assert f"  {name}: {value}\n" in text_of(tmp_path, SOLO)
