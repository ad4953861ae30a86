"""Values that are types of pydantic. The only module for types that loads it, so it is imported on use.

Rule 1: pydantic's own rules apply to its types, its conversions included.
Rule 2: its errors stop here, as one line.
"""

from typing import Annotated, Any, cast

import msgspec
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from interlock.adapters.value_types.foreign_types import ForeignType
from interlock.adapters.value_types.pydantic_demands import core_demands_more

# A model corrects the first faults; a longer list does not help it.
FAULTS_MAX = 3


def foreign_type(hint: Any) -> type[ForeignType]:
    """A type that pydantic decodes and describes; raises `TypeError` if pydantic cannot."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema()
    except (PydanticUserError, NameError) as error:
        raise TypeError(str(error).partition("\n")[0]) from error

    class PydanticType(ForeignType):
        @classmethod
        def decode(cls, value: Any) -> Any:
            try:
                return adapter.validate_json(msgspec.json.encode(value))
            except ValidationError as error:
                raise ValueError(_faults_of(error)) from error

        @classmethod
        def schema(cls) -> dict[str, Any]:
            return schema

        @classmethod
        def demands_more(cls) -> bool:
            return core_demands_more(adapter.core_schema)

    return PydanticType


def is_field(default: Any) -> bool:
    """True if the default of a parameter is a `Field(...)`."""
    return isinstance(default, FieldInfo)


def with_field(hint: Any, field: Any) -> Any:
    return Annotated[hint, field]


def is_required(field: Any) -> bool:
    return cast(FieldInfo, field).is_required()


def default_of(field: Any) -> Any:
    """The default value; that of a factory is new each time."""
    return cast(FieldInfo, field).get_default(call_default_factory=True, validated_data={})


def dump_model(value: Any) -> Any:
    assert isinstance(value, BaseModel), "pydantic's dataclasses are encoded as dataclasses"
    return value.model_dump(mode="json")


def _faults_of(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    said = [_fault(".".join(map(str, fault["loc"])), fault["msg"]) for fault in faults[:FAULTS_MAX]]
    more = f"; {len(faults) - FAULTS_MAX} more" if len(faults) > FAULTS_MAX else ""
    return "; ".join(said) + more


def _fault(place: str, message: str) -> str:
    return f"{place}: {message}" if place else message
