"""Types of Python as outputs of agents and crews.

Rule 1: a type is described and decoded as the arguments of tools are; there is no second reading of types.
Rule 2: JSON has one kind of number: 24.0 is a whole number, as JSON Schema has it.
Rule 3: nothing that a type of the host raises leaves this module but a `ValueError` with one line.
"""

from collections.abc import Mapping
from typing import Any, NewType, get_origin

import msgspec

from interlock.adapters.value_types.foreign_types import decode_json, prepare_type, require_decodable, schemas_of
from interlock.adapters.value_types.schema_definitions import merge_definitions
from interlock.adapters.value_types.type_demands import demands_more

# Integers that a float holds exactly.
_EXACT_MAX = 2.0**53


def is_output_type(value: object) -> bool:
    """True for a type, a union of types, or a generic such as `list[int]`."""
    return isinstance(value, type | NewType) or get_origin(value) is not None


class OutputType:
    """A type as an output; raises `TypeError` for a type that JSON cannot represent.

    `demands_more`: it may refuse a value that fits its schema.
    """

    def __init__(self, hint: Any) -> None:
        self.name = str(hint) if get_origin(hint) is not None else getattr(hint, "__name__", str(hint))
        self.hint, self._type = hint, prepare_type(hint)
        require_decodable(self._type)
        (body,), definitions = schemas_of([self._type])
        self.schema = merge_definitions(body, definitions)
        self.demands_more = demands_more(self._type)

    def decode(self, value: Any) -> Any:
        """A plain value as a value of the type; raises `ValueError` if the type refuses it."""
        try:
            return decode_json(msgspec.json.encode(_with_whole_numbers(value)).decode(), self._type)
        except ValueError as error:  # the errors of msgspec and of pydantic are of this class
            raise ValueError(_one_line(error)) from error
        except Exception as error:  # a validator is code of the host and may fail in any way
            raise ValueError(_one_line(f"{self.name} could not check it: {type(error).__name__}: {error}")) from error

    def fault_in(self, value: Any) -> str:
        """What the type refuses about the value; empty if it takes it."""
        try:
            self.decode(value)
        except ValueError as error:
            return str(error) or f"{self.name} refuses it"
        return ""


# The types that were given as outputs, by the place of the output: `output_place`.
OutputTypes = Mapping[str, OutputType]


def output_place(crew: str, agent: str = "") -> str:
    """The name of the output of a crew, or of that of one of its agents, as people and `HostNeeds` read it."""
    return f"{crew}/{agent}" if agent else crew


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_MAX:
        return int(value)
    if isinstance(value, dict):
        return {key: _with_whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in value]
    return value


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
