"""Where agents are at work, and who wakes and sleeps by a change of it.

Rule: an agent wakes when its first turn in any run starts, and sleeps when its last one has ended.
"""

AgentsWithHops = tuple[tuple[str, int], ...]


class ActiveAgents:
    """The runs in which each agent of a crew is at work."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], set[str]] = {}

    def change(
        self, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Notes who ended and began work in a run. Returns who fell asleep and who woke, with "" for all others.

        It is one function because every handoff calls it.
        """
        at_work, slept, woken = self.runs, [], []
        for agent, _ in ended:
            runs = at_work.get((crew, agent), NO_RUNS)
            is_last = len(runs) == 1 and run in runs
            if is_last:
                del at_work[crew, agent]
            elif run in runs:
                runs.remove(run)
            slept.append(agent if is_last else "")
        for agent, _ in begun:
            is_first = (crew, agent) not in at_work
            at_work.setdefault((crew, agent), set()).add(run)
            woken.append(agent if is_first else "")
        return tuple(slept), tuple(woken)

    def are_active(self, crew: str, run: str, agents: AgentsWithHops) -> bool:
        """Whether all of them are known to work in a run."""
        return all(run in self.runs.get((crew, agent), NO_RUNS) for agent, _ in agents)


NO_RUNS: set[str] = set()
