"""Runs every benchmark and writes bench/RESULTS.md, with the date and the machine.

Usage: python -m bench
"""

from pathlib import Path

from bench import check, engine, matching, models

RESULTS = Path(__file__).parent / "RESULTS.md"
BENCHMARKS = (matching, check, engine, models)

if __name__ == "__main__":
    pages = [benchmark.run() for benchmark in BENCHMARKS]
    text = "# Results\n\nWritten by `make bench`. CPU time is what counts; these machines are noisy.\n\n" + "\n\n".join(
        pages
    )
    RESULTS.write_text(text + "\n", "utf-8")
    print(text)
