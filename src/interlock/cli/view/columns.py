"""Numbers for people, in columns."""

from collections.abc import Iterator, Sequence

from interlock.engine.events import Usage

NO_COST = "-"
UNKNOWN_COST = "unknown"  # at least one call has no known price

USAGE_HEADS = ("calls", "tokens in", "tokens out", "cost")


def dollars(micros: int) -> str:
    return f"${micros / 1_000_000:,.4f}" if micros < 100_000_000 else f"${micros / 1_000_000:,.2f}"


def cost(usage: Usage) -> str:
    if usage.unpriced_calls:
        return UNKNOWN_COST
    return dollars(usage.cost_micros) if usage.cost_micros else NO_COST


def usage_cells(usage: Usage) -> tuple[str, str, str, str]:
    return f"{usage.calls:,}", f"{usage.input_tokens:,}", f"{usage.output_tokens:,}", cost(usage)


def align_columns(rows: Sequence[Sequence[str]], names: int) -> Iterator[str]:
    """Each row as a line; the first `names` columns are aligned left, the others right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if n < names else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
