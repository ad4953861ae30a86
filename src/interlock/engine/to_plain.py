"""Values as plain JSON values with every field, including defaults that the journal omits."""

from typing import Any

import msgspec


def to_plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        fields = ((name, getattr(value, field)) for field, name in names)
        return {name: to_plain(each) for name, each in fields if each is not msgspec.UNSET}
    if isinstance(value, tuple | list):
        return [to_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: to_plain(each) for key, each in value.items()}
    return msgspec.to_builtins(value)
