"""HTML in a reply: the parts that a reader does not see as text.

Rule 1: comments, CDATA, and elements with code, scripts or quotes hide everything up to their end, over lines too.
Rule 2: an unclosed one hides to the end of its line, like a backtick: it was probably only mentioned.
Rule 3: a tag, and an address in angle brackets, hide their content, such as attributes.
"""

import re

import msgspec

# The content of these is code, quoted, or not shown at all.
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


class HtmlSign(msgspec.Struct, frozen=True):
    """A construct that begins at a `<` and ends at `end`; if it hides more, `closed_by` names what closes it."""

    end: int
    closed_by: str = ""


def sign_at(text: str, place: int, end: int) -> HtmlSign | None:
    """The comment, element, tag or address that begins here; None if it is a plain `<`."""
    found = _SIGN.match(text, place, end)
    if found is None:
        return None
    name = (found["name"] or "").lower()
    if name in _END_TAGS and not found["ends"] and not found["alone"]:
        return HtmlSign(found.end(), name)
    closing = "" if found["empty"] else next((_CLOSINGS[kind] for kind in _CLOSINGS if found[kind]), "")
    return HtmlSign(found.end(), closing)


def end_of_hidden(text: str, position: int, closed_by: str, end: int) -> int:
    """The position after its closing sign, searched from `position` on; -1 if there is none."""
    if closed_by in _END_TAGS:
        found = _END_TAGS[closed_by].search(text, position, end)
        return found.end() if found else -1
    place = text.find(closed_by, position, end)
    return place + len(closed_by) if place >= 0 else -1


class HtmlElements:
    """The ends of the elements of one text, asked from left to right; no part is searched twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        # By closing sign: where the last search started, and the position after the sign, or -1.
        self._found: dict[str, tuple[int, int]] = {}

    def end_after(self, sign: HtmlSign) -> int:
        """The position after the closing sign; -1 if there is none."""
        if not sign.closed_by:
            return sign.end
        begin, after = self._found.get(sign.closed_by, (0, 0))
        if begin <= sign.end and (after < 0 or sign.end <= after - len(sign.closed_by)):
            return after
        after = end_of_hidden(self._text, sign.end, sign.closed_by, len(self._text))
        self._found[sign.closed_by] = (sign.end, after)
        return after
