"""Numbers for people, in columns."""

from collections.abc import Iterator, Sequence

from interlock.engine.budgets.usage import CacheSavings
from interlock.engine.events import Usage

NOTHING = "-"
UNKNOWN_COST = "unknown"  # at least one call has no known price

USAGE_HEADS = ("calls", "tokens in", "cached", "tokens out", "cost")


def dollars(micros: int) -> str:
    return f"${micros / 1_000_000:,.4f}" if micros < 100_000_000 else f"${micros / 1_000_000:,.2f}"


def cost(usage: Usage) -> str:
    if usage.unpriced_calls:
        return UNKNOWN_COST
    return dollars(usage.cost_micros) if usage.cost_micros else NOTHING


def cache_share(usage: Usage) -> str:
    """The part of the input that was read from a cache."""
    if not usage.cache_read_tokens:
        return NOTHING
    # Rounded down: only what is cached as a whole is 100 %.
    return f"{usage.cache_read_tokens * 100 // max(usage.input_tokens, usage.cache_read_tokens)}%"


def savings_text(savings: CacheSavings | None) -> str:
    """What caching saved; None if nothing was cached."""
    if savings is None:
        return NOTHING
    if savings.unknown_calls:
        return UNKNOWN_COST
    return f"-{dollars(-savings.saved_micros)}" if savings.saved_micros < 0 else dollars(savings.saved_micros)


def usage_cells(usage: Usage) -> tuple[str, str, str, str, str]:
    tokens = f"{usage.input_tokens:,}", cache_share(usage), f"{usage.output_tokens:,}"
    return f"{usage.calls:,}", *tokens, cost(usage)


def align_columns(rows: Sequence[Sequence[str]], names: int) -> Iterator[str]:
    """Each row as a line; the first `names` columns are aligned left, the others right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if n < names else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
