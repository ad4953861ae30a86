"""Messages of the host to agents of a run. A message that is sent twice under one key is sent once."""

from interlock.crew.definition import CrewDefinition
from interlock.engine.delegation.host_messages import require_given
from interlock.engine.events import MessageGiven
from interlock.errors import InterlockError
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.answers import Answers
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.live_runs import LiveRuns


class HostMessages:
    def __init__(self, live_runs: LiveRuns, committer: Committer, resumption: Resumption, answers: Answers) -> None:
        self._live_runs, self._committer = live_runs, committer
        self._resumption, self._answers = resumption, answers

    async def send_message(self, crew: CrewDefinition, run_id: str, given: MessageGiven, order: str) -> str:
        async with self._live_runs.run_lock(run_id):
            live = await self._live_runs.get_or_claim(run_id, crew)
            async with live.lock:
                await self._answers.require_open(order, live)
                state = live.run.state
                if given.key and given.key in state.given:
                    await self._live_runs.release_if_idle(live)
                    return state.given[given.key]
                try:
                    require_given(state, crew, given)
                except InterlockError:
                    await self._live_runs.release_if_idle(live)
                    raise
                parent = await self._resumption.wake_for_input(live)
                sent = f"{run_id}:m{state.messages + 1}"
                await self._committer.commit_event(live, given, order=order, value=sent)
            self._resumption.drive_with_parent(parent, live)
        return sent
