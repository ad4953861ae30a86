"""The cost of calls by the price table of the extra `llm`; it is a file, so no server is called.

Rule 1: only the provider's own prices count: another address, or another provider of the same model, has others.
Rule 2: money is counted in millionths of a dollar, rounded up.
"""

from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from interlock.adapters.models.pydantic_ai.other_providers import is_installed
from interlock.crew.definition import ModelRef
from interlock.engine.budgets.limits import MICROS

if TYPE_CHECKING:
    from genai_prices.types import AbstractUsage

TABLE = "genai_prices"

# The table's names of providers. It guesses others, so only these are looked up.
_NAMES = {
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "aws",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "gemini": "google",
    "google": "google",
    "groq": "groq",
    "mistral": "mistral",
    "openai": "openai",
    "openrouter": "openrouter",
    "together": "together",
    "xai": "x-ai",
}


def has_table() -> bool:
    return is_installed(TABLE)


def is_priced(model: ModelRef) -> bool:
    return table_cost(model, 0, 0) is not None


def table_cost(model: ModelRef, input_tokens: int, output_tokens: int) -> int | None:
    """The cost in millionths of a dollar; None if the table has no price, or is not installed."""
    if not may_be_priced(model):
        return None
    from genai_prices import Usage

    return cost_of_usage(model, Usage(input_tokens=input_tokens, output_tokens=output_tokens))


def may_be_priced(model: ModelRef) -> bool:
    return model.provider in _NAMES and not model.provider_url and has_table()


def cost_of_usage(model: ModelRef, usage: "AbstractUsage") -> int | None:
    """The cost, including tokens that the provider counts separately, such as cached ones."""
    from genai_prices import calc_price

    try:
        price = calc_price(usage, model.model, provider_id=_NAMES[model.provider]).total_price
    except (LookupError, ValueError):  # an unknown model, or counts that contradict each other
        return None
    return int((Decimal(price) * MICROS).to_integral_value(ROUND_CEILING))
