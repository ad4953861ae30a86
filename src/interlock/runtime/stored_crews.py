"""Crews in the store: each by the sha256 of its canonical form, its sub-crews by theirs.

Rule 1: a run continues with the crew that it started with, never with the files of today.
Rule 2: a crew that many others call is stored once, and read once.
Rule 3: a crew that starts runs is checked, however it was built: once per crew and process, by its sum, so that no
flag on an object has to be trusted.
"""

import asyncio
import hashlib
from typing import NamedTuple

import msgspec

from interlock.crew.definition import CrewDefinition, SubCrewDefinition
from interlock.ports import Journal

# Crews that are cached; when there are more, the cache is emptied.
CREWS_MAX = 1_000


class StoredForm(NamedTuple):
    """A crew naming its sub-crews by their sums, its own sum, and the canonical form of each by its sum."""

    crew: CrewDefinition
    sha: str
    bodies: dict[str, bytes]


class StoredCrews:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._reading: dict[str, asyncio.Task[CrewDefinition]] = {}
        self._proven: set[str] = set()
        # In the store already: it never deletes a crew. Starts that come together store theirs once.
        self._stored: set[str] = set()
        self._storing = asyncio.Lock()

    def require_proven_form(self, crew: CrewDefinition) -> StoredForm:
        """The stored form of a crew; `UnsoundCrew` with every problem unless it and all that it calls are sound."""
        try:
            whole = all(sub.crew is not None for each in crew.whole_tree() for sub in each.sub_crews.values())
            form = as_stored_form(crew) if whole else None
        except (AttributeError, TypeError, ValueError, RecursionError):  # its fields have wrong types
            form = None
        if form is None:
            require_sound_crew(crew)
        assert form is not None, "a sound crew has its sub-crews, and fields of the right types"
        self.require_proven(crew, form.sha)
        return form

    def require_proven(self, crew: CrewDefinition, sha: str) -> None:
        """`UnsoundCrew` unless the crew with this sum is sound."""
        if sha not in self._proven:
            require_sound_crew(crew)
            if len(self._proven) >= CREWS_MAX:
                self._proven.clear()
            self._proven.add(sha)

    async def store_crew(self, form: StoredForm) -> None:
        """Stores a crew and all that it calls."""
        if form.sha in self._stored:
            return
        async with self._storing:
            for each, body in form.bodies.items():
                if each not in self._stored:
                    await self._journal.put_crew(each, body)
                    if len(self._stored) >= CREWS_MAX:
                        self._stored.clear()
                    self._stored.add(each)

    async def of(self, sha: str) -> CrewDefinition:
        """The crew with its sub-crews, decoded once for all callers."""
        reading = self._reading.get(sha)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            if len(self._reading) >= CREWS_MAX:
                self._reading.clear()
            reading = self._reading[sha] = asyncio.create_task(self._read(sha))
        return await asyncio.shield(reading)

    async def _read(self, sha: str) -> CrewDefinition:
        crew = msgspec.json.decode(await self._journal.crew(sha), type=CrewDefinition)
        inner = {name: entry.crew or await self.of(entry.crew_sha) for name, entry in crew.sub_crews.items()}
        return _with_sub_crews(crew, inner) if inner else crew


def require_sound_crew(crew: CrewDefinition) -> None:
    """Checks a crew. The checks load with the first crew, not with the package."""
    from interlock.crew import proof

    proof.require_sound_crew(crew)


def as_stored_form(crew: CrewDefinition) -> StoredForm:
    bodies: dict[str, bytes] = {}
    done: dict[int, tuple[CrewDefinition, str]] = {}

    def form(each: CrewDefinition) -> tuple[CrewDefinition, str]:
        if id(each) not in done:
            subs = {name: _with_sha(entry, *form(_inner(entry))) for name, entry in each.sub_crews.items()}
            named = msgspec.structs.replace(each, sub_crews=subs) if subs else each
            bare = {name: msgspec.structs.replace(entry, crew=None) for name, entry in subs.items()}
            plain = msgspec.structs.replace(named, sub_crews=bare) if subs else named
            body = msgspec.json.encode(plain, order="deterministic")
            sha = hashlib.sha256(body).hexdigest()
            bodies[sha] = body
            done[id(each)] = named, sha
        return done[id(each)]

    return StoredForm(*form(crew), bodies)


def _inner(entry: SubCrewDefinition) -> CrewDefinition:
    assert entry.crew is not None, "a sound crew has its sub-crews"
    return entry.crew


def _with_sha(entry: SubCrewDefinition, crew: CrewDefinition, sha: str) -> SubCrewDefinition:
    return msgspec.structs.replace(entry, crew=crew, crew_sha=sha)


def _with_sub_crews(crew: CrewDefinition, inner: dict[str, CrewDefinition]) -> CrewDefinition:
    subs = {name: msgspec.structs.replace(entry, crew=inner[name]) for name, entry in crew.sub_crews.items()}
    return msgspec.structs.replace(crew, sub_crews=subs)
