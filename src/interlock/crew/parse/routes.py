"""Routes, from the entries under `routing.signals`, each with an explicit behaviour."""

from typing import Any

from interlock.crew.definition import (
    CrewSettings,
    GroupDefinition,
    HistoryShare,
    RouteDefinition,
)
from interlock.crew.nodes import Mapping, Path
from interlock.crew.problem import Severity
from interlock.crew.shapes import Values
from interlock.crew.source import ProblemReporter
from interlock.signals.builtin import BUILT_IN, STATUS_SIGNALS
from interlock.signals.definition import PRIORITY_BY_BEHAVIOR, SignalBehavior, SignalDefinition

BUILT_IN_BY_NAME = {definition.name: definition for definition in BUILT_IN}


class RouteParser:
    """Turns the entries under routing.signals into routes whose behaviour is explicit."""

    def __init__(
        self,
        agents: set[str],
        groups: dict[str, GroupDefinition],
        signals: tuple[SignalDefinition, ...],
        settings: CrewSettings,
        report: ProblemReporter,
    ) -> None:
        self.agents, self.groups, self.report = agents, groups, report
        self.own = {definition.name: definition for definition in signals}
        self.inferred = settings.signal_registration == "inferred"
        self.unstated: set[str] = set()
        self.is_versioned = True
        self.acknowledging = False

    def parse_routes(self, agent: str, entries: tuple[Values, ...]) -> tuple[RouteDefinition, ...]:
        written = self.report.source.root.get("routing")
        assert isinstance(written, Mapping), "there are entries, so there is routing"
        count = len(getattr(_node_under(written, "signals", agent), "items", ()))
        readable = [entry for entry in entries if "signal" in entry]
        if len(readable) < count:
            self.report.source.unclear.add(agent)
        self.report.source.routes[agent] = [entry.path for entry in readable]
        return tuple(self._route(agent, entry) for entry in readable)

    def _route(self, agent: str, entry: Values) -> RouteDefinition:
        path, signal = entry.path, entry.pop("signal")
        own, built_in = self.own.get(signal), BUILT_IN_BY_NAME.get(signal)
        definition = own or built_in
        target = entry.pop("target", "")
        stated = entry.pop("type", None)
        if not target and definition and stated != SignalBehavior.TERMINATE:
            target = definition.default_target
        members = entry.pop("parallel_targets", None)
        behavior, acknowledges = self._behavior(stated, members, signal, target, path)
        priority = entry.pop("priority", definition.priority if definition else None)
        if priority is None:
            priority = PRIORITY_BY_BEHAVIOR[behavior]
        if members is not None:
            target = self._add_unnamed_group(agent, signal, members)
        elif behavior is SignalBehavior.ROUTE and target in self.groups:
            behavior = SignalBehavior.PARALLEL
        if "context" in entry:
            entry["context"] = HistoryShare(**entry["context"])
        return RouteDefinition(
            signal=signal,
            behavior=behavior,
            priority=priority,
            target=target,
            acknowledges=acknowledges,
            **entry,
        )

    def _behavior(
        self, stated: str | None, members: Any, signal: str, target: str, path: Path
    ) -> tuple[SignalBehavior, bool]:
        if members is not None:
            return SignalBehavior.PARALLEL, False
        if stated is not None:
            return SignalBehavior(stated), False
        if signal in self.own and signal not in self.unstated:
            return SignalBehavior(self.own[signal].behavior), False
        if signal in BUILT_IN_BY_NAME:
            return self._builtin_behavior(signal, target, path)
        return self._infer_behavior(signal, target, path), False

    def _builtin_behavior(self, signal: str, target: str, path: Path) -> tuple[SignalBehavior, bool]:
        behavior = SignalBehavior(BUILT_IN_BY_NAME[signal].behavior)
        if self.inferred and behavior is SignalBehavior.TERMINATE and target in self.agents | self.groups.keys():
            self._add_note(
                path,
                "wrong-target",
                f"built-in '{signal}' ends a run; here its target '{target}' makes it a route",
                f"write {self.report.source.type_words(SignalBehavior.ROUTE)} to make that explicit",
            )
            return SignalBehavior.ROUTE, False
        if (
            self.acknowledging
            and behavior is SignalBehavior.ROUTE
            and not target
            and not self._is_type_unreadable(path)
        ):
            self.report.add_at(
                (*path, "signal"),
                "wrong-target",
                f"'{signal}' has no target: it is recorded, but does not change the flow",
                "add a target if it should lead to an agent",
                Severity.NOTE if signal in STATUS_SIGNALS else Severity.WARNING,
            )
            return behavior, True
        return behavior, False

    def _infer_behavior(self, signal: str, target: str, path: Path) -> SignalBehavior:
        behavior = SignalBehavior.ROUTE if target else SignalBehavior.TERMINATE
        if target in self.groups:
            behavior = SignalBehavior.PARALLEL
        if signal in self.unstated or not self.is_versioned or self._is_type_unreadable(path):
            return behavior  # declared, or the part that tells could not be read
        if self.inferred:
            self._add_note(
                path,
                "unregistered-signal",
                f"signal '{signal}' is registered from this route, as {behavior}",
                f"write {self.report.source.type_words(behavior)} to make that explicit",
            )
        else:
            words = self.report.source.type_words(self._hint(path, behavior))
            self.report.add_at(
                (*path, "signal"),
                "unregistered-signal",
                f"signal '{signal}' is not registered (unknown signal)",
                f"define it under signals, or state its type here: {words}",
            )
        return behavior

    def _is_type_unreadable(self, path: Path) -> bool:
        return self.report.source.is_written((*path, "type"))

    def _hint(self, path: Path, behavior: SignalBehavior) -> str:
        """The type that the other keys of the route imply."""
        asked = {"target_crew": "sub_crew", "targets": "broadcast", "pause": "external"}
        written = self.report.source.is_written
        return next((kind for key, kind in asked.items() if written((*path, key))), str(behavior))

    def _add_note(self, path: Path, code: str, message: str, fix: str) -> None:
        self.report.add_at((*path, "signal"), code, message, fix, Severity.NOTE)

    def _add_unnamed_group(self, agent: str, signal: str, members: tuple[str, ...]) -> str:
        name = f"{agent}:{signal}"
        self.groups.setdefault(name, GroupDefinition(name=name, agents=members, unnamed=True))
        return name


def _node_under(node: Any, *names: str) -> Any:
    for name in names:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node
