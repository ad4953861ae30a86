"""Starts runs: of a crew that a user gives, for a delivery of a broadcast, and for a schedule."""

from collections.abc import Awaitable, Callable

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.broadcast.naming import stable_id
from interlock.broadcast.run_schedules import RunSchedule
from interlock.compose.given.crew_like import AnyCrew, definition_of, functions_of, output_types_of
from interlock.compose.given.run_resources import RunGift, RunResources
from interlock.compose.preflight import (
    Preflight,
    require_context,
    require_crew,
    require_drivable,
    require_name,
    require_no_key,
    require_size,
    require_text,
)
from interlock.compose.signals import Signals
from interlock.compose.working.admission import Admission
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import NO_CONTEXT, CrewContext, Entry, RunStarted
from interlock.errors import AlreadyStarted, RunExists, RunNotFound, UsageError
from interlock.ids import is_below
from interlock.ports import Delivery, RunRow
from interlock.runtime.calls.hook_checks import judge_input
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.replay import is_over
from interlock.runtime.runner import Runner
from interlock.runtime.stored_crews import StoredForm


class RunStarter:
    """Checks a crew, stores it, and starts runs of it. `continue_run` continues a run that no process drives."""

    def __init__(
        self,
        runner: Runner,
        signals: Signals,
        preflight: Preflight,
        secrets: KnownSecrets,
        resources: RunResources,
        admission: Admission,
        *,
        continue_run: Callable[[RunRow], Awaitable[None]],
    ) -> None:
        self._runner, self._signals = runner, signals
        self._preflight, self._secrets = preflight, secrets
        self._resources, self._continue_run = resources, continue_run
        self._admission = admission

    async def start_once(
        self,
        crew: AnyCrew,
        text: str,
        run_id: str,
        gift: RunGift,
        *,
        history: tuple[Entry, ...] = (),
        continues: str = "",
        context: CrewContext = NO_CONTEXT,
        by: str = "",
        user: str = "",
        is_new_id: bool = False,
    ) -> RunRow | None:
        """Starts a run, or finds the one that was started so before; that one continues if no process drives it.

        Returns the row of a run that it started. `is_new_id` says that no run can have the id yet.
        Raises `AlreadyStarted` if it was started with another crew, text or history.
        """
        definition = definition_of(crew)
        require_crew(definition)
        require_text(text, "the input of a run")
        form, code = self._keep_code(crew)
        gift = gift._replace(tools=code.tools, types=code.types)
        await self._resources.sweep(self._is_over)
        if not is_new_id and await self._find_started(form, text, run_id, gift, continues):
            return None
        try:
            with self._resources.lend(run_id, gift):
                return await self.start(
                    definition,
                    text,
                    run_id,
                    form=form,
                    history=history,
                    continues=continues,
                    context=context,
                    by=by,
                    user=user,
                )
        except RunExists:  # another caller was first
            await self._find_started(form, text, run_id, gift, continues)
            return None

    def _keep_code(self, crew: AnyCrew) -> tuple[StoredForm, RunGift]:
        """Keeps the functions and types that came with a crew; gives its stored form, once it is proven, and these."""
        definition = definition_of(crew)
        form = self._runner.crews.require_proven_form(definition)
        names = [each.name for each in definition.whole_tree()]
        tools = self._resources.give_functions(form.bodies, names, functions_of(crew))
        return form, RunGift(tools=tools, types=self._resources.give_types(form.bodies, output_types_of(crew)))

    async def _is_same_text(self, started: RunStarted, text: str) -> bool:
        """Whether it is the input of the run, as it was given or as the hooks of the host made it."""
        if started.input != as_storable(self._secrets.redact(text)) and started.verdict is not None:
            text = (await judge_input(self._runner.host_hooks, text))[0]
        return started.input == as_storable(self._secrets.redact(text))

    async def _find_started(self, form: StoredForm, text: str, run_id: str, gift: RunGift, continues: str) -> bool:
        """True if there is such a run; it continues if no process drives it and everything is given."""
        try:
            row = await self._runner.journal.row(run_id)
        except RunNotFound:
            return False
        started = (await self._runner.journal.records(run_id, 0, 1))[0].events[0]
        assert isinstance(started, RunStarted), "a run begins with run.started"
        given = {
            "crew": started.crew_sha == form.sha,
            "text": await self._is_same_text(started, text),
            "history": started.continues == continues,
        }
        for what, is_same in given.items():
            if not is_same:
                raise AlreadyStarted(run_id, what)
        if not is_over(row.status) and run_id not in self._runner.live:
            with self._resources.lend(run_id, gift):
                await self._continue_run(row)
            await self.forget_unless_needed(run_id)
        return True

    async def forget_unless_needed(self, run_id: str) -> None:
        """Forgets what was given to a run that another process drives, or that is over by now."""
        if not self._is_live(run_id) and (await self._runner.journal.row(run_id)).status != "paused":
            self._resources.forget(run_id)

    def _is_live(self, root: str) -> bool:
        return root in self._runner.live or any(is_below(run, root) for run in self._runner.live)

    async def _is_over(self, run_id: str) -> bool:
        try:
            return is_over((await self._runner.journal.row(run_id)).status)
        except RunNotFound:
            return True

    async def start(
        self,
        crew: CrewDefinition,
        text: str,
        run_id: str,
        *,
        form: StoredForm | None = None,
        history: tuple[Entry, ...] = (),
        continues: str = "",
        context: CrewContext = NO_CONTEXT,
        schedule: str = "",
        by: str = "",
        user: str = "",
    ) -> RunRow:
        """Starts a run, after all checks that need nothing stored. `form` is that of the crew, if it is known."""
        require_crew(crew)
        require_text(text, "the input of a run")
        require_name(by)
        require_name(user, "the user of a run")
        form = form or self._runner.crews.require_proven_form(crew)
        tree = await self._require_startable(crew, run_id)
        require_size(crew, text)
        require_context(context)
        self._preflight.require_models(crew, run_id)
        if not self._runner.work.private:  # no worker takes such a run: it never waits
            await self._admission.require_room(crew.settings.organization)
        text = self._secrets.redact(text)
        for each in tree:
            require_no_key(each, self._secrets)
        await self._store(form)
        return await self._runner.start(
            form.crew,
            form.sha,
            text,
            run_id=run_id,
            history=history,
            continues=continues,
            context=context,
            schedule=schedule,
            by=by,
            needs=self._resources.needs_of(run_id, form.crew, form.sha),
            user=user,
        )

    async def listen(self, crew: AnyCrew) -> None:
        """Stores a crew and its subscriptions; no run starts."""
        self._keep_code(crew)
        form = self._runner.crews.require_proven_form(definition_of(crew))
        await self._require_startable(form.crew)
        await self._store(form)

    async def require_schedulable(self, crew: AnyCrew, text: str) -> None:
        """Checks and stores a crew of which runs are planned."""
        require_crew(definition_of(crew))
        require_text(text, "the input of a run")
        require_size(definition_of(crew), text)
        await self._store(self._keep_code(crew)[0])

    async def start_for_delivery(self, delivery: Delivery) -> None:
        """Starts a run at the agent that subscribed, with the broadcast as input."""
        sha = await self._signals.bus.crew_sha(delivery.crew)
        if not sha:
            raise UsageError(f"no file of crew '{delivery.crew}' is known here; start a run of it once")
        crew = await self._runner.crews.of(sha)
        if delivery.agent not in crew.agent_ids:
            raise UsageError(f"the newest file of crew '{delivery.crew}' has no agent '{delivery.agent}'")
        self._runner.crews.require_proven(crew, sha)
        await self._preflight.require_usable(crew)
        self._preflight.require_models(crew)
        name = stable_id(f"{delivery.heard.broadcast.id}:{delivery.crew}:{delivery.agent}:{delivery.number}")
        run_id = f"{delivery.heard.broadcast.created_at:012x}{name[:8]}"
        needs = self._resources.needs_of(run_id, crew, sha)
        await self._runner.start_for_delivery(crew, sha, delivery, run_id, needs)

    async def start_scheduled(self, schedule: RunSchedule, run_id: str) -> None:
        """Starts the run of one occurrence, with the newest file of the crew that this folder knows."""
        sha = await self._signals.bus.crew_sha(schedule.crew)
        if not sha:
            raise UsageError(f"no file of crew '{schedule.crew}' is known here; serve it, or start a run of it once")
        crew = await self._runner.crews.of(sha)
        await self.start(crew, schedule.input, run_id, schedule=schedule.id)

    async def _require_startable(self, crew: CrewDefinition, run_id: str = "") -> list[CrewDefinition]:
        """The crew and all that it calls, once it is known that runs of it can be driven."""
        tree = crew.whole_tree()
        for each in tree:
            require_drivable(each)
        await self._preflight.require_usable(crew, run_id)
        return tree

    async def _store(self, form: StoredForm) -> None:
        await self._runner.crews.store_crew(form)
        await self._signals.declare_subscriptions(form.crew, form.sha)
