"""Docstrings of tools: three styles, whole, half and wrong ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.tools.tool_docstrings import read_docstring

GOOGLE = """Find an order.

    Use it before you promise anything.

    Args:
        order (str): The number of the order,
            as it is on the invoice.
        limit (Optional[int], optional): How many: at most ten.
        *words: Words to look for.
        **rest (dict[str, (int | str)]): The rest

    Returns:
        The order, or
        nothing.

    Raises:
        KeyError: if there is none

    Note:
        Orders of last year are elsewhere.
    """

NUMPY = """
    Find an order.

    Use it before you promise anything.

    Parameters
    ----------
    order : str
        The number of the order,

        as it is on the invoice.
    limit : int, optional, default: 10
        How many: at most ten.
    first, last : date
        A day.
    nothing

    Returns
    -------
    Order
        The order.

    Notes
    -----
    Orders of last year are elsewhere.
    """

SPHINX = """Find an order.

    Use it before you promise anything.

    :param order: The number of the order,
        as it is on the invoice.
    :type order: str
    :param int limit: How many: at most ten.
    :keyword last:
        A day.
    :returns: The order.
    :rtype: Order
    :raises KeyError: if there is none
    """

NUMBER = "The number of the order, as it is on the invoice."
TEXT = "Find an order.\n\nUse it before you promise anything."


def test_google() -> None:
    assert read_docstring(GOOGLE) == (
        f"{TEXT}\n\nNote:\n    Orders of last year are elsewhere.",
        {"order": NUMBER, "limit": "How many: at most ten.", "words": "Words to look for.", "rest": "The rest"},
    )


def test_numpy() -> None:
    assert read_docstring(NUMPY) == (
        f"{TEXT}\n\nNotes\n-----\nOrders of last year are elsewhere.",
        {"order": NUMBER, "limit": "How many: at most ten.", "first": "A day.", "last": "A day."},
    )


def test_sphinx() -> None:
    assert read_docstring(SPHINX) == (TEXT, {"order": NUMBER, "limit": "How many: at most ten.", "last": "A day."})


@pytest.mark.parametrize(
    ("text", "description", "arguments"),
    [
        ("", "", {}),
        (None, "", {}),
        ("One line.", "One line.", {}),
        ("One line.\nArgs:\n  x: an x", "One line.", {"x": "an x"}),
        ("Args:\n    x: an x\n    y: a y\nMore text.", "More text.", {"x": "an x", "y": "a y"}),
        ("Does.\n\nArguments:\n    x - an x", "Does.", {"x": "an x"}),
        ("Does.\n\nArgs:", "Does.", {}),
        ("Does.\n\nArgs:\n    no colon here\n    x: an x\n    and more of it", "Does.", {"x": "an x and more of it"}),
        ("Does.\n\nArgs: none", "Does.\n\nArgs: none", {}),
        ("Does.\n\nReturns: the sum", "Does.", {}),
        ("Does.\n\nReturns:\nnot indented", "Does.\n\nReturns:\nnot indented", {}),
        ("Does.\n\nParameters\n----------", "Does.", {}),
        ("Does.\n\nParameters\n----------\nx\n    an x", "Does.", {"x": "an x"}),
        ("Does.\n\nParameters\n----------\nx : int\n    an x\n\nThe end.", "Does.\n\nThe end.", {"x": "an x"}),
        ("Does.\n\nParameters:\n----------\nx: int\n    an x", "Does.", {"x": "an x"}),
        ("Does.\n\n:param x", "Does.\n\n:param x", {}),
        ("Does.\n\n:param: no name", "Does.", {}),
        ("Does.\n\n:param x: an x\n:unknown y: a y", "Does.\n\n:unknown y: a y", {"x": "an x"}),
        ("Does.\n\n@param x: an x\n@return: a sum", "Does.", {"x": "an x"}),
        ("Does: this.\nNote: that.", "Does: this.\nNote: that.", {}),
        ("Does.\n\nArgs:\n    x: an x\n\n        and more\n    y (", "Does.", {"x": "an x and more y ("}),
        ("Does.\n\nArgs:\n    url: see https://example.org/a:b", "Does.", {"url": "see https://example.org/a:b"}),
    ],
)  # fmt: skip
def test_whole_half_and_wrong_ones(text: str | None, description: str, arguments: dict[str, str]) -> None:
    assert read_docstring(text) == (description, arguments)


PIECES = st.sampled_from(
    [
        "Args:",
        "Parameters",
        "----------",
        ":param x: y",
        "Returns:",
        "    x: an x",
        "  y (int",
        "\t",
        "",
        "x : int",
        "@param",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES | st.text(max_size=20), max_size=12).map("\n".join))
def test_nothing_raises_and_every_text_is_one_line(text: str) -> None:
    found = read_docstring(text)
    assert all(said == " ".join(said.split()) and said for said in found.arguments.values())


def test_long_and_hostile_text_is_read_in_linear_time() -> None:
    """A pattern that backtracks without end would not return."""
    for text in ("Args:\n    x " + "(" * 5_000, "Args:\n    x (" + "()" * 5_000, ":param " + "a " * 5_000):
        read_docstring(text)
