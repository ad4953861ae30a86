"""Names that identify things: which are usable, and which are taken."""

import unicodedata

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
