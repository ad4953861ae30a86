"""Measures the check of a crew: reading its file, parsing, and every rule, as the crew grows."""

import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path

from bench.harness import Measurement, machine, measure, table, verdict
from interlock.adapters.crews.crew_files import read_crew

SIZES = (250, 500, 1_000)
ROUTES_PER_AGENT = 5


def crew_text(agents: int) -> str:
    """A ring of agents with shortcuts: every agent is reached, and every one can get to the ending."""
    ids = ", ".join(f"{{id: a{n}}}" for n in range(agents))
    lines = ['version: "2.0"', "name: ring", "entry_point: a0", f"agents: [{ids}]", "routing:", "  signals:"]
    for n in range(agents):
        hops = (1, 7, 31, 101)
        routes = [f'{{signal: "[S{k}]", target: a{(n + hop) % agents}, type: route}}' for k, hop in enumerate(hops)]
        lines.append(f'    a{n}: [{", ".join(routes)}, {{signal: "[END]"}}]')
    return "\n".join(lines) + "\n"


def run() -> str:
    rows: list[tuple[str, Measurement]] = []
    with tempfile.TemporaryDirectory() as folder:
        for agents in SIZES:
            file = Path(folder) / f"{agents}.yaml"
            file.write_text(crew_text(agents))
            loaded = read_crew(file)
            assert loaded.is_sound, loaded.problems[:3]
            name = f"{agents} agents, {agents * ROUTES_PER_AGENT} routes, {file.stat().st_size // 1024} kB"
            rows.append((name, measure(partial(read_crew, file), repeats=9)))
    seconds = rows[-1][1].cpu_us / 1e6
    doublings = [after.cpu_us / before.cpu_us for (_, before), (_, after) in pairwise(rows)]
    shown = " and ".join(f"{ratio:.2f}" for ratio in doublings) + " times, for the two doublings"
    return "\n".join(
        [
            "## check: reading, parsing and every rule",
            "",
            machine(),
            "",
            table(["crew", "CPU ms", "wall ms"], [[name, m.cpu_us / 1e3, m.wall_us / 1e3] for name, m in rows]),
            "",
            verdict(
                "1,000 agents and 5,000 routes are checked in about a second of CPU", f"{seconds:.2f} s", seconds < 1.2
            ),
            verdict("twice the crew takes about twice as long", shown, max(doublings) < 2.4),
        ]
    )


if __name__ == "__main__":
    print(run())
