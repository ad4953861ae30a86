"""The signals a crew knows: the built-in ones, its own, and those its routes declare."""

from interlock.crew.definition import CrewDefinition
from interlock.signals.builtin import load_default_signals
from interlock.signals.definition import SignalDefinition
from interlock.signals.registry import SignalRegistry


def registry_of(crew: CrewDefinition) -> SignalRegistry:
    registry = load_default_signals()
    registry.register_bulk(crew.signals, replace=True)
    for routes in crew.routes.values():
        for route in routes:
            if not registry.exists(route.signal):
                registry.register(
                    SignalDefinition(name=route.signal, behavior=route.behavior, description=route.description)
                )
    return registry
