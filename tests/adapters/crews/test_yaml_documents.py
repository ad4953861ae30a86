"""YAML as crew files use it (FAULTS.md F1): what is refused, where, and what plain values mean."""

from typing import Any

import pytest

from interlock.adapters.crews import yaml_documents
from interlock.adapters.crews.yaml_documents import read_yaml
from interlock.crew.nodes import Mapping, Node, Scalar, Sequence, SourceLocation, node_at
from interlock.crew.problem import Problem, Problems, Severity
from interlock.limits import YAML_DEPTH_MAX


def read(text: str | bytes) -> tuple[Node | None, list[Problem]]:
    problems = Problems()
    data = text.encode() if isinstance(text, str) else text
    return read_yaml(data, "crew.yaml", problems), problems.found


def refused(text: str | bytes) -> list[tuple[str, int, int]]:
    """Each problem by code and place; all of them are errors."""
    _, problems = read(text)
    assert all(problem.severity is Severity.ERROR and problem.file == "crew.yaml" for problem in problems)
    return [(problem.code, problem.line, problem.column) for problem in problems]


def plain(node: Node | None) -> Any:
    match node:
        case Mapping():
            return {name: plain(inner) for name, _, inner in node}
        case Sequence():
            return [plain(item) for item in node.items]
        case Scalar():
            return node.value
        case None:
            raise AssertionError("there is no document")


def value_of(text: str) -> Any:
    node, problems = read(f"key: {text}\n")
    assert problems == []
    return plain(node)["key"]


# Refused


def test_a_key_that_stands_twice_is_a_problem_and_the_first_one_counts() -> None:
    node, problems = read("routing:\n  defaults: {a: b}\n  signals: {}\n  defaults: {a: c}\n")
    assert [(p.code, p.line, p.column, p.path) for p in problems] == [("duplicate-key", 4, 3, "routing.defaults")]
    assert "line 2" in problems[0].message
    assert plain(node) == {"routing": {"defaults": {"a": "b"}, "signals": {}}}


def test_a_key_that_stands_twice_in_a_list_is_found_by_its_index() -> None:
    _, problems = read("agents:\n  - {id: a}\n  - {id: b, id: c}\n")
    assert [(p.code, p.line, p.path) for p in problems] == [("duplicate-key", 3, "agents[1].id")]


def test_the_same_key_in_quotes_or_as_a_number_stands_twice() -> None:
    assert refused("a: 1\n'a': 2\n") == [("duplicate-key", 2, 1)]
    assert refused("1: a\n'1': b\n") == [("duplicate-key", 2, 1)]


@pytest.mark.parametrize("key", ["? [a]\n: 1\n", "? {a: 1}\n: 1\n"])
def test_a_key_must_be_text(key: str) -> None:
    assert refused(key) == [("bad-yaml", 1, 3)]


def test_anchors_and_aliases_are_refused_each_at_its_place() -> None:
    node, problems = read("a: &x {b: 1}\nc: *x\n")
    assert [(p.code, p.line, p.column, p.path) for p in problems] == [
        ("bad-yaml", 1, 4, "a"),
        ("bad-yaml", 2, 4, "c"),
    ]
    assert "anchor" in problems[0].message
    assert "alias" in problems[1].message
    assert plain(node) == {"a": {"b": 1}, "c": None}


def test_an_alias_bomb_is_not_expanded() -> None:
    """Nine levels of nine would be a billion values; what is built is what was written."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    node, problems = read("\n".join(levels))
    assert {p.code for p in problems} == {"bad-yaml"}
    assert len(problems) == 10 + 9 * 9
    assert plain(node)["a9"] == [None] * 9


def test_an_alias_of_itself_does_not_loop() -> None:
    assert refused("a: &a [*a]\n") == [("bad-yaml", 1, 4), ("bad-yaml", 1, 8)]


def test_a_merge_key_is_an_ordinary_key() -> None:
    node, problems = read("a: {<<: {b: 1}}\n")
    assert problems == []
    assert plain(node) == {"a": {"<<": {"b": 1}}}


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch hacked']",
        "!!python/object/new:subprocess.Popen [['touch', 'hacked']]",
        "!!python/name:os.system ''",
        "!!binary aGVsbG8=",
        "!!str 1",
        "!!set {a, b}",
        "!own {a: 1}",
        "! 1",
    ],
)
def test_a_tag_is_refused_and_constructs_nothing(value: str) -> None:
    _, problems = read(f"version: '2.0'\nname: {value}\n")
    assert [(p.code, p.line, p.column, p.path) for p in problems] == [("bad-yaml", 2, 7, "name")]
    assert "tag" in problems[0].message


@pytest.mark.parametrize("text", ["a:\n\tb: 1\n", "a:\n  - x\n\t- y\n", "routing:\n\t# nothing\n  b: c\n"])
def test_a_tab_that_indents_is_called_a_tab(text: str) -> None:
    _, problems = read(text)
    line = next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith("\t"))
    assert [(p.code, p.line, p.column) for p in problems] == [("bad-yaml", line, 1)]
    assert "tab" in problems[0].message
    assert problems[0].fix == "indent with spaces"


def test_a_tab_between_values_is_fine() -> None:
    node, problems = read("a:\tb\t# c\n")
    assert problems == []
    assert plain(node) == {"a": "b"}


def test_slashes_are_no_comment_and_the_fix_says_what_is() -> None:
    _, problems = read('tên: "Đội"\nb: "x"  // a note\n')
    assert [(p.code, p.line, p.column) for p in problems] == [("bad-yaml", 2, 9)]
    assert "'#'" in problems[0].fix


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b"name: \xff\n", 1, 7),
        (b"a: 1\nb: caf\xe9\n", 2, 7),
        ("a: Kết ".encode() + b"\xc3(", 1, 8),
        (b"a: \xed\xa0\x80\n", 1, 4),  # half of a surrogate pair
        (b"\xef\xbb\xbfa: \xff\n", 1, 4),
        ("a: 1\n".encode("utf-16"), 1, 1),
    ],
)
def test_bytes_that_are_not_utf_8_are_refused_at_their_place(data: bytes, line: int, column: int) -> None:
    node, problems = read(data)
    assert node is None
    assert [(p.code, p.line, p.column) for p in problems] == [("bad-yaml", line, column)]
    assert "UTF-8" in problems[0].message


def test_a_byte_order_mark_is_skipped() -> None:
    node, problems = read(b"\xef\xbb\xbfa: 1\n")
    assert problems == []
    assert plain(node) == {"a": 1}


@pytest.mark.parametrize("char", ["\0", "\x07", "\x1b", "\x7f", "\x9b", "\ufffe"])
def test_a_control_character_is_refused_at_its_place(char: str) -> None:
    node, problems = read(f"a: 1\nb: Kết{char}\n")
    assert node is None
    assert [(p.code, p.line, p.column) for p in problems] == [("bad-yaml", 2, 7)]
    assert f"U+{ord(char):04X}" in problems[0].message


def test_nesting_up_to_the_limit_is_read_and_one_more_is_refused() -> None:
    deep = YAML_DEPTH_MAX
    assert deep == 32
    assert refused("[" * deep + "]" * deep) == []
    assert refused("[" * (deep + 1) + "]" * (deep + 1)) == [("bad-yaml", 1, deep + 1)]


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 100_000])
def test_nesting_without_end_is_refused_without_recursion(text: str) -> None:
    assert [code for code, _, _ in refused(text)] == ["bad-yaml"]


def test_more_values_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "YAML_NODES_MAX", 10)
    assert refused("[a, b, {c: d, e: f}, g, h]") == []
    assert refused("[a, b, {c: d, e: f}, g, h, i]") == [("bad-yaml", 1, 1)]


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "---\na: 1\n---\n", "a: 1\n...\n---\nb: 2\n"])
def test_a_second_document_is_refused(text: str) -> None:
    node, problems = read(text)
    assert node is None
    assert [p.code for p in problems] == ["bad-yaml"]
    assert "one document" in problems[0].message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a: "open\nb: 1\n', 3),
        ("a: [1, 2\n", 2),
        ("a: b: c\n", 1),
        ("a: 1\n b: 2\n", 2),
        ("a: 1\n}\n", 2),
        ("a: @x\n", 1),
    ],
)
def test_what_is_no_yaml_is_one_problem_at_its_line(text: str, line: int) -> None:
    node, problems = read(text)
    assert node is None
    assert [(p.code, p.line) for p in problems] == [("bad-yaml", line)]


# Read


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "~\n"])
def test_an_empty_document_is_nothing(text: str) -> None:
    node, problems = read(text)
    assert problems == []
    assert isinstance(node, Scalar)
    assert node.value is None


@pytest.mark.parametrize("text", ["---\na: 1\n", "a: 1\n...\n", "%YAML 1.2\n---\na: 1\n", "a: 1\r\n", "{a: 1}"])
def test_one_document_in_any_dress_is_read(text: str) -> None:
    node, problems = read(text)
    assert problems == []
    assert plain(node) == {"a": 1}


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_the_words_for_true(text: str) -> None:
    assert value_of(text) is True


@pytest.mark.parametrize("text", ["false", "False", "FALSE"])
def test_the_words_for_false(text: str) -> None:
    assert value_of(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_the_words_for_nothing(text: str) -> None:
    assert value_of(text) is None


@pytest.mark.parametrize(
    "text", ["yes", "Yes", "no", "No", "NO", "on", "On", "off", "OFF", "y", "n", "tRUE", "nULL", "12:30", "1:2:3"]
)
def test_words_that_only_yaml_1_1_knew_are_text(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize(
    "text", ["1_000", "0b1", "2026-11-16", "2026-11-16T10:00:00Z", "=", "<<", "1e", "--1", "1.2.3", ".", "1e99999"]
)
def test_what_looks_a_little_like_a_number_is_text(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize("text", ["0x1F", "0o17", ".inf", "-.inf", ".nan"])
def test_numbers_that_no_key_of_a_crew_needs_are_text(text: str) -> None:
    """So a key that wants a number refuses them instead of taking something else for them."""
    assert value_of(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("17", 17), ("-3", -3), ("+5", 5), ("017", 17), ("00", 0), ("1234567890123456", 1234567890123456)],
)
def test_whole_numbers_are_decimal(text: str, value: int) -> None:
    found = value_of(text)
    assert found == value
    assert isinstance(found, int)


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", 0.5), (".5", 0.5), ("1.", 1.0), ("-2.50", -2.5), ("1e3", 1000.0), ("1.5E-2", 0.015)]
)
def test_numbers_with_a_fraction_or_an_exponent(text: str, value: float) -> None:
    found = value_of(text)
    assert found == value
    assert isinstance(found, float)


@pytest.mark.parametrize("text", ['"true"', "'1'", '"null"', "'~'", "''", "|\n  1", ">-\n  no"])
def test_what_is_quoted_or_a_block_is_text(text: str) -> None:
    assert isinstance(value_of(text), str)


def test_a_number_keeps_its_spelling() -> None:
    node, _ = read("version: 1.0\n")
    assert node is not None
    version = node_at(node, ("version",))
    assert isinstance(version, Scalar)
    assert (version.value, version.text) == (1.0, "1.0")


def test_every_value_has_its_line_and_column() -> None:
    text = 'version: "2.0"\nagents:\n  - id: a\n    tools: [x,  y]\n  -   b\nsettings: {max_rounds: 3}\nđội:  Kết\n'
    node, _ = read(text)
    assert node is not None
    places = {
        ("version",): (1, 10),
        ("agents", 0): (3, 5),
        ("agents", 0, "id"): (3, 9),
        ("agents", 0, "tools"): (4, 12),
        ("agents", 0, "tools", 1): (4, 17),
        ("agents", 1): (5, 7),
        ("settings", "max_rounds"): (6, 24),
        ("đội",): (7, 7),
    }
    found = {path: inner.place for path in places if (inner := node_at(node, path)) is not None}
    assert found == {path: SourceLocation("crew.yaml", line, column) for path, (line, column) in places.items()}


def test_keys_have_places_too() -> None:
    node, _ = read("routing:\n  defaults:\n    a: b\n")
    assert isinstance(node, Mapping)
    inner = node_at(node, ("routing", "defaults"))
    assert isinstance(inner, Mapping)
    key = inner.key("a")
    assert key is not None
    assert key.place == SourceLocation("crew.yaml", 3, 5)
