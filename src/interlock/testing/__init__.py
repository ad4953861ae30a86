"""Stand-ins that ship as a product: for Interlock's own tests, and for the tests of whoever builds on it.

Rule 1: a stand-in passes the contract tests of its port, refusals and order included.
Rule 2: nothing here waits for real time, or touches a disk.
"""

from interlock.adapters.models.scripted import Answer, ScriptedModel, ToolCall
from interlock.testing.faults import Faults, Injected, Violation
from interlock.testing.manual_clock import ManualClock
from interlock.testing.memory_store import MemoryStore
from interlock.testing.random_model import RandomModel
from interlock.testing.simulation import LawBroken, Simulation, simulate, simulate_many

__all__ = [
    "Answer",
    "Faults",
    "Injected",
    "LawBroken",
    "ManualClock",
    "MemoryStore",
    "RandomModel",
    "ScriptedModel",
    "Simulation",
    "ToolCall",
    "Violation",
    "simulate",
    "simulate_many",
]
