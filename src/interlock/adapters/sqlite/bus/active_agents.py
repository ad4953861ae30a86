"""Where agents are at work: the table `active`, and the records that came after it.

Rule 1: a record says who ended and began work with it. The table follows behind: it holds all up to the
position that is stored under `PRESENCE_FILLED`, and is filled with the tail (`runs.tail`).
Rule 2: the last record about an agent in a run decides, so a record that is applied twice changes nothing, and a stored
position that is too low is harmless.
Rule 3: any other change of the table is made when it is filled, and is counted, so that other processes read it again.
"""

import sqlite3

from interlock.adapters.sqlite.bus.change_counts import (
    PRESENCE,
    PRESENCE_FILLED,
    PRESENCE_NEWEST,
    change_count_of,
    change_count_or_none,
    increment_change_count,
)
from interlock.adapters.sqlite.bus.record_presence import SELECT_AFTER, read_presence
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules.bus_rules import ActiveAgents
from interlock.adapters.store_rules.bus_tables import AgentsWithHops

_SELECT_ACTIVE = f"select crew, agent, run from active where {intact_condition('active')}"  # noqa: S608 - constants
_INSERT_ACTIVE = "insert or ignore into active (crew, agent, run) values (?, ?, ?)"
_DELETE_ACTIVE = "delete from active where crew = ? and agent = ? and run = ?"


class SqliteActiveAgents(ActiveAgents):
    """As of the newest record, if it was refreshed in this transaction."""

    def __init__(self) -> None:
        super().__init__()
        # What the table does not hold yet: whether an agent works in a run.
        self._unfilled: dict[tuple[str, str, str], bool] = {}
        # The position of the newest record that was read, and that of the newest one with presence.
        self._seen = self._newest = 0
        self._changes = -1

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Reads what other processes have changed."""
        changes = change_count_of(connection, PRESENCE)
        if changes != self._changes:
            self._read_table(connection, changes)
        for found in read_presence(connection, SELECT_AFTER, self._seen):
            if found.agents is not None:
                ended = tuple((agent, 0) for agent in found.agents.ended)
                begun = tuple((agent, 0) for agent in found.agents.begun)
                self.change(found.crew, found.run, ended, begun)
                self._note(found.crew, found.run, ended, begun)
            self._seen = self._newest = found.position

    def _read_table(self, connection: sqlite3.Connection, changes: int) -> None:
        self.runs, self._unfilled = {}, {}
        self._changes, self._seen = changes, change_count_of(connection, PRESENCE_FILLED)
        for crew, agent, run in connection.execute(_SELECT_ACTIVE):
            self.runs.setdefault((crew, agent), set()).add(run)

    def _note(self, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops) -> None:
        for agent, _ in ended:
            self._unfilled[crew, agent, run] = False
        for agent, _ in begun:
            self._unfilled[crew, agent, run] = True

    def on_record(self, position: int, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops) -> None:
        """Notes that a record with presence was stored: `_note`, which every handoff would call."""
        unfilled = self._unfilled
        for agent, _ in ended:
            unfilled[crew, agent, run] = False
        for agent, _ in begun:
            unfilled[crew, agent, run] = True
        self._seen = self._newest = position

    def fill_table(self, connection: sqlite3.Connection, newest: int = 0) -> None:
        """Brings the table to the state of the newest record, whose position may be given."""
        for key, is_active in self._unfilled.items():
            connection.execute(_INSERT_ACTIVE if is_active else _DELETE_ACTIVE, key)
        self._unfilled, self._seen = {}, max(self._seen, newest)
        query = "insert or replace into bus_changes (name, number) values (?, ?)"
        connection.execute(query, (PRESENCE_FILLED, self._seen))
        if self._newest > (change_count_or_none(connection, PRESENCE_NEWEST) or 0):
            connection.execute(query, (PRESENCE_NEWEST, self._newest))

    def store_change(
        self, connection: sqlite3.Connection, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops
    ) -> None:
        """Stores a change that no record tells of."""
        self._note(crew, run, ended, begun)
        self.release_records(connection)

    def release_records(self, connection: sqlite3.Connection) -> None:
        """Makes the table independent of all records: what they tell will be gone, also for other processes."""
        self.fill_table(connection)
        self._changes = increment_change_count(connection, PRESENCE)

    def forget_run(self, connection: sqlite3.Connection, crew: str, run: str) -> None:
        """Removes a run that is deleted."""
        ended = tuple((agent, 0) for (of, agent), runs in self.runs.items() if of == crew and run in runs)
        self.change(crew, run, ended, ())
        self.store_change(connection, crew, run, ended, ())
