"""The signals a crew knows: the built-in ones, its own, and those its routes declare."""

from interlock.crew.definition import Crew
from interlock.signals.builtin import load_default_signals
from interlock.signals.definition import SignalDefinition
from interlock.signals.registry import SignalRegistry


def registry_of(crew: Crew) -> SignalRegistry:
    registry = load_default_signals()
    registry.register_bulk(crew.signals, replace=True)
    for routes in crew.routes.values():
        for route in routes:
            if not registry.exists(route.signal):
                registry.register(
                    SignalDefinition(name=route.signal, behavior=route.behavior, description=route.description)
                )
    return registry


def registry_of_tree(crew: Crew) -> SignalRegistry:
    """With those of the crews that it calls; where two know the same name, the outer one's counts."""
    registry = registry_of(crew)
    for inner in crew.whole_tree():
        registry.register_bulk(known for known in registry_of(inner).all() if not registry.exists(known.name))
    return registry
