"""Outputs are checked by their schema, then by their type; no type can hold up the process or end it."""

import asyncio
import sys
import threading
from typing import Any

import msgspec
import pytest

from interlock.adapters.value_types.output_types import OutputType
from interlock.adapters.value_types.output_validator import TypedOutputValidator
from interlock.ports import CrewRef
from tests.adapters.value_types.types_to_try import Crashing, Refund, Small

CREW = CrewRef("desk", "sha", "r")


def validator_with(hint: Any, **more: Any) -> tuple[TypedOutputValidator, dict[str, Any]]:
    type_ = OutputType(hint)
    return TypedOutputValidator(lambda crew, agent: type_ if agent == "clerk" else None, **more), type_.schema


async def test_the_schema_speaks_first_then_the_type_that_was_given_for_the_place() -> None:
    validator, schema = validator_with(Small)
    assert "amount" in await validator.fault_in(schema, {}, CREW, "clerk")
    assert "too much" in await validator.fault_in(schema, {"amount": 240}, CREW, "clerk")
    assert await validator.fault_in(schema, {"amount": 24}, CREW, "clerk") == ""
    assert await validator.fault_in(schema, {"amount": 240}, CREW) == "", "no type was given for the crew's output"


async def test_a_type_without_code_is_asked_in_place() -> None:
    validator, schema = validator_with(Refund)
    assert await validator.fault_in(schema, {"order": "A", "amount": 1}, CREW, "clerk") == ""


async def test_a_validator_that_raises_refuses_the_value() -> None:
    validator, schema = validator_with(Crashing)
    assert "KeyError" in await validator.fault_in(schema, {"amount": 1}, CREW, "clerk")


async def test_a_validator_that_hangs_refuses_the_value() -> None:
    end = threading.Event()

    class Hanging(msgspec.Struct):
        count: int

        def __post_init__(self) -> None:
            end.wait()

    validator, schema = validator_with(Hanging, seconds_max=0)
    try:
        fault = await asyncio.wait_for(validator.fault_in(schema, {"count": 1}, CREW, "clerk"), 30)
    finally:
        end.set()
    assert fault == "Hanging did not check it within 0 s"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
async def test_an_exit_in_a_validator_refuses_the_value_and_ends_nothing(error: type[BaseException]) -> None:
    class Leaving(msgspec.Struct):
        count: int

        def __post_init__(self) -> None:
            if error is SystemExit:
                sys.exit(3)
            raise error

    validator, schema = validator_with(Leaving)
    assert error.__name__ in await validator.fault_in(schema, {"count": 1}, CREW, "clerk")
