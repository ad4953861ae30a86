"""Definitions are plain data."""

from pathlib import Path

import msgspec
import pytest

from interlock.adapters.crews.crew_files import read_crew
from interlock.crew.definition import CrewDefinition
from interlock.crew.registry import registry_of

CREWS = [
    "examples/quiz-exam",
    "examples/giao-vien",
    "examples/broken/differing-return",
    "src/interlock/templates/support",
]


@pytest.mark.parametrize("path", CREWS)
def test_a_crew_is_the_same_after_a_trip_through_json(path: str) -> None:
    crew = read_crew(path).crew
    assert crew is not None
    assert msgspec.json.decode(msgspec.json.encode(crew), type=CrewDefinition) == crew


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    """Crews are stored by the hash of their canonical form, so the form must not depend on chance."""
    first, second = (read_crew("examples/quiz-exam").crew for _ in range(2))
    assert msgspec.json.encode(first, order="deterministic") == msgspec.json.encode(second, order="deterministic")


def test_a_crews_registry_holds_built_in_own_and_routed_signals() -> None:
    crew = read_crew("src/interlock/templates/support").crew
    assert crew is not None
    registry = registry_of(crew)
    assert len(registry.all()) == 12
    own = registry.get("[INVESTIGATE]")
    assert own is not None
    assert (own.behavior, own.max_occurs) == ("parallel", 3)
