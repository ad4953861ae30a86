"""Annotated arguments, a literal type, and a default."""

from typing import Annotated, Literal

Currency = Literal["EUR", "USD"]


def exchange(
    amount: Annotated[float, "Amount in the base currency"],
    base: Annotated[Currency, "Base currency"] = "EUR",
    quote: Annotated[Currency, "Quote currency"] = "USD",
) -> str:
    """Currency exchange calculator."""
    return f"{amount * (1.25 if (base, quote) == ('EUR', 'USD') else 1):.2f} {quote}"


TOOLS = [exchange]
