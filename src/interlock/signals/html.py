"""HTML in a reply: which of it a reader does not see as text, and up to where.

Rule 1: comments, CDATA, and elements that hold code, scripts or quotes hide all up to their end, over lines too.
Rule 2: one that nobody closes hides to the end of its line, as a backtick does: it was probably only spoken of.
Rule 3: a tag, and an address in angle brackets, hide what is inside of them, such as attributes.
"""

import re

import msgspec

# What is inside of these is code, quoted, or not shown at all.
HIDING_ELEMENTS = (
    "blockquote", "code", "kbd", "listing", "noscript", "plaintext", "pre", "q", "samp", "script", "style", "template",
    "textarea", "title", "tt", "var", "xmp",
)  # fmt: skip

_ATTRIBUTES = r"""(?:[ \t]++[A-Za-z_:][\w.:-]*+(?:[ \t]*+=[ \t]*+(?:"[^"\n]*+"|'[^'\n]*+'|[^\s"'=<>`]++))?+)*+"""
_SIGN = re.compile(
    r"<(?:(?P<comment>!--)(?P<empty>-?>)?|(?P<data>!\[CDATA\[)|(?P<order>\?)|(?P<declaration>![A-Za-z])"
    rf"|(?P<ends>/)?(?P<name>[A-Za-z][A-Za-z0-9-]*+){_ATTRIBUTES}[ \t]*+(?P<alone>/)?>"
    r"|[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*+>)"
)
_CLOSINGS = {"comment": "-->", "data": "]]>", "order": "?>", "declaration": ">"}
_END_TAGS = {name: re.compile(rf"</{name}[ \t]*>", re.IGNORECASE) for name in HIDING_ELEMENTS}


class Sign(msgspec.Struct, frozen=True):
    """What begins at a `<`: it ends at `end`, and then, if it hides more, something that `closed_by` names."""

    end: int
    closed_by: str = ""


def sign_at(text: str, place: int, end: int) -> Sign | None:
    """The comment, element, tag or address that begins here; None if it is a plain `<`."""
    found = _SIGN.match(text, place, end)
    if found is None:
        return None
    name = (found["name"] or "").lower()
    if name in _END_TAGS and not found["ends"] and not found["alone"]:
        return Sign(found.end(), name)
    closing = "" if found["empty"] else next((_CLOSINGS[kind] for kind in _CLOSINGS if found[kind]), "")
    return Sign(found.end(), closing)


def end_of(text: str, position: int, closed_by: str, end: int) -> int:
    """The position after what closes it, looked for from `position` on; -1 if nothing does."""
    if closed_by in _END_TAGS:
        found = _END_TAGS[closed_by].search(text, position, end)
        return found.end() if found else -1
    place = text.find(closed_by, position, end)
    return place + len(closed_by) if place >= 0 else -1


class Elements:
    """Where the elements of one text end, asked from left to right; nothing is sought twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        # By what closes it: from where it was looked for last, and the position after it, or -1.
        self._found: dict[str, tuple[int, int]] = {}

    def end_after(self, sign: Sign) -> int:
        """-1 if nothing closes it."""
        if not sign.closed_by:
            return sign.end
        begin, after = self._found.get(sign.closed_by, (0, 0))
        if begin <= sign.end and (after < 0 or sign.end <= after - len(sign.closed_by)):
            return after
        after = end_of(self._text, sign.end, sign.closed_by, len(self._text))
        self._found[sign.closed_by] = (sign.end, after)
        return after
