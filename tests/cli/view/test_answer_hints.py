"""The text of an approval is for people, and was written by a model."""

import pytest

from interlock.cli.view.answer_hints import approval_text


def test_an_approval_shows_the_tool_with_its_arguments() -> None:
    assert approval_text('clerk wants to use pay with {"dollars": 612}') == "clerk → pay(dollars=612)"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"amount": 1, "amount": 1000000}',
        '{"a=1, b": 2}',
        "[1]",
        "no JSON",
        '{"a": "\ud800"}',
    ],
    ids=["too deep", "a name twice", "no identifier", "no object", "no JSON", "a lone surrogate"],
)
def test_arguments_that_could_mislead_are_shown_as_they_were_written(arguments: str) -> None:
    question = f"clerk wants to use pay with {arguments}"
    assert approval_text(question) == question


def test_other_questions_are_not_changed() -> None:
    assert approval_text("Which one?") == "Which one?"
