"""The project's copy of the conformance cases, each run as it stands."""

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.broadcast import matches
from interlock.signals import (
    SignalDefinition,
    SignalError,
    SignalRegistry,
    SignalValidator,
    load_default_signals,
)

CASES = Path(__file__).parent / "conformance"


def cases(name: str) -> list[Any]:
    rows: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return [pytest.param(row, id=row.get("id") or f"{row['pattern']}~{row['type']}") for row in rows]


def registry_of(case: dict[str, Any]) -> SignalRegistry:
    if case["registry"] == "default":
        return load_default_signals()
    registry = SignalRegistry()
    registry.register_bulk(SignalDefinition(**fields) for fields in case["registry"])
    return registry


def refusal_of(case: dict[str, Any]) -> str | None:
    validator = SignalValidator(registry_of(case))
    try:
        if case["kind"] == "emission":
            validator.validate_signal_emission(case["signal"], case["agent"])
        else:
            validator.validate_signal_target(case["signal"], case["target"], case["agents"])
    except SignalError as error:
        return str(error)
    return None


@pytest.mark.parametrize("case", cases("signal_matching"))
def test_signal_matching(case: dict[str, Any]) -> None:
    validator = SignalValidator(load_default_signals())
    found = validator.validate_signal_in_content(case["signal"], case["content"])
    assert found == (case["match"], case["method"])


@pytest.mark.parametrize("case", cases("signal_validation"))
def test_signal_validation(case: dict[str, Any]) -> None:
    refusal = refusal_of(case)
    if case["ok"]:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.startswith(case["error_starts_with"])


@pytest.mark.parametrize("case", cases("broadcast_patterns"))
def test_broadcast_patterns(case: dict[str, Any]) -> None:
    assert matches(case["pattern"], case["type"]) is case["match"]
