"""Signals: marks inside a reply that route this run. PURE."""

from interlock.errors import SignalError
from interlock.signals.builtin import load_default_signals
from interlock.signals.definition import SignalBehavior, SignalDefinition, is_signal_name
from interlock.signals.matching import Match, MatchMethod, SignalMatcher
from interlock.signals.registry import SignalRegistry
from interlock.signals.validation import SignalValidator

__all__ = [
    "Match",
    "MatchMethod",
    "SignalBehavior",
    "SignalDefinition",
    "SignalError",
    "SignalMatcher",
    "SignalRegistry",
    "SignalValidator",
    "is_signal_name",
    "load_default_signals",
]
