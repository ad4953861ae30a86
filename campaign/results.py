"""campaign/RESULTS.md: one part per campaign, each rewritten by its own command only."""

from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"


def put(part: str, file: Path = RESULTS) -> None:
    """Replaces the part that begins with the same heading, or adds it at the end."""
    heading = part.partition("\n")[0]
    before = file.read_text("utf-8") if file.exists() else ""
    parts = [f"# {text}" for text in f"\n{before}".split("\n# ")[1:]]
    kept = [part if each.startswith(f"{heading}\n") else each for each in parts]
    file.write_text("\n".join(each.strip("\n") + "\n" for each in (kept if part in kept else [*kept, part])), "utf-8")
