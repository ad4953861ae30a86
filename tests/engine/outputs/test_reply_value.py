"""The value of a reply, apart from its marks: what is read, what is a fault, and which text may steer."""

import json

import pytest

from interlock.engine.outputs.reply_value import read_value
from interlock.limits import OUTPUT_VALUE_BYTES_MAX, OUTPUT_VALUE_DEPTH_MAX


def is_mark(name: str) -> bool:
    return name.upper() in ("DONE", "NEXT")


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("24", 24),
        ("  24.5\n[DONE]", 24.5),
        ('"text" **[DONE]**', "text"),
        ("null", None),
        ("[DONE] 7 [NEXT]", 7),
        ("[1, 2]\n[DONE]", [1, 2]),
        ("[]", []),
        ('```json\n{"a": 1}\n```\n[DONE]', {"a": 1}),
        ("~~~~\n7\n~~~~", 7),
        ('{"said": "[DONE]"}', {"said": "[DONE]"}),
        ("18446744073709551615", 2**64 - 1),
        ("\r\n 7 \r\n", 7),
    ],
)
def test_a_reply_is_its_value_beside_marks_and_one_fence(reply: str, value: object) -> None:
    read = read_value(reply, is_mark)
    assert (read.value, read.fault) == (value, "") and json.loads(read.text) == value


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", "there is no JSON in it"),
        ("[DONE]", "there is no JSON in it"),
        ("Here it is: 7", "it is not JSON"),
        ("7 is it", "text after it"),
        ("7 8", "more than one value"),
        ("[OTHER] 7", "it is not JSON"),
        ("```\n7", "its code fence is not closed"),
        ('{"a": 1, "a": 2}', "the key 'a' is in one object twice"),
        ("NaN", "NaN is not JSON"),
        ("-Infinity", "-Infinity is not JSON"),
        ("1e999", "a number in it is too large"),
        ("18446744073709551616", "more than 64 bits"),
        ("[" * (OUTPUT_VALUE_DEPTH_MAX + 1) + "]" * (OUTPUT_VALUE_DEPTH_MAX + 1), "levels deep"),
        ('"' + "x" * OUTPUT_VALUE_BYTES_MAX + '"', "it is larger than"),
        (r'"\ud800"', "half of a surrogate pair"),
    ],
)
def test_everything_else_is_a_fault(reply: str, fault: str) -> None:
    read = read_value(reply, is_mark)
    assert fault in read.fault and read.value is None


def test_marks_inside_the_value_are_blanked_and_the_others_keep_their_places() -> None:
    reply = '{"a": "[NEXT]",\n"b": 1}\n[DONE]'
    read = read_value(reply, is_mark)
    assert len(read.beside) == len(reply) and "[NEXT]" not in read.beside
    assert read.beside.index("[DONE]") == reply.index("[DONE]") and read.beside.count("\n") == reply.count("\n")


def test_a_reply_without_a_value_keeps_its_text_and_tells_whether_it_was_to_be_one() -> None:
    plain, broken = read_value("Ask [NEXT]", is_mark), read_value('{"a": [NEXT]', is_mark)
    assert (plain.beside, plain.is_attempt) == ("Ask [NEXT]", False)
    assert (broken.beside, broken.is_attempt) == ('{"a": [NEXT]', True)
