"""Tests that need more than Python."""

import os

import pytest


def needs(is_here: bool, reason: str) -> pytest.MarkDecorator:
    """Skips where something is not here and cannot be had; in CI nothing is skipped, and the test fails without it."""
    return pytest.mark.skipif(not is_here and not os.environ.get("CI"), reason=reason)
