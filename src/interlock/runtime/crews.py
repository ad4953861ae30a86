"""Crews as the store keeps them: each by the sha256 of its canonical form, its sub-crews by theirs.

Rule 1: a run goes on with the crew that it started with, never with the files of today.
Rule 2: a crew that many others call is kept once, and read once.
Rule 3: what starts runs is proven, whoever built it: once a crew and process, by its sum, so that no mark on an object
has to be believed.
"""

import asyncio
import hashlib
from typing import NamedTuple

import msgspec

from interlock.crew.definition import Crew, SubCrew
from interlock.crew.proof import require_sound_crew
from interlock.ports import Journal

# Crews that are kept read; beyond them everything is read anew.
CREWS_MAX = 1_000


class StoredForm(NamedTuple):
    """A crew naming its sub-crews by their sums, its own sum, and the canonical form of each by its sum."""

    crew: Crew
    sha: str
    bodies: dict[str, bytes]


class StoredCrews:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._reading: dict[str, asyncio.Task[Crew]] = {}
        self._proven: set[str] = set()

    def proven_form(self, crew: Crew) -> StoredForm:
        """What is stored of a crew; `UnsoundCrew` with every problem unless it and all that it calls are sound."""
        try:
            whole = all(sub.crew is not None for each in crew.whole_tree() for sub in each.sub_crews.values())
            form = stored_form(crew) if whole else None
        except (AttributeError, TypeError, ValueError, RecursionError):  # its fields hold what they cannot hold
            form = None
        if form is None:
            require_sound_crew(crew)
        assert form is not None, "a sound crew has its sub-crews, and fields of the right types"
        self.require_proven(crew, form.sha)
        return form

    def require_proven(self, crew: Crew, sha: str) -> None:
        """Refuses a crew of this sum that is not sound, as `proven_form` does."""
        if sha not in self._proven:
            require_sound_crew(crew)
            if len(self._proven) >= CREWS_MAX:
                self._proven.clear()
            self._proven.add(sha)

    async def keep(self, form: StoredForm) -> None:
        """Stores a crew and all that it calls."""
        for each, body in form.bodies.items():
            await self._journal.put_crew(each, body)

    async def of(self, sha: str) -> Crew:
        """The crew with its sub-crews, decoded once however many ask for it at a time."""
        reading = self._reading.get(sha)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            if len(self._reading) >= CREWS_MAX:
                self._reading.clear()
            reading = self._reading[sha] = asyncio.create_task(self._read(sha))
        return await asyncio.shield(reading)

    async def _read(self, sha: str) -> Crew:
        crew = msgspec.json.decode(await self._journal.crew(sha), type=Crew)
        inner = {name: entry.crew or await self.of(entry.crew_sha) for name, entry in crew.sub_crews.items()}
        return _with_sub_crews(crew, inner) if inner else crew


def stored_form(crew: Crew) -> StoredForm:
    bodies: dict[str, bytes] = {}
    done: dict[int, tuple[Crew, str]] = {}

    def form(each: Crew) -> tuple[Crew, str]:
        if id(each) not in done:
            subs = {name: _named(entry, *form(_inner(entry))) for name, entry in each.sub_crews.items()}
            named = msgspec.structs.replace(each, sub_crews=subs) if subs else each
            bare = {name: msgspec.structs.replace(entry, crew=None) for name, entry in subs.items()}
            plain = msgspec.structs.replace(named, sub_crews=bare) if subs else named
            body = msgspec.json.encode(plain, order="deterministic")
            sha = hashlib.sha256(body).hexdigest()
            bodies[sha] = body
            done[id(each)] = named, sha
        return done[id(each)]

    return StoredForm(*form(crew), bodies)


def _inner(entry: SubCrew) -> Crew:
    assert entry.crew is not None, "a sound crew has its sub-crews"
    return entry.crew


def _named(entry: SubCrew, crew: Crew, sha: str) -> SubCrew:
    return msgspec.structs.replace(entry, crew=crew, crew_sha=sha)


def _with_sub_crews(crew: Crew, inner: dict[str, Crew]) -> Crew:
    subs = {name: msgspec.structs.replace(entry, crew=inner[name]) for name, entry in crew.sub_crews.items()}
    return msgspec.structs.replace(crew, sub_crews=subs)
