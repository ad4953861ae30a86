"""Rows of the live view: text that fits the width, without control characters.

Rule 1: every row is made by `row`, which makes its text safe; nothing here reads markup.
"""

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from interlock.cli.crew_argument import safe_line

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_MS = 125

# Per piece of a row; a terminal has fewer columns, but a piece may hold characters without width.
PIECE_CHARS_MAX = 1_000

# Per line of the transcript: as much as the largest screen holds.
LINE_CHARS_MAX = 10_000

Piece = tuple[str, str]


def row(width: int, *pieces: Piece) -> Text:
    """Styled text on one line, cut to the width."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for words, style in pieces:
        text.append(safe_line(words[:PIECE_CHARS_MAX]), style)
    text.truncate(max(0, width), overflow="ellipsis")
    return text


def rule(width: int, title: str) -> Text:
    lead = f"── {title} "
    return row(width, (lead + "─" * (width - len(lead)), "dim"))


def spinner(now_ms: int) -> str:
    return FRAMES[now_ms // FRAME_MS % len(FRAMES)]


def fit_width(words: str, width: int) -> str:
    """The text cut or padded to a width, for columns."""
    safe = safe_line(words[:PIECE_CHARS_MAX])
    return set_cell_size(safe, width) if cell_len(safe) <= width else set_cell_size(safe, max(0, width - 1)) + "…"


def tail_of(words: str, width: int) -> str:
    """The end of a text that is still growing, on one line."""
    safe = safe_line(" ".join(words.split()))[-PIECE_CHARS_MAX:]
    if cell_len(safe) <= width:
        return safe
    safe = safe[-max(0, width - 1) :] if width > 1 else ""
    while cell_len(safe) > width - 1 and safe:
        safe = safe[1:]
    return f"…{safe}" if width > 0 else ""


def wrap_words(words: str, width: int) -> Iterator[str]:
    """The text wrapped between words, and inside words that are longer than a line."""
    lead = words[: len(words) - len(words.lstrip())]
    room = max(2, width - cell_len(lead))
    line = lead
    for piece in (piece for word in words[:LINE_CHARS_MAX].split() for piece in chop_cells(word, room)):
        if line.strip() and cell_len(line) + cell_len(piece) + 1 > width:
            yield line
            line = lead
        line = f"{line} {piece}" if line.strip() else line + piece
    yield line


def duration_text(elapsed_ms: int) -> str:
    if elapsed_ms < 60_000:
        return f"{max(0, elapsed_ms) / 1000:.1f} s"
    minutes, left = divmod(elapsed_ms // 1000, 60)
    return f"{minutes} min {left:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
