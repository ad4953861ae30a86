"""Types that msgspec does not decode by itself.

Rule 1: a type that says itself how it is decoded and described is a `ForeignType`; msgspec calls it by two hooks.
Rule 2: a union that msgspec refuses, such as `date | str`, is tried from left to right.
Rule 3: pydantic decodes a type as a whole if it contains something of pydantic. Where pydantic cannot, msgspec decodes
the whole and pydantic its own models in it; not if that would drop what a field says to pydantic only.
"""

import dataclasses
import types
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from functools import cache, partial, reduce
from operator import or_
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

_LIBRARIES = ("pydantic", "annotated_types")
_MARKS = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_validator__")


class _TakesAll(ABCMeta):
    """msgspec compares what was decoded with the type; `decode` has judged it already."""

    def __instancecheck__(cls, value: object) -> bool:
        return True


class ForeignType(metaclass=_TakesAll):
    """A stand-in for a type in annotations that msgspec reads. `members` are the types of a union."""

    members: ClassVar[tuple[Any, ...]] = ()

    @classmethod
    @abstractmethod
    def decode(cls, value: Any) -> Any:
        """The argument of a decoded JSON value; raises `ValueError` with the fault."""

    @classmethod
    @abstractmethod
    def schema(cls) -> dict[str, Any]:
        """Its JSON Schema."""

    @classmethod
    def demands_more(cls) -> bool:
        """Whether it may refuse a value that fits the schema."""
        return True


def decode_json(text: str, type_: Any) -> Any:
    return msgspec.json.decode(text or "{}", type=type_, dec_hook=_decode_other)


def schemas_of(hints: list[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """The JSON schema of each type, and the definitions that they share."""
    return msgspec.json.schema_components(hints, schema_hook=_schema_of_other)


def require_decodable(hint: Any) -> None:
    """Raises what msgspec raises for a type that it cannot decode or describe."""
    schemas_of([hint])
    msgspec.json.Decoder(hint, dec_hook=_decode_other)


def prepare_type(hint: Any) -> Any:
    """The annotation as msgspec can read it; text in `Annotated` becomes a description."""
    if uses_pydantic(hint):
        try:
            return foreign_type_of(hint)
        except TypeError:
            if not _has_models_only(hint):
                raise
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[prepare_type(inner[0]), *map(_as_metadata, inner[1:])]
    if origin is Literal or not inner or not _is_container(origin):
        return hint
    prepared = tuple(each if each is ... else prepare_type(each) for each in inner)
    if origin in (Union, types.UnionType):
        return _union_of(prepared)
    return hint if prepared == inner else origin[prepared]


def uses_pydantic(hint: Any) -> bool:
    """Whether the annotation contains something of pydantic; finding out loads nothing."""
    return any(map(_is_of_pydantic, _parts_of(hint, set())))


def foreign_type_of(hint: Any) -> type[ForeignType]:
    """The type as pydantic decodes it; raises `TypeError` if pydantic cannot."""
    from interlock.adapters.value_types.pydantic_types import foreign_type

    return foreign_type(hint)


def _has_models_only(hint: Any) -> bool:
    """Whether all that is of pydantic in a type are models within it: msgspec leaves these to their own class."""
    found = [part for part in _parts_of(hint, set()) if _is_of_pydantic(part)]
    return all(part is not hint and hasattr(part, "model_validate") for part in found)


def _is_of_pydantic(part: Any) -> bool:
    kind = part if isinstance(part, type) else type(part)
    return kind.__module__.partition(".")[0] in _LIBRARIES or any(hasattr(kind, mark) for mark in _MARKS)


def _parts_of(hint: Any, seen: set[int]) -> Iterator[Any]:
    """The types and the metadata of an annotation, with those of the fields of plain classes in it."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    if get_origin(hint) is not None:
        for each in get_args(hint) if get_origin(hint) is not Literal else ():
            yield from _parts_of(each, seen)
        return
    yield hint
    if dataclasses.is_dataclass(hint) or is_typeddict(hint) or _is_named_tuple(hint):
        for each in _fields_of(hint):
            yield from _parts_of(each, seen)


def _fields_of(class_: Any) -> list[Any]:
    try:
        return list(get_type_hints(class_, include_extras=True).values())
    except Exception:  # annotations are code of the host; decoding says what is wrong with them
        return []


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _is_container(origin: Any) -> bool:
    """False for generic classes of the host, which msgspec reads by itself."""
    return origin in (Union, types.UnionType) or getattr(origin, "__module__", "") in ("builtins", "collections.abc")


def _as_metadata(extra: Any) -> Any:
    """Describes by a text, or by an object with a `documentation`, as PEP 727 has it."""
    said = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
    return msgspec.Meta(description=said) if isinstance(said, str) else extra


def _union_of(members: tuple[Any, ...]) -> Any:
    union = reduce(or_, members)
    try:
        require_decodable(union)
    except TypeError:
        for each in members:
            require_decodable(each)
        return _any_of(members)
    return union


def _any_of(union: tuple[Any, ...]) -> type[ForeignType]:
    decode_each = [partial(msgspec.convert, type=each, dec_hook=_decode_other) for each in union]

    class AnyOf(ForeignType):
        members = union

        @classmethod
        def decode(cls, value: Any) -> Any:
            faults: list[str] = []
            for convert in decode_each:
                try:
                    return convert(value)
                except (msgspec.ValidationError, ValueError, TypeError) as error:
                    faults.append(str(error))
            raise ValueError(" or ".join(dict.fromkeys(faults)))

        @classmethod
        def schema(cls) -> dict[str, Any]:
            described, definitions = schemas_of(list(union))
            return {"anyOf": list(described), **({"$defs": definitions} if definitions else {})}

    return AnyOf


def _decode_other(type_: Any, value: Any) -> Any:
    if issubclass(type_, ForeignType):
        return type_.decode(value)
    if issubclass(type_, PurePath):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
        return type_(value)
    return _pydantic_class(type_).decode(value)


@cache
def _pydantic_class(type_: type) -> type[ForeignType]:
    """A model of pydantic as a field of a class that msgspec reads."""
    return foreign_type_of(type_)


def _schema_of_other(type_: Any) -> dict[str, Any]:
    if issubclass(type_, ForeignType):
        described: dict[str, Any] = type_.schema()
        return described
    if issubclass(type_, PurePath):
        return {"type": "string", "format": "path"}
    if uses_pydantic(type_):
        return _pydantic_class(type_).schema()
    raise NotImplementedError  # msgspec asks for it: it then says itself that it cannot describe the type
