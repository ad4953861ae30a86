"""The run formats that this process knows, and the one with which it begins runs."""

from interlock.ports import NEWEST_FORMAT, Processes, RunFormat


class RunFormats:
    """Asks the store; without `processes` there are no others, and so no older ones."""

    def __init__(self, processes: Processes | None) -> None:
        self.processes, self._is_newest = processes, False
        self.knows = NEWEST_FORMAT if processes is None else processes.knows

    async def of_new_run(self) -> RunFormat:
        """That of the store, so that processes of older versions can take the run over; at most what is known here."""
        if self.processes is None or self._is_newest:
            return self.knows
        stored = await self.processes.run_format()
        self._is_newest = stored is not None and stored.covers(self.knows)  # a store's is never lowered
        return self.knows.at_most(stored)
