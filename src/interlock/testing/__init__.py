"""Test doubles that ship with the package: for Interlock's own tests, and for the tests of its users.

Rule 1: a test double passes the contract tests of its port, refusals and order included.
Rule 2: nothing here waits for real time, or touches a disk.
"""

from interlock.adapters.models.scripted_model import ScriptedAnswer as Answer
from interlock.adapters.models.scripted_model import ScriptedModel, ScriptedReasoning
from interlock.adapters.models.scripted_model import ScriptedToolCall as ToolCall
from interlock.testing.manual_clock import ManualClock
from interlock.testing.memory_store import MemoryStore
from interlock.testing.simulation.faults import Faults, Injected, Violation
from interlock.testing.simulation.random_model import RandomModel
from interlock.testing.simulation.simulate import LawBroken, Simulation, simulate, simulate_many

__all__ = [
    "Answer",
    "Faults",
    "Injected",
    "LawBroken",
    "ManualClock",
    "MemoryStore",
    "RandomModel",
    "ScriptedModel",
    "ScriptedReasoning",
    "Simulation",
    "ToolCall",
    "Violation",
    "simulate",
    "simulate_many",
]
