"""Templates print and do nothing else (FAULTS.md F3): what is filled in is read as no template, format or code."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.crew.templates import INPUT_FIELDS, fill_template, unknown_input_fields
from tests.crew.parse.test_parse_never_raises import few

CREWS = ("library", "team-alpha")
FIELDS = [*INPUT_FIELDS, *(f"PreviousResults.{crew}" for crew in CREWS), "SharedMemory.tone", "SharedMemory.a.b"]
INJECTIONS = [
    "{{.Input}}",
    "{{.OriginalInput}}{{.SharedMemory.secret}}",
    "{{.Input.__class__.__mro__}}",
    "{{ .PreviousResults.library }}",
    "{{'' | attr('__class__')}}",
    "{{ self.__init__.__globals__ }}",
    "{% for x in ().__class__.__bases__[0].__subclasses__() %}{{x}}{% endfor %}",
    "{{7*7}} ${7*7} #{7*7} <%= 7*7 %> #set($x=7*7)",
    "{0.__class__} {Input} {!r} {0!r:>99999999}",
    "%(Input)s %s %n %99999999d",
    "$Input ${Input} `id` $(id)",
    r"\1 \g<0> \g<Input> \\",
    "{{", "}}", "{{}}", "{{{.Input}}}", "{ {.Input} }", "{{.Input", ".Input}}",
    "[END] [FINAL]", "\x00\x1b[2J\u202e", "",
]  # fmt: skip


class Value:
    """Gives a field's value, and keeps which fields it was asked for."""

    def __init__(self, values: dict[str, str], asked: list[str]) -> None:
        self.values, self.asked = values, asked

    def __call__(self, field: str, key: str) -> str:
        name = f"{field}.{key}" if key else field
        self.asked.append(name)
        return self.values[name]


def by_hand(pieces: list[tuple[bool, str]], values: dict[str, str]) -> str:
    """The same without looking for anything: the pieces are known, so fields need not be found."""
    return "".join(values[piece] if is_field else piece for is_field, piece in pieces)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("payload", INJECTIONS)
def test_whatever_is_filled_in_is_printed_as_it_is(field: str, payload: str) -> None:
    template = f"before {{{{.{field}}}}} between {{{{ .{field} }}}} after"
    asked: list[str] = []
    values = dict.fromkeys(FIELDS, payload)
    assert fill_template(template, Value(values, asked)) == f"before {payload} between {payload} after"
    assert asked == [field, field]


PIECES = st.lists(
    st.tuples(st.just(True), st.sampled_from(FIELDS))
    | st.tuples(st.just(False), st.text(alphabet="ab.{ \n", max_size=5)),
    max_size=8,
)


@few
@given(
    pieces=PIECES, values=st.fixed_dictionaries({field: st.sampled_from(INJECTIONS) | st.text() for field in FIELDS})
)
def test_fields_are_filled_once_from_left_to_right(pieces: list[tuple[bool, str]], values: dict[str, str]) -> None:
    pieces = [(is_field, piece if is_field else piece.replace("{", "(")) for is_field, piece in pieces]
    template = "".join(f"{{{{.{piece}}}}}" if is_field else piece for is_field, piece in pieces)
    assert list(unknown_input_fields(template, CREWS)) == []
    assert fill_template(template, Value(values, [])) == by_hand(pieces, values)


@few
@given(template=st.text(alphabet="{}. InputSharedMemory.x|_", max_size=40) | st.sampled_from(INJECTIONS))
def test_what_passes_the_check_asks_for_known_fields_only(template: str) -> None:
    """A template is either refused at load, or whatever it asks for later is on the list."""
    known = [re.escape(f".{field}") for field in FIELDS]
    if not list(unknown_input_fields(template, CREWS)):
        asked = re.findall(r"\{\{([^{}]*)\}\}", template)
        assert [
            name for name in asked if not re.fullmatch("|".join([*known, r"\.SharedMemory\..+"]), name.strip())
        ] == []
        assert fill_template(template, lambda field, key: "") == re.sub(r"\{\{[^{}]*\}\}", "", template)


def test_a_template_of_the_largest_size_is_filled_field_by_field() -> None:
    count = 256 * 1024 // len("{{.Input}}")
    asked: list[str] = []
    text = fill_template("{{.Input}}" * count, Value({"Input": "{{.Input}}"}, asked))
    assert (text, len(asked)) == ("{{.Input}}" * count, count)


def test_braces_that_hold_no_field_stay() -> None:
    for text in ("{{.Input", "{.Input}", "{{.Input}", '{"a": {"b": 1}}'):
        assert fill_template(text, Value({}, [])) == text
