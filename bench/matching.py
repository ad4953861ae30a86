"""Recognising signals: one pass over the reply, against a search of the reply for each signal."""

import random
from collections.abc import Iterator

from bench.harness import Measurement, machine, measure, measure_call, table, verdict
from interlock.signals import SignalMatcher

PROSE = """the agent looked at report and decided that question about weather needs more research before it can answer
user with final result kết thúc thi câu hỏi"""
WORDS = PROSE.split()
DECOYS = ("[1]", "[see docs](u)", "[x]", "[note](u)")

TEXT_SIZES = (1_000, 10_000, 100_000)
SIGNAL_COUNTS = (10, 100, 1_000)
CASES = ("end", "amid", "miss")
RATIO_GOAL = 1_000
GROWTH_GOAL = 1.5
HOSTILE_CHARS = 10_000_000
HOSTILE = ("[", "[END", "[END]", "[END](", "[END](x)", "](", "\\", "\\[", "`", "`a``b", "> [END]\n", "~~~\n", "- ")


def prose(size: int, last: str) -> str:
    """One line of words, with a decoy in brackets for every thousand characters, and `last` at its end."""
    chance = random.Random(1)
    words: list[str] = []
    length = decoys = 0
    while length < size - len(last) - 1:
        if length >= (decoys + 1) * min(1_000, size // 3):
            words.append(chance.choice(DECOYS))
            decoys += 1
        else:
            words.append(chance.choice(WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[: size - len(last) - 1] + " " + last


def seeds_way(signals: list[str], text: str) -> str | None:
    """Seed 001 section 2: up to three searches of the text for each signal, until one is found."""
    return next((signal for signal in signals if _contains(signal, text)), None)


def _contains(signal: str, text: str) -> bool:
    if signal in text or signal.lower() in text.lower():
        return True
    wanted = _normalize(signal)
    return any(_normalize(mark) == wanted for mark in _bracketed(text))


def _bracketed(text: str) -> Iterator[str]:
    start = text.find("[")
    while start >= 0 and (end := text.find("]", start)) >= 0:
        yield text[start : end + 1]
        start = text.find("[", end)


def _normalize(mark: str) -> str:
    return f"[{' '.join(mark.lower()[1:-1].split())}]"


def run() -> str:
    """Both ways, hit and miss, over sizes and numbers; then what an attacker would send."""
    costs = {
        (size, count, case): _both(size, count, case)
        for size in TEXT_SIZES
        for count in SIGNAL_COUNTS
        for case in CASES
    }
    rows = [
        [size, count, case, ours.cpu_us, ours.wall_us, theirs.cpu_us, theirs.wall_us, theirs.cpu_us / ours.cpu_us]
        for (size, count, case), (ours, theirs) in costs.items()
    ]
    heads = ["characters", "signals", "case", "ours CPU", "wall", "seed's CPU", "wall", "ratio"]
    return "\n".join(
        [
            "## Recognising signals",
            "",
            f"{machine()}. Microseconds a reply. The mark is in lower case and with spaces, "
            "at the end of the reply or amid it, or missing.",
            "",
            table(heads, rows),
            "",
            *_verdicts(costs),
            "",
            f"Hostile replies of {HOSTILE_CHARS:,} characters, one piece over and over, then `[END]`:",
            "",
            table(["piece", "ours CPU ms", "wall ms", "CPU ns a character"], [_hostile(piece) for piece in HOSTILE]),
        ]
    )


def _both(size: int, count: int, case: str) -> tuple[Measurement, Measurement]:
    # A space for the underscore is more than the seed's way forgives: it is given a name it can find.
    signals = [f"[SIGNAL {number:04d}]" for number in range(count)]
    mark = "[nope]" if case == "miss" else f"[ signal  {count - 1:04d} ]"
    text = f"{prose(size // 2, mark)} {prose(size // 2, '')}" if case == "amid" else prose(size, mark)
    matcher = SignalMatcher(signals)
    found = [match.signal for match in matcher.find(text)]
    assert found == ([] if case == "miss" else [signals[-1]]), "ours finds what is there"
    assert seeds_way(signals, text) == (found[0] if found else None), "both find the same"
    ours = measure_call(lambda: matcher.find(text))
    theirs = measure_call(lambda: seeds_way(signals, text), repeats=3)
    return ours, theirs


def _verdicts(costs: dict[tuple[int, int, str], tuple[Measurement, Measurement]]) -> list[str]:
    ratio = min(theirs.cpu_us / ours.cpu_us for ours, theirs in (costs[10_000, 1_000, case] for case in CASES))
    growth = max(
        costs[size, 1_000, case][0].cpu_us / costs[size, 10, case][0].cpu_us for size in TEXT_SIZES for case in CASES
    )
    return [
        verdict(
            f"at 10 KB and 1,000 signals at least {RATIO_GOAL:,} times less CPU",
            f"{ratio:,.0f} times (the worst of the three cases)",
            ratio >= RATIO_GOAL,
        ),
        verdict(
            f"from 10 to 1,000 signals the cost of a reply grows by at most {GROWTH_GOAL} times",
            f"{growth:.2f} times (the worst of all sizes and cases)",
            growth <= GROWTH_GOAL,
        ),
    ]


def _hostile(piece: str) -> list[object]:
    matcher = SignalMatcher(["[END]", "[END EXAM]"])
    text = piece * (HOSTILE_CHARS // len(piece)) + "[END]"
    cost = measure(lambda: matcher.find(text), repeats=1)
    shown = repr(piece)[1:-1].replace("|", "\\|")
    return [f"`` {shown} ``", cost.cpu_us / 1e3, cost.wall_us / 1e3, cost.cpu_us * 1e3 / len(text)]


if __name__ == "__main__":
    print(run())
