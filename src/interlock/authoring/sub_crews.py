"""Sub-crews as users give them: a `Crew`, or the path of a crew's file."""

import os
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.authoring.call_places import Spot
from interlock.authoring.python_nodes import Entry, NodeMaker, key_at, text_at
from interlock.authoring.routes import SubCrew
from interlock.crew.nodes import Mapping, Node, Scalar
from interlock.crew.problem import Problems
from interlock.ids import is_id

if TYPE_CHECKING:
    from interlock.authoring.crew import Crew


# Arguments of `SubCrew` that are keys of the entry under `sub_crews`, not of the route.
KEYS_OF_CALL = ("settings", "output")


@dataclass(frozen=True, slots=True)
class GivenSubCrew:
    """One entry under `sub_crews`: the crew itself, or a path and the folder that it starts from."""

    crew: "Crew | None"
    path: Path | None
    spot: Spot
    node: Node
    given: AnyMapping[str, object] = field(default_factory=dict)  # keys as given by the call


class GivenSubCrews:
    """The sub-crews of a crew, by their names in it."""

    def __init__(self, maker: NodeMaker, problems: Problems) -> None:
        self._maker, self._problems = maker, problems
        self.found: dict[str, GivenSubCrew] = {}
        self._unreadable: Node | None = None

    def section(self) -> Node | None:
        """The node of `sub_crews`; None if there are none."""
        if self._unreadable is not None or not self.found:
            return self._unreadable
        entries = ((key_at(name, given.spot), given.node) for name, given in self.found.items())
        first = next(iter(self.found.values()))
        return Mapping(tuple(entries), first.spot.place)

    def add_listed(self, listed: object, key: Spot, spot: Spot, *, written: Spot) -> None:
        """Adds the sub-crews of the argument `sub_crews`."""
        if listed is None:
            return
        if not isinstance(listed, AnyMapping):
            self._unreadable = self._maker.node(listed, spot)
            return
        self._maker.report_double_keys(spot)
        folder = folder_of(written.place.file)
        for (name, value), (at, inner) in zip(listed.items(), spot.entries(list(listed)), strict=True):
            self._add(str(name), value, folder, at, inner)

    def _add(self, name: str, value: object, folder: Path, at: Spot, spot: Spot) -> None:
        if not isinstance(value, AnyMapping):
            value = {"config_path": value}
            spot_of = {"config_path": (spot, spot)}
        else:
            spot_of = dict(zip(map(str, value), spot.entries(list(value)), strict=True))
        crew, place = as_crew(value.get("crew")), value.get("config_path")
        if crew is None:
            crew = as_crew(place)
        entries: list[Entry] = []
        if crew is not None and not isinstance(place, str | os.PathLike):
            entries.append((key_at("config_path", spot), text_at(name, spot)))
        for key, inner in value.items():
            key_spot, value_spot = spot_of[str(key)]
            if key == "config_path" and isinstance(inner, str | os.PathLike):
                below = _place_below(os.fspath(inner), name)
                entries.append((key_at(key, key_spot), self._maker.node(below, value_spot)))
            elif as_crew(inner) is None or key not in ("crew", "config_path"):
                entries.append((key_at(str(key), key_spot), self._maker.node(inner, value_spot)))
        path = folder / place if crew is None and isinstance(place, str | os.PathLike) else None
        self.found[name] = GivenSubCrew(crew, path, at, Mapping(tuple(entries), spot.place))

    def name_of(self, call: SubCrew) -> Scalar:
        """The name of the crew that is called; it is added if it is not there yet."""
        at = call.written_at.spot()
        spot = at.argument("crew", 0)[1]
        crew, stated = as_crew(call.first[0]), call.given.get("name")
        if crew is None and not isinstance(call.first[0], str | os.PathLike):
            return self._maker.scalar(call.first[0], spot)
        if stated is None:
            stated = self._name_for_call(crew, call.first[0])
        if isinstance(stated, str):
            self._add_call(stated, crew, call, at, spot)
        return self._maker.scalar(stated, spot)

    def name_of_crew(self, crew: "Crew", spot: Spot) -> Scalar:
        """The name of a crew that is given in place of one, such as a child that gets tasks."""
        name = self._name_for_call(crew, crew)
        if name not in self.found:
            entry = (key_at("config_path", spot), text_at(name, spot))
            self.found[name] = GivenSubCrew(crew, None, spot, Mapping((entry,), spot.place))
        return text_at(name, spot)

    def _name_for_call(self, crew: "Crew | None", value: object) -> str:
        if crew is not None:
            named = next((name for name, given in self.found.items() if given.crew is crew), None)
            return crew.name if named is None else named
        text = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
        return text if text in self.found else _last_part(text)

    def _add_call(self, name: str, crew: "Crew | None", call: SubCrew, at: Spot, spot: Spot) -> None:
        known = self.found.get(name)
        path = None
        entries: list[Entry] = []
        if crew is None:
            text = str(call.first[0])
            path = folder_of(call.written_at.file) / text
            if known is not None and (text == name or known.path == path):
                return
            if known is None and is_id(text) and not _is_file_name(text) and not os.path.lexists(path):
                return  # a name that nothing has: the checks report it as an unknown sub-crew
            entries.append((key_at("config_path", spot), text_at(_place_below(text, name), spot)))
        else:
            entries.append((key_at("config_path", spot), text_at(name, spot)))
        if known is not None:
            self._report_conflict(name, known, crew, call)
            return
        given = {key: value for key, value in call.given.items() if key in KEYS_OF_CALL}
        for key, value in given.items():
            key_spot, below = at.argument(key)
            entries.append((key_at(key, key_spot), self._maker.node(value, below)))
        self.found[name] = GivenSubCrew(crew, path, at, Mapping(tuple(entries), at.place), given)

    def _report_conflict(self, name: str, known: GivenSubCrew, crew: "Crew | None", call: SubCrew) -> None:
        """Reports a second call that says something else about the sub-crew than the first."""
        at = call.written_at.spot()
        if known.crew is not crew:
            message = f"two different sub-crews are called '{name}'"
            self._problems.add("name-clash", message, place=at.place, fix="give one of them another name")
            return
        for key, words in (("settings", "other settings"), ("output", "another output")):
            if key in call.given and call.given[key] != known.given.get(key):
                message = f"the sub-crew '{name}' has {words} in line {known.spot.place.line}"
                self._problems.add("duplicate-key", message, place=at.argument(key)[0].place, fix="write it once")


def folder_of(file: str) -> Path:
    """The folder of the user's file; the working folder where the code is not from a file."""
    return Path(file).parent if os.path.isfile(file) else Path.cwd()  # noqa: PTH113 - never raises


def as_crew(value: object) -> "Crew | None":
    from interlock.authoring.crew import Crew

    return value if isinstance(value, Crew) else None


def _place_below(path: str, name: str) -> str:
    """Where `save` writes the sub-crew: at its path, or by its name if the path leads out of the folder."""
    return name if Path(path).is_absolute() or ".." in Path(path).parts else path


def _is_file_name(text: str) -> bool:
    """True for what can only be a path: it ends as files of crews, or of Python, do."""
    return text.endswith((".yaml", ".yml", ".py"))


def _last_part(path: str) -> str:
    """The name of a sub-crew that is given by its path: that of the folder, or of the file without its ending."""
    parts = [part for part in Path(path).parts if part not in ("..", "/", "crew.yaml", "crew.yml")]
    return Path(parts[-1]).stem if parts and parts[-1].endswith((".yaml", ".yml")) else (parts or ["crew"])[-1]
