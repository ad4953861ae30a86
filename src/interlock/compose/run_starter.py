"""Starts runs: of a crew that a user gives, for a delivery of a broadcast, and for a schedule."""

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.broadcast.naming import stable_id
from interlock.broadcast.run_schedules import RunSchedule
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
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import NO_CONTEXT, CrewContext, Entry
from interlock.errors import UsageError
from interlock.ports import Delivery
from interlock.runtime.runner import Runner
from interlock.runtime.stored_crews import StoredForm


class RunStarter:
    """Checks a crew, stores it, and starts runs of it."""

    def __init__(self, runner: Runner, signals: Signals, preflight: Preflight, secrets: KnownSecrets) -> None:
        self._runner, self._signals = runner, signals
        self._preflight, self._secrets = preflight, secrets

    async def start(
        self,
        crew: CrewDefinition,
        text: str,
        run_id: str,
        *,
        history: tuple[Entry, ...] = (),
        continues: str = "",
        context: CrewContext = NO_CONTEXT,
        schedule: str = "",
        by: str = "",
        user: str = "",
    ) -> None:
        """Starts a run, after all checks that need nothing stored."""
        require_crew(crew)
        require_text(text, "the input of a run")
        require_name(by)
        require_name(user, "the user of a run")
        form = await self._require_startable(crew)
        require_size(crew, text)
        require_context(context)
        self._preflight.require_models(crew)
        text = self._secrets.redact(text)
        for each in crew.whole_tree():
            require_no_key(each, self._secrets)
        await self._store(form)
        await self._runner.start(
            form.crew,
            form.sha,
            text,
            run_id=run_id,
            history=history,
            continues=continues,
            context=context,
            schedule=schedule,
            by=by,
            user=user,
        )

    async def listen(self, crew: CrewDefinition) -> None:
        """Stores a crew and its subscriptions; no run starts."""
        await self._store(await self._require_startable(crew))

    async def require_schedulable(self, crew: CrewDefinition, text: str) -> None:
        """Checks and stores a crew of which runs are planned."""
        require_crew(crew)
        require_text(text, "the input of a run")
        require_size(crew, text)
        await self._store(self._runner.crews.require_proven_form(crew))

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
        await self._runner.start_for_delivery(crew, sha, delivery, run_id)

    async def start_scheduled(self, schedule: RunSchedule, run_id: str) -> None:
        """Starts the run of one occurrence, with the newest file of the crew that this folder knows."""
        sha = await self._signals.bus.crew_sha(schedule.crew)
        if not sha:
            raise UsageError(f"no file of crew '{schedule.crew}' is known here; serve it, or start a run of it once")
        crew = await self._runner.crews.of(sha)
        await self.start(crew, schedule.input, run_id, schedule=schedule.id)

    async def _require_startable(self, crew: CrewDefinition) -> StoredForm:
        form = self._runner.crews.require_proven_form(crew)
        for each in crew.whole_tree():
            require_drivable(each)
        await self._preflight.require_usable(crew)
        return form

    async def _store(self, form: StoredForm) -> None:
        await self._runner.crews.store_crew(form)
        await self._signals.declare_subscriptions(form.crew, form.sha)
