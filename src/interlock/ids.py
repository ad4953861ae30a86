"""Names that identify things: the valid ones and the reserved ones."""

import re
import unicodedata
from collections.abc import Sequence

from interlock.limits import ID_CHARS_MAX

# Authors of entries that are not agents.
RESERVED_IDS = ("external", "system", "user")


def is_word_char(char: str) -> bool:
    """True for a letter or digit of any script, or a combining mark."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def is_id(text: str) -> bool:
    """True for letters, digits, `_`, `-` and `.`, starting with a letter or digit."""
    return (
        0 < len(text) <= ID_CHARS_MAX
        and text[0].isalnum()
        and all(is_word_char(char) or char in "_-." for char in text)
    )


# A run's id is used as a prefix of keys, and in commands.
_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


def is_run_id(text: str) -> bool:
    """True if an outermost run may have this id."""
    return _RUN_ID.fullmatch(text) is not None


# Between a run's id and the key of the order that started a child. Users cannot choose an id that contains it.
CHILD_MARK = "~"


def child_id(parent: str, key: str) -> str:
    """The id of a child. It is derived, so that starting the same child again finds it."""
    return f"{parent}{CHILD_MARK}{key}"


def parent_of(run: str) -> str:
    """The run that started this one; empty if there is none."""
    return run.rpartition(CHILD_MARK)[0]


def key_of(run: str) -> str:
    """The key by which its parent knows a child."""
    return run.rpartition(CHILD_MARK)[2]


def run_of(token: str) -> str:
    """The run of a token, or of another external key."""
    return token.rpartition(":")[0]


def is_below(run: str, ancestor: str) -> bool:
    return run.startswith(f"{ancestor}{CHILD_MARK}")


def root_of(run: str) -> str:
    """The outermost run of the tree."""
    return run.partition(CHILD_MARK)[0]


# Before the number of a crew that has several runs at once for one caller. No crew name contains it.
NUMBER_MARK = "#"


def with_number(crew: str, number: int) -> str:
    """The numbered name; the first run has the name of the crew itself."""
    return crew if number == 1 else f"{crew}{NUMBER_MARK}{number}"


def without_number(name: str) -> str:
    return name.partition(NUMBER_MARK)[0]


def full_name(path: Sequence[str], name: str) -> str:
    """The name of an agent or crew as seen from the outermost crew: `alpha/inner/y`."""
    return "/".join((*path, name))
