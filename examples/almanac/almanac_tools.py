"""Tools of the almanac."""

from datetime import date


def weekday(day: str) -> str:
    """The day of the week of a date such as 2026-11-17."""
    return date.fromisoformat(day).strftime("%A")
