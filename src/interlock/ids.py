"""Names that identify things: which are usable, and which are taken."""

import re
import unicodedata
from collections.abc import Sequence

from interlock.limits import ID_CHARS_MAX

# Who may stand as the author of an entry without being an agent.
RESERVED_IDS = ("external", "system", "user")


def is_word_char(char: str) -> bool:
    """A letter or digit of any script, or a mark that some scripts put on their letters."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def is_id(text: str) -> bool:
    """Letters, digits, `_`, `-` and `.`, starting with a letter or digit."""
    return (
        0 < len(text) <= ID_CHARS_MAX
        and text[0].isalnum()
        and all(is_word_char(char) or char in "_-." for char in text)
    )


# A run's id stands before keys, and in commands.
_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


def is_run_id(text: str) -> bool:
    """Whether an outermost run may have this id."""
    return _RUN_ID.fullmatch(text) is not None


# Stands between a run's id and the key of the order that started a child. No id that a user may choose holds it.
CHILD_MARK = "~"


def child_id(parent: str, key: str) -> str:
    """Derived, so that whoever starts the same child again finds it."""
    return f"{parent}{CHILD_MARK}{key}"


def parent_of(run: str) -> str:
    """The run that started this one, or nothing."""
    return run.rpartition(CHILD_MARK)[0]


def key_of(run: str) -> str:
    """The key under which its parent knows a child."""
    return run.rpartition(CHILD_MARK)[2]


def run_of(token: str) -> str:
    """The run that a token, or another key as it is known outside, belongs to."""
    return token.rpartition(":")[0]


def is_below(run: str, ancestor: str) -> bool:
    return run.startswith(f"{ancestor}{CHILD_MARK}")


def root_of(run: str) -> str:
    """The outermost run of the tree."""
    return run.partition(CHILD_MARK)[0]


# Stands before the number of a crew that has several runs under way for one caller. No name of a crew holds it.
NUMBER_MARK = "#"


def numbered(crew: str, number: int) -> str:
    """The first has the name of the crew itself."""
    return crew if number == 1 else f"{crew}{NUMBER_MARK}{number}"


def unnumbered(name: str) -> str:
    return name.partition(NUMBER_MARK)[0]


def placed(path: Sequence[str], name: str) -> str:
    """An agent, or a crew, as it is named from the outermost crew: `alpha/inner/y`."""
    return "/".join((*path, name))
