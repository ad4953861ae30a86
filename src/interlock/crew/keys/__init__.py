"""Every key of a crew file and of an agent file: its shape and what it is for.

The reader, the JSON Schema and the reference are all made from these tables, so they always agree.
"""

from interlock.crew.keys.agents import AGENT, MODEL_SETTINGS
from interlock.crew.keys.crew import CREW
from interlock.crew.keys.routing import KEYS_OF_BEHAVIOR, ROUTING
from interlock.crew.keys.settings import SETTINGS, STRICT_SETTINGS

__all__ = ["AGENT", "CREW", "KEYS_OF_BEHAVIOR", "MODEL_SETTINGS", "ROUTING", "SETTINGS", "STRICT_SETTINGS"]
