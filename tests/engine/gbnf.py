"""A reader and matcher of the part of GBNF that our grammars use; small and slow, for tests alone."""

import re
from functools import reduce

TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|\[\^?(?:[^\]\\]|\\.)+\]|[a-z]+|::=|[()|*+?]|\{\d+,\d+\})""")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "]": "]", "[": "["}

Ends = frozenset[int]


class Grammar:
    """`matches` says whether a whole text is one that the grammar generates."""

    def __init__(self, source: str) -> None:
        self.rules: dict[str, _Choice] = {}
        for line in source.splitlines():
            name, _, body = line.partition(" ::= ")
            choice, rest = _choice(_tokens(body))
            assert not rest, line
            self.rules[name] = choice

    def matches(self, text: str) -> bool:
        return len(text) in _Matching(self.rules, text).of(self.rules["root"], 0)


def _tokens(body: str) -> list[str]:
    found, position = [], 0
    while position < len(body):
        token = TOKEN.match(body, position)
        assert token is not None, body[position:]
        found.append(token[1])
        position = token.end()
    return found


class _Choice:
    def __init__(self, ways: "list[list[_Item]]") -> None:
        self.ways = ways


class _Item:
    """A literal, a set of characters, a rule's name or a group, and how often."""

    def __init__(self, what: "str | _Choice", often: str) -> None:
        self.what, self.often = what, often


def _choice(tokens: list[str]) -> tuple[_Choice, list[str]]:
    ways: list[list[_Item]] = [[]]
    while tokens and tokens[0] != ")":
        token, tokens = tokens[0], tokens[1:]
        if token == "|":
            ways.append([])
            continue
        what: str | _Choice = token
        if token == "(":
            what, tokens = _choice(tokens)
            assert tokens and tokens[0] == ")"
            tokens = tokens[1:]
        often = tokens[0] if tokens and tokens[0][0] in "*+?{" else ""
        tokens = tokens[1:] if often else tokens
        ways[-1].append(_Item(what, often))
    return _Choice(ways), tokens


class _Matching:
    def __init__(self, rules: dict[str, _Choice], text: str) -> None:
        self.rules, self.text = rules, text
        self.known: dict[tuple[int, int], Ends] = {}

    def of(self, choice: _Choice, at: int) -> Ends:
        """Where what begins here may end."""
        key = (id(choice), at)
        if key not in self.known:
            ways = [reduce(self._after, way, frozenset((at,))) for way in choice.ways]
            self.known[key] = frozenset().union(*ways)
        return self.known[key]

    def _after(self, starts: Ends, item: _Item) -> Ends:
        if item.often.startswith("{"):
            return self._so_often(starts, item)
        once = self._once(starts, item.what)
        if item.often in ("", "?"):
            return once | starts if item.often else once
        reached, new = once, once
        while new:
            new = self._once(new, item.what) - reached
            reached |= new
        return reached | starts if item.often == "*" else reached

    def _so_often(self, starts: Ends, item: _Item) -> Ends:
        least, most = map(int, item.often[1:-1].split(","))
        reached = starts if least == 0 else frozenset()
        for count in range(1, most + 1):
            starts = self._once(starts, item.what)
            reached |= starts if count >= least else frozenset()
        return reached

    def _once(self, starts: Ends, what: "str | _Choice") -> Ends:
        return frozenset().union(*(self._ends(what, start) for start in starts))

    def _ends(self, what: "str | _Choice", at: int) -> Ends:
        if isinstance(what, _Choice):
            return self.of(what, at)
        if what.startswith('"'):
            literal = _unescaped(what[1:-1])
            return frozenset((at + len(literal),)) if self.text.startswith(literal, at) else frozenset()
        if what.startswith("["):
            return frozenset((at + 1,)) if at < len(self.text) and _is_in(self.text[at], what) else frozenset()
        return self.of(self.rules[what], at)


def _is_in(char: str, characters: str) -> bool:
    inside = characters[1:-1]
    return (char in _unescaped(inside.removeprefix("^"))) is not inside.startswith("^")


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda escape: ESCAPES[escape[1]], text)
