"""The cost of calls by the price table of the extra `llm`; it is a file, so no server is called.

Rule 1: only the provider's own prices count: another address, or another provider of the same model, has others.
Rule 2: money is counted in millionths of a dollar, rounded up.
"""

from decimal import ROUND_CEILING, Decimal

from interlock.adapters.models.pydantic_ai.other_providers import is_installed
from interlock.crew.definition import ModelRef
from interlock.engine.budgets.limits import MICROS
from interlock.engine.events import NO_USAGE, Usage

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
    return table_cost(model, NO_USAGE) is not None


def table_cost(model: ModelRef, usage: Usage, *, cached_for_1h: bool = False) -> int | None:
    """The cost in millionths of a dollar; None if the table has no price, or is not installed.

    `cached_for_1h`: what was written to the cache stays there for an hour, which costs more. A bucket for which the
    table has no price costs as the tokens that it is a part of.
    """
    if model.provider not in _NAMES or model.provider_url or not has_table():
        return None
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    counts = Counts(
        # The table refuses counts that contradict each other; a whole is at least as large as its parts.
        input_tokens=max(usage.input_tokens, read + written),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=written if cached_for_1h else 0,
        output_tokens=max(usage.output_tokens, usage.reasoning_tokens),
        output_reasoning_tokens=usage.reasoning_tokens,
    )
    try:
        price = calc_price(counts, model.model, provider_id=_NAMES[model.provider]).total_price
    except (LookupError, ValueError):  # an unknown model
        return None
    return int((Decimal(price) * MICROS).to_integral_value(ROUND_CEILING))
