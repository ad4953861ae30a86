"""Choices, patterns and schemas: what is taken, what is asked again, and what is no question."""

from typing import Any

import pytest

from interlock.limits import ANSWER_CHARS_MAX, CHOICES_MAX
from interlock.messages import AnswerRules, BadAnswer, BadQuestion, UserInputValidator
from interlock.messages.answers import require_rules, require_use, require_valid_answer

NUMBER = {"type": "integer", "minimum": 1, "maximum": 9}
TRIP = {
    "type": "object",
    "properties": {"city": {"minLength": 2, "maxLength": 9}, "days": NUMBER, "who": {"type": "array", "items": {}}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("rules", "answer", "counts"),
    [
        (AnswerRules(), " as it was said ", " as it was said "),
        (AnswerRules(choices=("Price", "Comfort")), " price", "Price"),
        (AnswerRules(pattern=r"^[A-Z]{3}$"), " LAX ", "LAX"),
        (AnswerRules(schema=NUMBER), "9", "9"),
        (AnswerRules(schema={"type": "number", "minimum": 0.5}), "0.5", "0.5"),
        (AnswerRules(schema={"type": "boolean"}), "true", "true"),
        (AnswerRules(schema={"enum": ["a", "b"]}), "a", "a"),
        (AnswerRules(schema={"type": "array", "items": NUMBER, "minItems": 1, "maxItems": 2}), "[1, 2]", "[1, 2]"),
        (AnswerRules(schema=TRIP), '{"city": "Roma", "other": 1}', '{"city": "Roma", "other": 1}'),
        (AnswerRules(schema={"pattern": r"\d+"}), "42", "42"),
        (AnswerRules(schema={"format": "date"}), "2026-11-30", "2026-11-30"),
    ],
)
def test_what_fits_is_taken(rules: AnswerRules, answer: str, counts: str) -> None:
    require_rules(rules)
    assert require_valid_answer(rules, answer) == counts


@pytest.mark.parametrize(
    ("rules", "answer", "why"),
    [
        (AnswerRules(), "", "blank"),
        (AnswerRules(), "x" * (ANSWER_CHARS_MAX + 1), "at most 20,000"),
        (AnswerRules(choices=("a", "b")), "c", "one of: a, b"),
        (AnswerRules(pattern="[A-Z]{3}"), "LAXX", r"of the form \[A-Z\]\{3\}"),
        (AnswerRules(pattern=".*"), "x" * 201, "of the form"),
        (AnswerRules(schema=NUMBER), "0", "at least 1"),
        (AnswerRules(schema=NUMBER), "10", "at most 9"),
        (AnswerRules(schema=NUMBER), "true", "the answer should be a whole number from 1 to 9"),
        (AnswerRules(schema=NUMBER), "nine", "the answer should be a whole number from 1 to 9$"),
        (AnswerRules(schema={"type": "boolean"}), "1", "should be true or false"),
        (AnswerRules(schema={"enum": ["a"]}), "b", "the answer should be one of: a"),
        (AnswerRules(schema={"type": "array", "items": NUMBER}), "[1, 77]", "item 2 of the answer should be at most 9"),
        (AnswerRules(schema={"type": "array", "minItems": 1}), "[]", "at least 1 items"),
        (AnswerRules(schema={"type": "array", "maxItems": 1}), "[1,2]", "at most 1 items"),
        (AnswerRules(schema=TRIP), "{}", "lacks city"),
        (AnswerRules(schema=TRIP), '{"city": "R"}', "'city' of the answer should have at least 2 characters"),
        (AnswerRules(schema=TRIP), '{"city": "Rom", "days": 0}', "'days' of the answer"),
        (AnswerRules(schema={"pattern": r"\d+"}), "x", "the form"),
        (AnswerRules(schema={"type": "object"}), "[" * 100_000, "no JSON|at most"),
    ],
)
def test_what_does_not_is_asked_again_with_the_reason(rules: AnswerRules, answer: str, why: str) -> None:
    require_rules(rules)
    with pytest.raises(BadAnswer, match=why):
        require_valid_answer(rules, answer)


def nested(levels: int) -> dict[str, Any]:
    return {"type": "array", "items": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (AnswerRules(choices=("a", "A ")), "nothing but case"),
        (AnswerRules(choices=("a", " ")), "blank"),
        (AnswerRules(choices=tuple(map(str, range(CHOICES_MAX + 1)))), "at most 100"),
        (AnswerRules(pattern="(?=a)"), "look ahead"),
        (AnswerRules(schema={"format": "time"}), "'format' of a schema cannot be"),
        (AnswerRules(schema={"$ref": "#"}), "not part"),
        (AnswerRules(schema={"type": "null"}), "'type' of a schema cannot be"),
        (AnswerRules(schema={"type": ["string"]}), "cannot be"),
        (AnswerRules(schema={"minimum": "1"}), "cannot be"),
        (AnswerRules(schema={"enum": []}), "cannot be"),
        (AnswerRules(schema={"properties": {"a": 1}}), "cannot be"),
        (AnswerRules(schema={"items": {"pattern": "["}}), "ends too early"),
        (AnswerRules(schema=nested(4)), "4 levels"),
        (AnswerRules(schema={"properties": {str(n): {} for n in range(100)}}), "100 parts"),
    ],
)
def test_a_question_whose_answer_cannot_be_checked_is_refused(rules: AnswerRules, why: str) -> None:
    with pytest.raises(BadQuestion, match=why):
        require_rules(rules)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"minimum": 5}, "'minimum' goes with type integer or number, and this schema is of type string"),
        ({"required": ["a"]}, "'required' goes with type object"),
        ({"type": "object", "properties": {"n": {"type": "integer", "minLength": 2}}}, "'minLength' goes with"),
        ({"type": "array", "items": {"items": {}}}, "'items' goes with type array"),
        ({"enum": [1, 2]}, "none of 'enum' is of type string"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "'minimum' of a schema is more than its 'maximum'"),
        ({"minLength": 5, "maxLength": 3}, "'minLength' of a schema is more"),
        ({"type": "array", "minItems": 5, "maxItems": 3}, "'minItems' of a schema is more"),
    ],
)
def test_a_schema_that_no_answer_fits_or_that_is_not_looked_at_is_refused(schema: dict[str, Any], why: str) -> None:
    require_rules(AnswerRules(schema=schema))
    with pytest.raises(BadQuestion, match=why):
        require_use(schema)
    with pytest.raises(BadQuestion, match=why):
        UserInputValidator(schema=schema)


@pytest.mark.parametrize("schema", [{}, NUMBER, TRIP, {"type": "integer", "enum": [1, "x"]}, {"title": "a"}])
def test_one_that_is_looked_at_is_used(schema: dict[str, Any]) -> None:
    require_use(schema)


def test_what_is_expected_can_be_said_to_a_person() -> None:
    assert AnswerRules().in_words == ""
    assert AnswerRules(choices=("a", "b")).in_words == "one of: a, b"
    assert AnswerRules(pattern="[a-z]+").in_words == "a text of the form [a-z]+"
    assert AnswerRules(schema={"type": "integer"}).in_words == "a whole number"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 30}, "a whole number from 1 to 30"),
        ({"type": "number", "minimum": 0.5}, "a number, at least 0.5"),
        ({"type": "number", "maximum": 2}, "a number, at most 2"),
        ({"type": "boolean"}, "true or false"),
        ({"enum": ["red wine", "white"]}, "one of: red wine, white"),
        ({"type": "integer", "enum": [1, 3]}, "one of: 1, 3"),
        ({"minLength": 2}, "a text of at least 2 characters"),
        ({"maxLength": 9, "pattern": "[a-z]+"}, "a text of at most 9 characters of the form [a-z]+"),
        ({"type": "array", "minItems": 1, "maxItems": 2}, "a JSON list of 1 to 2 items"),
        ({"type": "array", "items": {"type": "boolean"}}, "a JSON list, each true or false"),
        ({"type": "object"}, 'a JSON object of the form {"type":"object"}'),
    ],
)
def test_a_person_is_told_in_words_what_a_schema_wants(schema: dict[str, Any], words: str) -> None:
    rules = AnswerRules(schema=schema)
    require_rules(rules)
    assert rules.in_words == words


@pytest.mark.parametrize("answer", ["tomorrow", "2026-02-30", "20261130", "2026-W48-1", "2026-11-30T10:00"])
def test_a_date_is_a_day_of_the_calendar_in_one_form(answer: str) -> None:
    with pytest.raises(BadAnswer, match="should be a date such as 2026-11-30"):
        require_valid_answer(AnswerRules(schema={"format": "date"}), answer)


def test_runs_of_older_rules_know_no_format() -> None:
    with pytest.raises(BadQuestion, match="'format' is not part of the schemas for answers; these are: type, enum"):
        require_rules(AnswerRules(schema={"format": "date"}), formats=False)
