"""An upper estimate of the tokens of a text, for checks and for runs, where no provider has counted them."""

# A token is rarely shorter than three bytes, so the estimate is on the safe side.
BYTES_PER_TOKEN = 3


def text_tokens(text: str) -> int:
    """An upper estimate."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)
