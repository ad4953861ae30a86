"""What every event has: its run, its place in the journal, and its plain form.

Rule 1: a field without a default is in every plain event of its type; one with a default is left out while it has it.
Rule 2: `to_dict` gives the dictionary that `--json`, SSE and `GET …/events` show for the same event.
"""

from typing import Any

import msgspec

from interlock.engine.to_plain import to_plain


class PublicStruct(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """An event of a run. `path` names the sub-crews down to its run, if that is below the run that is followed."""

    run: str
    path: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """The type of the event, such as `run.started`."""
        return str(self.__struct_config__.tag)

    def to_dict(self) -> dict[str, Any]:
        """The event as a dictionary of plain values, as the commands and the server show it."""
        shown: dict[str, Any] = {"type": self.type}
        for field in msgspec.structs.fields(type(self)):
            value = getattr(self, field.name)
            if field.required or value != _default_of(field):
                shown[field.encode_name] = to_plain(value)
        return shown


class StoredEvent(PublicStruct, frozen=True, kw_only=True):
    """An event of the journal: `seq` is its number in its run, `at` its time in milliseconds."""

    seq: int
    at: int


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event of a type that this version does not know; `fields` holds all of it."""

    fields: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))

    @property
    def run(self) -> str:
        return str(self.fields.get("run", ""))

    def to_dict(self) -> dict[str, Any]:
        return dict(self.fields)


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
