"""Frames: tags around quoted text in a prompt, so that no author can impersonate another.

Rule 1: quoted text is between an opening and a closing tag, which name its author and kind.
Rule 2: no text and no name can imitate a tag: `escape` removes tags and everything that looks like one.
Rule 3: text outside of all frames is Interlock's own.
Rule 4: a frame depends on its author, kind and text alone, so that the beginning of a prompt stays the same.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

import msgspec

from interlock.limits import FRAME_NAME_CHARS_MAX

CLOSING = "</said>"
# The replacement of a sign that would open a tag. It is the escape of HTML, which models know.
ESCAPED = "&lt;"

# Signs that look like `<` and `/`.
_TAG_SIGNS = "<＜﹤"
_QUOTE_SIGNS = "‹«〈〈⟨《⟪❬❮❰ᐸ˂≺≪⋖⧼⪡ᚲ𐊲"
_ANGLES = _TAG_SIGNS + _QUOTE_SIGNS
_SLASHES = "/／⁄∕⧸╱\\\\"
# Invisible characters between two letters: blanks, joiners, fillers, variation selectors, accents.
_UNSEEN = (
    r"[\s\u00ad\u034f\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u20d0-\u20f0"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]*+"
)
# Beyond ASCII any letter may look like one of the word.
_WORD = _UNSEEN.join(rf"([{letters}\u0080-\U0010ffff])" for letters in ("sS5$", "aA4@", "iIlL1|!", "dD"))
_TAG = re.compile(rf"[{_ANGLES}](?={_UNSEEN}(?:[{_SLASHES}]{_UNSEEN})*+{_WORD})")
# Letters of other scripts, and signs, that look like those of the word; accents and styles are removed before.
_LIKE = str.maketrans("5$ѕꜱƽ4@аɑαᴀl1|!іӏιıɩɪԁᴅɗđ", "sssssaaaaaaiiiiiiiiiidddd")

# Unusual line breaks, control characters, and signs that change the reading direction are written as escapes.
# Invisible letters, which a model would read, are removed.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_UNSEEN_LETTERS = re.compile(r"[\U000e0000-\U000e007f]")
_LONE_RETURN = re.compile(r"\r(?!\n)")
# Everything that `escape` changes, or has to look at more closely: most texts have none of it.
_TO_ESCAPE = re.compile(rf"[{_ANGLES}\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# ASCII without these, and the brackets of neutralized marks. Most texts have nothing else, which is found out faster.
_PLAIN_LETTERS = "".join(letter for letter in map(chr, range(128)) if _TO_ESCAPE.match(letter) is None)
_PLAIN_BYTES = _PLAIN_LETTERS.encode()
_PLAIN = re.compile(rf"[{re.escape(_PLAIN_LETTERS)}⟦⟧]*+")
_NOT_IN_NAMES = re.compile(rf"[{_ANGLES}>＞﹥›»〉〉⟩》⟫❭❯❱\"=\[\]{{}}]")

_FRAMED = re.compile(rf'(<said(?: by="[^"\n]*")? kind="[^"\n]*">\n)(.*?)(\n{CLOSING})', re.DOTALL)

Show = Callable[[str], str]


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A quoted part of a text: `text[start:end]`."""

    author: str
    kind: str
    start: int
    end: int


class Quoting:
    """Builds a text from Interlock's own words and quoted parts."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._frames: list[Frame] = []

    def add(self, words: str) -> "Quoting":
        """Adds Interlock's own words."""
        self._pieces.append(words)
        self._length += len(words)
        return self

    def quote(self, author: str, kind: str, words: str) -> "Quoting":
        """Adds quoted words of an author."""
        self._frames.append(Frame(author, kind, self._length, self._length + len(words)))
        return self.add(words)

    @property
    def text(self) -> str:
        """The text without frames, as the journal stores it."""
        return "".join(self._pieces)

    @property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(self._frames)


def requote(text: str, frames: Iterable[Frame], change: Show) -> Quoting:
    """Changes each part of a text by itself, so that frames stay around their words."""
    changed, position = Quoting(), 0
    for frame in frames:
        changed.add(change(text[position : frame.start]))
        changed.quote(frame.author, frame.kind, change(text[frame.start : frame.end]))
        position = frame.end
    return changed.add(change(text[position:]))


def escape(text: str) -> str:
    """Escapes everything in the text that could open or close a frame, or looks like it."""
    if _is_harmless(text):
        return text
    text = _UNSEEN_LETTERS.sub("", _LONE_RETURN.sub("\n", text))
    text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return _TAG.sub(_escape_sign, text)


def _is_harmless(text: str) -> bool:
    """Whether there is nothing to escape. In ASCII it is found out in the least time."""
    if text.isascii():
        return not text.encode().translate(None, _PLAIN_BYTES)
    return _PLAIN.fullmatch(text) is not None or _TO_ESCAPE.search(text) is None


def _escape_sign(found: re.Match[str]) -> str:
    """Escapes a sign. A quotation mark is escaped only if the word after it reads like the word of a tag."""
    sign = found[0]
    if sign in _QUOTE_SIGNS and "".join(map(_plain_letter, found.groups())) != "said":
        return sign
    return ESCAPED


def _plain_letter(letter: str) -> str:
    return unicodedata.normalize("NFKD", letter).strip("()")[:1].casefold().translate(_LIKE)


def in_frame(author: str, kind: str, text: str, show: Show = str) -> str:
    """The text inside a frame, with the name of its author if there is one.

    `show` makes marks harmless before: it writes ⟦⟧ for brackets, and nothing that has to be escaped.
    """
    shown = show(text)
    return f"{_opening_tag(author, kind)}\n{shown if _is_harmless(text) else escape(shown)}\n{CLOSING}"


# A run has few authors; hosts and sub-crews may bring any number.
@lru_cache(maxsize=1_000)
def _opening_tag(author: str, kind: str) -> str:
    by = f' by="{_name(author)}"' if author else ""
    return f'<said{by} kind="{_name(kind)}">'


def with_frames(text: str, frames: Iterable[Frame], show: Show, show_own: Show) -> str:
    """The text with its frames; `show` renders the quoted words, `show_own` Interlock's own."""
    pieces, position = [], 0
    for frame in frames:
        quoted = in_frame(frame.author, frame.kind, text[frame.start : frame.end], show)
        pieces += [escape(show_own(text[position : frame.start])), quoted]
        position = frame.end
    return "".join((*pieces, escape(show_own(text[position:]))))


def words_in_frames(text: str) -> list[str]:
    """The words inside each frame of a framed text."""
    return [found[2] for found in _FRAMED.finditer(text)]


def within_frames(text: str, change: Show) -> str:
    """The framed text with the words inside its frames changed."""
    return _FRAMED.sub(lambda found: f"{found[1]}{escape(change(found[2]))}{found[3]}", text)


def _name(name: str) -> str:
    """The name on one line, without the signs of a tag."""
    shown = " ".join(_NOT_IN_NAMES.sub(" ", escape(name)).replace("&lt;", " ").split())
    return shown[:FRAME_NAME_CHARS_MAX] or "?"
