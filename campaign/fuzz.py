"""Bad input for a while: files mutated byte by byte and word by word, and replies made of what replies are made of.

Usage: python -m campaign.fuzz [MINUTES] [FIRST-SEED]     5 minutes and seed 0 unless told; 1 if something got through

Rule 1: a seed decides everything, so a line of the result can be seen again: `seen_again(SEED)`.
Rule 2: whatever comes in, the answer is right or a typed refusal; nothing else is ever raised, and nothing is lost.
"""

import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

from bench.harness import machine, table
from campaign import results
from interlock.adapters.config.host_file import read_settings
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.crews.script_files import read_script
from interlock.adapters.files import run_files
from interlock.adapters.files.run_files import RunFile
from interlock.adapters.store_rules.record_format import seal_chain
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.errors import DamagedRun, InterlockError, StoreFailed, UsageError
from interlock.ports import RunRow, SealedRecord
from interlock.signals.matching import marks
from interlock.testing import Faults, simulate
from tests.signals.test_page import visible_marks

MINUTES = 5.0
ROOT = Path(__file__).parent.parent
FILES = tuple(sorted(ROOT.glob("examples/*/crew.yaml")) + sorted(ROOT.glob("src/interlock/templates/*/crew.yaml")))
SCRIPT = "replies:\n  a:\n    - 'one [NEXT]'\n    - {text: two, tool_calls: [{name: look, arguments: {x: 1}}]}\n"
TOML = 'durability = "full"\n[tools]\nmodules = ["tools"]\n[retention]\ndays = 30\n'

# What files and replies are made of.
YAML_WORDS = [
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "!!python/object ",
    ">\n",
    "\t",
    "\x00",
    "'",
    '"',
    "#",
    "---\n",
]
MARKS = [
    "[NEXT]",
    "[END]",
    "[ end ]",
    "[N_E-X T]",
    "[KẾT_THÚC]",
    "[",
    "]",
    "[[END]]",
    "[END](x)",
    "[END]: http://x",
    "[x][END]",
]
SIGNS = ["`", "```\n", "~~~\n", "> ", "\\", "\n", "\r\n", "*", "_", " ", "a", "é", "́", "\u202e", "�", "(", ")", "!"]

# What the independent reading of a page leaves out: definitions of links, lists, and other ends of lines.
NOT_COMPARED = re.compile(r"\]:|\r|^[ \t]*[-*+]", re.MULTILINE)

CREW = """\
version: "1.0"
name: fuzz
entry_point: a
agents: [{id: a}, {id: b}]
signals: [{name: "[KẾT_THÚC]", behavior: terminate}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[KẾT_THÚC]"}]
    b: [{signal: "[NEXT]", target: a}, {signal: "[END]"}]
"""


def mutated(chance: Random, data: bytes) -> bytes:
    """A few changes: bytes flipped, pieces dropped, doubled or moved, and words put in."""
    for _ in range(chance.choice((1, 1, 2, 6))):
        at, length = chance.randrange(len(data) + 1), chance.randint(1, 40)
        piece = data[at : at + length]
        words = chance.choice(YAML_WORDS).encode()
        kinds = (piece[::-1], b"", piece * 2, words, words + piece, bytes([chance.randrange(256)]) + piece[1:])
        data = data[:at] + chance.choice(kinds) + data[at + length :]
    return data


def a_reply(chance: Random) -> str:
    pieces = (*MARKS, *SIGNS)
    return "".join(chance.choice(pieces) for _ in range(chance.randint(0, 60)))


# What is tried; each gives a word for what came of it, or raises


def a_crew_file(chance: Random, folder: Path) -> str:
    file = folder / "crew.yaml"
    file.write_bytes(mutated(chance, chance.choice(FILES).read_bytes()))
    loaded = read_crew(folder)
    if loaded.crew is None:
        assert loaded.problems, "a crew that cannot be read has a problem"
        return "refused"
    if not loaded.is_sound:
        return "problems"
    if not _runs(loaded.crew):
        return "sound"
    simulate(loaded.crew, seed=chance.randrange(1000), faults=Faults.none()).require_lawful()
    return "sound, and run to its end"


def _runs(crew: CrewDefinition) -> bool:
    calls = any(route.target_crew for routes in crew.routes.values() for route in routes)
    return not calls and not crew.sub_crews and crew.delegation is None


def a_script_file(chance: Random, folder: Path) -> str:
    return _read_or_refused(folder / "script.yaml", mutated(chance, SCRIPT.encode()), read_script)


def a_host_file(chance: Random, folder: Path) -> str:
    return _read_or_refused(folder / "interlock.toml", mutated(chance, TOML.encode()), read_settings)


def _read_or_refused(file: Path, data: bytes, read: Callable[[Path], object]) -> str:
    file.write_bytes(data)
    try:
        read(file)
    except UsageError:
        return "refused"
    return "read"


def a_reply_of_an_agent(chance: Random, _folder: Path) -> str:
    crew, table, talk = _parts()
    reply = a_reply(chance)
    decision = table.decide(OwnReply(chance.choice(crew.agent_ids), reply))
    seen = [(mark.start, mark.end) for mark in marks(reply, lambda _: True)]
    if not NOT_COMPARED.search(reply):
        assert seen == visible_marks(reply), "an independent reading of the page sees other marks"
    harmless = talk.neutralize_marks(reply)
    assert not any(table.is_known_mark(mark.inner) for mark in marks(harmless, table.is_known_mark)), (
        "an echo would steer"
    )
    return "steers" if decision.verb is not None else "does not steer"


@cache
def _parts() -> tuple[CrewDefinition, RoutingTable, Conversation]:
    with TemporaryDirectory() as folder:
        Path(folder, "crew.yaml").write_text(CREW, "utf-8")
        crew = load_definition(folder)
    table = RoutingTable(crew)
    return crew, table, Conversation(crew, table)


def an_exported_run(chance: Random, _folder: Path) -> str:
    whole = _exported()
    row = whole.index(b'"row"') if chance.random() < 0.5 else 0
    end = whole.index(b'"crew":"{') if row else len(whole)
    data = whole[:row] + mutated(chance, whole[row:end]) + whole[end:]
    if data == whole:
        return "unchanged"
    try:
        read = run_files.decode_run_file(data, "mutated")
        run_files.unseal_records(read)
    except (UsageError, DamagedRun, StoreFailed):
        return "refused"
    assert read == run_files.decode_run_file(whole, "whole"), "a changed run was taken for the one that was exported"
    return "the same run"


@cache
def _exported() -> bytes:
    simulation = simulate(load_definition(ROOT / "examples" / "quiz-exam"), seed=7, faults=Faults.none())
    records: tuple[SealedRecord, ...] = seal_chain(simulation.run, simulation.records)
    crew = msgspec.json.encode(simulation.crew, order="deterministic")
    row = RunRow(run=simulation.run, crew="quiz-exam", crew_sha=sha256(crew).hexdigest(), status=simulation.status)
    return run_files.encode_run_file(RunFile(row=row, crew=crew, records=records))


TRIALS = (a_crew_file, a_script_file, a_host_file, a_reply_of_an_agent, an_exported_run)


def seen_again(seed: int) -> str:
    """One trial; a word for what came of it."""
    chance = Random(seed)
    trial = TRIALS[seed % len(TRIALS)]
    with TemporaryDirectory() as folder:
        return f"{trial.__name__.replace('_', ' ')}: {trial(chance, Path(folder))}"


def fault_of(seed: int) -> tuple[str, str]:
    """The outcome of a trial, or the fault that got through."""
    try:
        return seen_again(seed), ""
    except InterlockError as error:
        return "", f"seed {seed}: refused in the wrong place: {error!r}"
    except Exception:
        last = traceback.format_exc().strip().splitlines()
        return "", f"seed {seed}: {last[-1]} ({last[-3].strip() if len(last) > 2 else ''})"


def page(minutes: float, first_seed: int, counts: Counter[str], faults: list[str]) -> str:
    rows = [(name, count) for name, count in sorted(counts.items())]
    parts = [
        "# Fuzz campaign",
        f"Written by `make campaign`. {machine()}. {minutes:g} minutes from seed {first_seed}.",
        "Crew files, scripts, host files and exported runs with a few changes; replies made of marks and Markdown."
        " Each is answered rightly or refused with a typed error; crews that are still sound run to their end.",
        table(("what, and what came of it", "count"), [*rows, ("got through", len(faults))]),
        *(["## Faults", "\n".join(f"- {fault}" for fault in faults[:50])] if faults else []),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts: Counter[str] = Counter()
    faults: list[str] = []
    seed, until = first_seed, time.monotonic() + minutes * 60
    while time.monotonic() < until:
        word, fault = fault_of(seed)
        counts[word] += bool(word)
        faults += [fault] if fault else []
        seed += 1
    text = page(minutes, first_seed, +counts, faults)
    results.put(text)
    print(text)
    sys.exit(1 if faults else 0)
