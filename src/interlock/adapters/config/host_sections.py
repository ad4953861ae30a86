"""Sections of interlock.toml as structs. An error names the key and what to write instead.

Rule: a file contains no secret keys. If one is written in place of a variable's name, messages do not repeat it.
"""

import re
from typing import Any, TypeVar

import msgspec

from interlock.errors import UsageError, nearest

Section = TypeVar("Section", bound=msgspec.Struct)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"(?:sk|pk|rk|gsk|xai|hf|AIza)_?(?=\w*[0-9])[A-Za-z0-9_]{16,}")

# The errors of msgspec: the expected type, the actual one, and the place.
_MISFIT = re.compile(r"Expected `(?P<wanted>.*)`, got `(?P<got>.*?)`(?: - at `\$\.?(?P<place>.*)`)?")
_MISSING = re.compile(r"Object missing required field `(?P<key>.*?)`.*")
_SHAPES = {
    "array": 'a list, such as ["one", "two"]',
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "str": "text in quotes",
}


def section_of(where: str, entry: dict[str, Any], kind: type[Section]) -> Section:
    """Reads the section; raises `UsageError` with the fault."""
    if "key" in entry:
        raise UsageError(f"{where}.key: a file contains no keys; write key_env, the variable's name")
    known = kind.__struct_fields__
    for key in entry:
        if key not in known:
            advice = nearest(key, known, f"the keys are {', '.join(known)}")
            raise UsageError(f"{where}: unknown key '{key}'; {advice}")
    try:
        return msgspec.convert(entry, kind)
    except msgspec.ValidationError as error:
        raise UsageError(_misfit_message(where, str(error))) from error


def require_variable(where: str, name: str) -> None:
    """Raises `UsageError` if a value is not the name of a variable."""
    if not _VARIABLE.fullmatch(name) or _KEY.fullmatch(name):
        raise UsageError(f"{where} must be the name of an environment variable, such as OFFICE_KEY, not its value")


def _misfit_message(where: str, error: str) -> str:
    if (missing := _MISSING.fullmatch(error)) is not None:
        return f"{where}: the key '{missing['key']}' is missing; add it"
    found = _MISFIT.fullmatch(error)
    if found is None:
        return f"{where}: {error}"
    place = f"{where}.{found['place']}" if found["place"] else where
    words = [_SHAPES.get(word.strip(), word.strip()) for word in found["wanted"].split("|") if word.strip() != "null"]
    return f"{place} must be {' or '.join(words)}, got {found['got']}"
