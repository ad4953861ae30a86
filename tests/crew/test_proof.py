"""A crew that was read from sound files is sound as a crew too: the proof asks no more than the check."""

from pathlib import Path

import pytest
from hypothesis import given, settings

from interlock.adapters.crews.crew_files import read_crew
from interlock.crew.host import Host
from interlock.crew.proof import problems_of, require_sound_crew
from tests.crew.parse.test_parse_never_raises import few, mutated

CREWS = sorted([*Path("examples").rglob("crew.y*ml"), *Path("src/interlock/templates").rglob("crew.y*ml")])
TOOLS = Host(tools=("find_order", "refund", "sun_times", "tide_table"), mcp_servers=("almanac",))


@pytest.mark.parametrize("file", CREWS, ids=str)
def test_every_sound_crew_of_the_repository(file: Path) -> None:
    loaded = read_crew(file, TOOLS)
    if loaded.is_sound and loaded.crew is not None:
        require_sound_crew(loaded.crew)


@settings(few, derandomize=True, max_examples=400)
@given(text=mutated())
def test_real_crews_with_lines_deleted_doubled_moved_cut_or_replaced(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """Also what an old file means, which is not what it says."""
    folder = tmp_path_factory.mktemp("crew")
    for version in ("1.0", "2.0"):
        written = text.replace('version: "2.0"', f'version: "{version}"')
        (folder / "crew.yaml").write_bytes(written.encode("utf-8", "surrogatepass"))
        loaded = read_crew(folder)
        if loaded.is_sound and loaded.crew is not None:
            require_sound_crew(loaded.crew)


def test_what_the_check_refuses_the_proof_refuses() -> None:
    """Of the crews of the gallery all that are wrong as crews, not only as texts, folders or on this host."""
    of_files = {"agent-file", "bad-path", "bad-yaml", "crew-cycle", "duplicate-key", "missing-price", "too-deep"}
    of_texts = {
        "bad-format",
        "bad-schema",
        "bad-value",
        "misplaced-key",
        "missing-key",
        "missing-setting",
        "unknown-key",
    }
    of_hosts = {"not-constrained", "unknown-provider", "unknown-tool", "unregistered-signal", "unsupported-setting"}
    judged = 0
    for file in sorted(Path("examples/broken").iterdir()):
        loaded = read_crew(file)
        if loaded.crew is None or loaded.is_sound or file.stem in of_files | of_texts | of_hosts:
            continue
        judged += 1
        assert file.stem in {problem.code for problem in problems_of(loaded.crew)}, file
    assert judged > 10
