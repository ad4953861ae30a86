"""What is written is read back as it was."""

import pytest

from interlock.adapters.crews.yaml_documents import read_yaml
from interlock.adapters.crews.yaml_writer import as_yaml
from interlock.crew.nodes import Mapping, Node, Scalar, Sequence, SourceLocation
from interlock.crew.problem import Problems

HERE = SourceLocation("somewhere", 1, 1)


def node_of(value: object) -> Node:
    if isinstance(value, dict):
        return Mapping(tuple((Scalar(key, key, HERE), node_of(inner)) for key, inner in value.items()), HERE)
    if isinstance(value, list):
        return Sequence(tuple(map(node_of, value)), HERE)
    assert value is None or isinstance(value, str | int | float | bool)
    return Scalar(value, str(value), HERE)


def plain(node: Node | None) -> object:
    if isinstance(node, Mapping):
        return {name: plain(inner) for name, _, inner in node}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    assert isinstance(node, Scalar)
    return node.value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1", "1.5", "1e5", "-3", "2.0", "null", "~", "true", "no", "on", "12:30", "0x1F", "1_000", "[END]",
        "a: b", "a # b", "- a", "&a", "*a", "!tag", "'", '"', "\\", "two\nlines", "ends\n", "\n", "ends\n\n",
        "  led\n by", "a\x85b\nc", "\u2029",
        "trailing \nspace", "tab\tinside", "\tled", "Kết thúc", "a\u2028b", "\x85", "\x00\x07", "🙂", "x" * 300 + " y",
        "a " * 90, "---", "...", "? a", "| a", "> a", "%a", "@a", "`a", "{{name}}", "carriage\rreturn", "\ufeffbom",
    ],
)  # fmt: skip
def test_any_text_is_read_back(text: str) -> None:
    document = {"prompt": text, "list": [text], "inner": {"deep": [{"again": text}]}}
    problems = Problems()
    read = read_yaml(as_yaml(node_of(document)).encode(), "written.yaml", problems)
    assert problems.found == []
    assert plain(read) == document


def test_numbers_words_and_empty_containers_are_read_back() -> None:
    document: dict[str, object] = {
        "n": 3,
        "f": 0.5,
        "tiny": 1e-07,
        "huge": 1e22,
        "yes": True,
        "nothing": None,
        "list": [],
        "map": {},
    }
    assert plain(read_yaml(as_yaml(node_of(document)).encode(), "written.yaml", Problems())) == document


def test_keys_stay_in_order_and_nothing_becomes_an_alias() -> None:
    shared = [1, 2]
    text = as_yaml(node_of({"z": shared, "a": shared}))
    assert text.index("z:") < text.index("a:")
    assert "&" not in text
