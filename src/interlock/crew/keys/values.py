"""Values that many keys share."""

from interlock.crew.shapes import Anything, Key, Number, Text
from interlock.signals.definition import PRIORITY_MAX, SignalBehavior

ANY_TEXT = Text(blank=True)
COUNT = Number(least=1, most=1e9, whole=True)
SECONDS = Number(above=True, most=31_536_000)
MONEY = Number(most=1e9)
PRIORITY = Number(most=PRIORITY_MAX, whole=True)
SHARE_OF_ONE = Number(above=True, most=1)
BEHAVIORS = Text(options=tuple(SignalBehavior))
OLD_INNARDS = "it configured internals of the old program"


def legacy_key(name: str, reason: str) -> Key:
    return Key(name, Anything(), "Kept so that old files load.", legacy=reason)
