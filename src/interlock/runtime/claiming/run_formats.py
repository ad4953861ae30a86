"""The run formats that this process knows, and the one with which it begins runs."""

from interlock.ports import NEWEST_FORMAT, Processes, RunFormat


class RunFormats:
    """Asks the store; without `processes` there are no others, and so no older ones."""

    def __init__(self, processes: Processes | None) -> None:
        self._processes = processes
        self.knows = NEWEST_FORMAT if processes is None else processes.knows

    async def of_new_run(self) -> RunFormat:
        """That of the store, so that processes of older versions can take the run over; at most what is known here."""
        return self.knows.at_most(None if self._processes is None else await self._processes.run_format())
