"""The eleven built-in signals of every crew. A crew may override any of them under `signals`."""

from interlock.signals.definition import SignalBehavior, SignalDefinition
from interlock.signals.registry import SignalRegistry

_TERMINATE, _ROUTE, _PAUSE = SignalBehavior.TERMINATE, SignalBehavior.ROUTE, SignalBehavior.PAUSE

BUILT_IN = tuple(
    SignalDefinition(name=name, behavior=behavior, priority=priority, description=description, example=example)
    for name, behavior, priority, description, example in (
        ("[END]", _TERMINATE, 100, "Generic workflow termination", "Task complete. [END]"),
        ("[END_EXAM]", _TERMINATE, 100, "Terminates exam workflow", "That was the last question. [END_EXAM]"),
        ("[DONE]", _TERMINATE, 100, "Task completion", "Everything is filed. [DONE]"),
        ("[STOP]", _TERMINATE, 110, "Immediate stop (high priority)", "This must not go on. [STOP]"),
        ("[NEXT]", _ROUTE, 50, "Route to next agent", "My part is finished. [NEXT]"),
        ("[QUESTION]", _ROUTE, 50, "Route to question handler", "What is 2+2? [QUESTION]"),
        ("[ANSWER]", _ROUTE, 50, "Route to answer handler", "It is 4. [ANSWER]"),
        ("[OK]", _ROUTE, 30, "Acknowledgment", "Noted. [OK]"),
        ("[ERROR]", _ROUTE, 90, "Error occurred (high priority)", "The file is missing. [ERROR]"),
        ("[RETRY]", _ROUTE, 70, "Retry operation", "That timed out. [RETRY]"),
        ("[WAIT]", _PAUSE, 80, "Pause and wait for input", "Which city do you mean? [WAIT]"),
    )
)

# Signals of seed 000 that report a status: files may route them without a target.
STATUS_SIGNALS = ("[OK]", "[ERROR]", "[RETRY]")


def load_default_signals() -> SignalRegistry:
    """A new registry with the built-in signals; adding to it changes no other."""
    registry = SignalRegistry()
    registry.register_bulk(BUILT_IN)
    return registry
