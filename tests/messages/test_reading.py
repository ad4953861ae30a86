"""JSON of models and people: read or refused by what stands there, and by nothing else."""

import msgspec
import pytest

from interlock.limits import JSON_DEPTH_MAX
from interlock.messages.reading import read_json


def test_brackets_in_texts_do_not_nest() -> None:
    said = ["[{" * JSON_DEPTH_MAX, '"[' * JSON_DEPTH_MAX, "\\"]
    assert read_json(msgspec.json.encode(said).decode()) == said


def test_many_values_side_by_side_are_not_deep() -> None:
    assert read_json("[" + ",".join(["[]"] * 5_000) + "]") == [[]] * 5_000


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_the_bound_is_exact(opens: str, closes: str) -> None:
    read_json(opens * (JSON_DEPTH_MAX - 1) + "[]" + closes * (JSON_DEPTH_MAX - 1))
    with pytest.raises(msgspec.DecodeError, match="more than 600 levels deep"):
        read_json(opens * JSON_DEPTH_MAX + "[]" + closes * JSON_DEPTH_MAX)
