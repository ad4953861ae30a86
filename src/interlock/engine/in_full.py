"""Values as plain JSON values with every field, also those the journal leaves out because they hold their default."""

from typing import Any

import msgspec


def in_full(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        fields = ((name, getattr(value, field)) for field, name in names)
        return {name: in_full(each) for name, each in fields if each is not msgspec.UNSET}
    if isinstance(value, tuple | list):
        return [in_full(each) for each in value]
    if isinstance(value, dict):
        return {key: in_full(each) for key, each in value.items()}
    return msgspec.to_builtins(value)
