"""How many tokens a text is at most, where no provider has counted them: one estimate for checks and for runs."""

# A token is rarely shorter than three bytes; taking it so keeps the estimate on the safe side.
BYTES_PER_TOKEN = 3


def text_tokens(text: str) -> int:
    """An upper estimate."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)
