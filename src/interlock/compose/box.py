"""One process, one folder: the adapters that serve it."""

import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.clock import SystemClock
from interlock.adapters.crash_points import crash_point
from interlock.adapters.journal_format import sealed_chain
from interlock.adapters.models.functions import FunctionModel, ModelFunction
from interlock.adapters.models.scripted import ScriptedModel
from interlock.adapters.script_files import read_script
from interlock.adapters.store_sqlite import SqliteStore
from interlock.adapters.tools_python import PythonTool, PythonToolbox
from interlock.crew.definition import Agent, Crew
from interlock.engine.events import Entry, RunFinished, RunPaused, Usage
from interlock.engine.state import RunState
from interlock.errors import AlreadyResumed, ModelRefused, UsageError
from interlock.ports import Clock, Journal, Keeping, Model, Observer, Owners, RunRow
from interlock.runtime.forking import forked
from interlock.runtime.performing import OnExternal
from interlock.runtime.runner import Runner, replayed, row_of
from interlock.runtime.watching import Public
from interlock.signals.definition import SignalBehavior

DATA_FOLDER = ".interlock"

AnyModel = Model | ModelFunction


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands: over, or paused with the token of its oldest wait."""

    run: str
    status: str
    reason: str
    agent: str = ""
    output: str = ""
    text: str = ""
    token: str = ""
    usage: Usage = Usage()


class RunHandle:
    """A run that was asked for; it goes on whether or not anybody looks."""

    def __init__(self, box: "Interlock", run_id: str) -> None:
        self._box, self.id = box, run_id

    def events(self, after: int = 0) -> AsyncIterator[Public]:
        """What has happened and what happens, until the run is over or paused."""
        return self._box.runner.follow(self.id, after)

    async def result(self) -> Result:
        await self._box.runner.settled(self.id)
        return await self._box.result(self.id)


class Interlock:
    """One process, one folder: starts runs, resumes them, and lets them be watched."""

    def __init__(
        self,
        data: str | os.PathLike[str] = DATA_FOLDER,
        *,
        tools: Sequence[PythonTool | Callable[..., Any]] = (),
        models: AnyModel | Mapping[str, AnyModel] | None = None,
        script: str | os.PathLike[str] | None = None,
        on_external: OnExternal | None = None,
        observers: Sequence[Observer] = (),
        recover: bool = False,
        durability: str = "full",
        clock: Clock | None = None,
    ) -> None:
        self.data = Path(data)
        self.toolbox = PythonToolbox(tools)
        self.clock = clock or SystemClock()
        self._models = models
        self._script = ScriptedModel(read_script(Path(script)), clock=self.clock) if script is not None else None
        self._scripts: dict[str, ScriptedModel] = {}
        self._on_external, self._observers = on_external, observers
        self._recover, self._durability = recover, durability
        self._stack = AsyncExitStack()

    store: SqliteStore
    keeping: Keeping

    async def __aenter__(self) -> "Interlock":
        store = SqliteStore(self.data, durability=self._durability)
        self._stack.push_async_callback(store.close)
        self.store, self.keeping = store, store
        self.journal: Journal = store
        self.owners: Owners = store
        self.runner = await self._stack.enter_async_context(
            Runner(
                journal=self.journal,
                owners=self.owners,
                clock=self.clock,
                model_for=self._model_for,
                toolbox=self.toolbox,
                observers=self._observers,
                on_external=self._on_external,
                hook=crash_point,
            )
        )
        if self._recover:
            for row in await self.journal.rows(status="running"):
                await self.runner.recover(await self.crew_of(row), row.run)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    # Asking

    async def start(self, crew: Crew, text: str, *, run_id: str | None = None) -> RunHandle:
        return await self._start(crew, text, run_id or new_run_id(self.clock))

    async def continue_run(self, crew: Crew, text: str, finished: str) -> RunHandle:
        """A new run that starts from the history of a finished one."""
        row = await self.journal.row(finished)
        if row.status in ("running", "paused"):
            raise UsageError(f"run '{finished}' is {row.status}; only a finished run can be continued")
        before = replayed(await self.crew_of(row), finished, await self.journal.records(finished))
        history = tuple(before.state.history)
        return await self._start(crew, text, new_run_id(self.clock), history=history, continues=finished)

    async def _start(
        self, crew: Crew, text: str, run_id: str, *, history: tuple[Entry, ...] = (), continues: str = ""
    ) -> RunHandle:
        _refuse_what_cannot_run_yet(crew)
        most = crew.settings.max_input_size_kb
        if len(text.encode("utf-8", "replace")) > most * 1024:
            raise UsageError(f"the input is larger than max_input_size_kb ({most} kB)")
        body = msgspec.json.encode(crew, order="deterministic")
        sha = hashlib.sha256(body).hexdigest()
        await self.journal.put_crew(sha, body)
        await self.runner.start(crew, sha, text, run_id=run_id, history=history, continues=continues)
        return RunHandle(self, run_id)

    async def resume(self, run_id: str, text: str = "", *, token: str | None = None) -> RunHandle:
        """Answers a wait. The same answer again gives the first outcome; another one is refused."""
        row = await self.journal.row(run_id)
        if row.status == "running":
            await self.runner.recover(await self.crew_of(row), run_id)
            if token is None:
                return RunHandle(self, run_id)
        try:
            await self.runner.resume(await self.crew_of(row), run_id, token, text)
        except AlreadyResumed as again:
            if not again.same:
                raise
        return RunHandle(self, run_id)

    async def cancel(self, run_id: str) -> RunHandle:
        row = await self.journal.row(run_id)
        if row.status in ("running", "paused"):
            await self.runner.cancel(await self.crew_of(row), run_id, by="host")
        return RunHandle(self, run_id)

    async def fork(self, run_id: str, after: int) -> RunHandle:
        """A new run that shares the recorded past of another one up to a seq, and goes on from there."""
        row = await self.journal.row(run_id)
        crew, new_id, now = await self.crew_of(row), new_run_id(self.clock), self.clock.now_ms()
        run, records = forked(crew, run_id, await self.journal.records(run_id), after, new_id)
        fresh = msgspec.structs.replace(row, run=new_id, epoch=0, created_at=now)
        await self.keeping.add(row_of(run, fresh, now), sealed_chain(new_id, records))
        await self.runner.recover(crew, new_id)
        return RunHandle(self, new_id)

    async def result(self, run_id: str) -> Result:
        row = await self.journal.row(run_id)
        result = Result(run=run_id, status=row.status, reason=row.reason, agent=row.agent, usage=row.usage)
        for record in reversed(await self.journal.records(run_id)):
            for event in reversed(record.events):
                if isinstance(event, RunFinished):
                    return msgspec.structs.replace(result, output=event.output, text=event.text)
                if isinstance(event, RunPaused) and row.status == "paused":
                    return msgspec.structs.replace(result, token=event.token, reason=event.reason)
        return result

    async def state(self, run_id: str) -> RunState:
        """The run as its journal tells it; `JournalDiverged` if the engine would now conclude otherwise."""
        row = await self.journal.row(run_id)
        return replayed(await self.crew_of(row), run_id, await self.journal.records(run_id)).state

    # Choosing

    async def crew_of(self, row: RunRow) -> Crew:
        """The crew as it was when the run started, never the files of today."""
        return msgspec.json.decode(await self.journal.crew(row.crew_sha), type=Crew)

    def _model_for(self, crew: Crew, agent: Agent) -> Model:
        if self._script is not None:
            return self._script
        given = self._models.get(_provider(agent)) if isinstance(self._models, Mapping) else self._models
        if given is not None:
            return given if hasattr(given, "reply") else FunctionModel(given)
        if agent.primary is not None and agent.primary.provider == "scripted":
            file = agent.primary.model
            if file not in self._scripts:
                self._scripts[file] = ScriptedModel(read_script(Path(file)), clock=self.clock)
            return self._scripts[file]
        raise ModelRefused(
            f"agent '{agent.id}' of crew '{crew.name}' has no model that can be called; "
            "use --script FILE, or give the host's models"
        )


def _refuse_what_cannot_run_yet(crew: Crew) -> None:
    """Parts of crew files that are checked already and not driven yet; better said now than ignored on the way."""
    calls = any(r.behavior is SignalBehavior.SUB_CREW for routes in crew.routes.values() for r in routes)
    members = any(member in crew.sub_crews for group in crew.groups.values() for member in group.agents)
    if calls or members:
        raise UsageError(
            f"crew '{crew.name}' calls other crews; this version checks such crews and cannot run them yet"
        )
    if crew.delegation is not None:
        raise UsageError(f"crew '{crew.name}' delegates; this version checks delegation and cannot run it yet")


def _provider(agent: Agent) -> str:
    return agent.primary.provider if agent.primary is not None else ""


def new_run_id(clock: Clock) -> str:
    """Sortable by time; chosen before the run starts, so that whoever asked twice can say so."""
    return f"{clock.now_ms():012x}{secrets.token_hex(4)}"
