"""Plain functions that are named and described where they are given; one argument is given already."""

from functools import partial

from interlock import tool


def _look_up(index: dict[str, str], word: str) -> str:
    """Look up a word.

    :param index: The entries.
    :param word: The word to explain.
    """
    return index.get(word, "unknown")


TOOLS = [
    tool(partial(_look_up, {"lamp": "gives light"}), name="dictionary", description="Explains words of the trade."),
    tool(partial(_look_up, index={"lamp": "39 euros"}), name="prices"),
]
