"""What a mark can lead to, as users write it: `Route`, `Group`, `SubCrew`, `Pause`, `External`, `Broadcast`, `END`.

Rule: nothing is checked here. The crew that gets these objects checks them all at once, like a file.
"""

import os
from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from interlock.authoring.call_places import CallPlace, place_of_caller

if TYPE_CHECKING:
    from interlock.authoring.agent import Agent
    from interlock.authoring.crew import Crew

Behavior = Literal["route", "terminate", "pause", "parallel", "broadcast", "external", "sub_crew"]
OnError = Literal["continue", "fail"]
type_ = type  # a key of routes has this name too


class End:
    """The type of `END`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "END"


END: Final = End()
"""The mark ends the run."""


class Written:
    """An object that the user wrote, with the place of its call and the keys that were given."""

    __slots__ = ("first", "given", "written_at")

    positions: ClassVar[tuple[str, ...]] = ()  # the keys that may be given without their names, in order

    first: tuple[object, ...]  # arguments without a name
    given: dict[str, object]
    written_at: CallPlace

    def _write(self, *first: object, **given: object) -> None:
        """Keeps the arguments that were given. Called by `__init__` only: the user's call is two frames up."""
        self.written_at = place_of_caller(1)
        self.first = first
        self.given = {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in self.given.items())
        return f"{type(self).__name__}({', '.join((*map(repr, self.first), *given))})"


class Route(Written):
    """A mark that leads to an agent, a group of agents or `END`, with the keys of a route in a file."""

    __slots__ = ()
    positions = ("target",)

    def __init__(
        self,
        target: "Agent | Group | str | End | None" = None,
        *,
        priority: int | None = None,
        description: str | None = None,
        takes: "type_ | UnionType | Mapping[str, object] | None" = None,
        type: Behavior | None = None,  # noqa: A002 - the file's name
    ) -> None:
        self._write(target=target, priority=priority, description=description, takes=takes, type=type)


class Group(Written):
    """Agents that work in parallel. `then` (the file's `next_agent`) gets their replies.

    Without a name it is called by the agent and the mark that start it.
    """

    __slots__ = ()

    def __init__(
        self,
        *agents: "Agent | str",
        name: str | None = None,
        then: "Agent | str | None" = None,
        wait_for_all: bool | None = None,
        timeout_seconds: float | None = None,
        on_error: OnError | None = None,
        description: str | None = None,
    ) -> None:
        self._write(
            *agents,
            name=name,
            then=then,
            wait_for_all=wait_for_all,
            timeout_seconds=timeout_seconds,
            on_error=on_error,
            description=description,
        )


class SubCrew(Written):
    """Another crew that is called: a `Crew`, the path of a crew's file, or a name under the crew's `sub_crews`.

    A path is relative to the folder of the file that makes this call. `name` is the name in this crew: that of the
    other crew unless given. `settings` are limits for it that are tighter than its own. `output` is what this crew
    expects of it, a type or a JSON Schema.
    """

    __slots__ = ()
    positions = ("crew", "return_to", "input_template", "on_error", "context", "priority")

    def __init__(
        self,
        crew: "Crew | str | os.PathLike[str]",
        return_to: "Agent | str | None" = None,
        input_template: str | None = None,
        on_error: "Agent | str | None" = None,
        context: Mapping[str, int | str] | None = None,
        priority: int | None = None,
        *,
        description: str | None = None,
        name: str | None = None,
        settings: Mapping[str, int | float] | None = None,
        output: type | UnionType | Mapping[str, object] | None = None,
    ) -> None:
        self._write(
            crew,
            return_to=return_to,
            input_template=input_template,
            on_error=on_error,
            context=context,
            priority=priority,
            description=description,
            name=name,
            settings=settings,
            output=output,
        )


class Pause(Written):
    """The run waits for a person. The answer goes to `target`, or to the agent that paused."""

    __slots__ = ()
    positions = ("target",)

    def __init__(
        self, target: "Agent | str | None" = None, *, priority: int | None = None, description: str | None = None
    ) -> None:
        self._write(target=target, priority=priority, description=description)


class External(Written):
    """The mark is sent to the host's webhook or program; with `pause` the run waits for the answer."""

    __slots__ = ()
    positions = ("pause",)

    def __init__(self, pause: bool = False, *, priority: int | None = None, description: str | None = None) -> None:
        self._write(pause=pause, priority=priority, description=description)


class BroadcastRoute(Written):
    """The mark notifies these agents; control stays where it is."""

    __slots__ = ()

    def __init__(self, *targets: "Agent | str", priority: int | None = None, description: str | None = None) -> None:
        self._write(*targets, priority=priority, description=description)


# The name that users write. The class has another one, since an announcement on the bus is a `Broadcast` too.
Broadcast = BroadcastRoute
