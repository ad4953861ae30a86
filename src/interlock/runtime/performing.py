"""Carries out what a run orders, and brings back what came of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from interlock.crew.definition import Agent, Crew
from interlock.engine.effects import Announce, CallModel, Cancel, Effect, RunTool, SetTimer, Tell
from interlock.engine.events import (
    IncomingEvent,
    ModelFailed,
    ModelReplied,
    TimerFired,
    ToolOutcomeLost,
    ToolRequest,
    ToolReturned,
)
from interlock.engine.phrases import cut
from interlock.engine.state import Turn
from interlock.errors import ModelRefused, ModelUnavailable, PortError, ScriptExhausted, ToolFailed
from interlock.ports import Clock, Delta, Model, ModelReply, ModelRequest, Toolbox
from interlock.runtime.live import LiveRun
from interlock.runtime.timers import Timers

ModelFor = Callable[[Crew, Agent], Model]
OnExternal = Callable[[Tell], Awaitable[None]]
OnDelta = Callable[[str, str, str], None]
# Told before and after each effect; what tests kill the process with.
Hook = Callable[[str], None]


def no_hook(_boundary: str) -> None: ...


class Performer:
    """Answers every effect with an event in the run's inbox; a failure is an answer too."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: Timers,
        model_for: ModelFor,
        toolbox: Toolbox,
        on_external: OnExternal | None,
        on_delta: OnDelta,
        calls_max: int,
        hook: Hook = no_hook,
    ) -> None:
        self.clock, self.timers = clock, timers
        self.model_for, self.toolbox = model_for, toolbox
        self.on_external, self.on_delta = on_external, on_delta
        self.hook = hook
        # Waiters are served in the order they came, so that no run starves.
        self.slots = asyncio.Semaphore(calls_max)

    def perform(self, live: LiveRun, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self.hook("before effect")
            match effect:
                case CallModel():
                    self._start(live, effect.key, self._call_model(live, effect))
                case RunTool():
                    self._start(live, effect.key, self._run_tool(live, effect))
                case SetTimer():
                    self._set_timer(live, effect)
                case Cancel():
                    self._give_up(live, effect.key)
                case Tell():
                    if self.on_external is not None:
                        self._start(live, effect.key, self.on_external(effect))
                case Announce():
                    pass  # the observer and the watchers have seen the fact; the bus will deliver it

    def lose_tools(self, live: LiveRun, effects: Sequence[Effect]) -> None:
        """After a crash: what may have run and cannot be run again is for a person to decide."""
        again: list[Effect] = []
        for effect in effects:
            if isinstance(effect, RunTool) and not self.toolbox.is_idempotent(effect.name):
                self._answer(live, ToolOutcomeLost(call=effect.key))
            else:
                again.append(effect)
        self.perform(live, again)

    def _start(self, live: LiveRun, key: str, work: Awaitable[None]) -> None:
        live.own(key, asyncio.ensure_future(work))

    def _give_up(self, live: LiveRun, key: str) -> None:
        self.timers.give_up(key)
        task = live.tasks.get(key)
        if task is not None:
            task.cancel()

    def _set_timer(self, live: LiveRun, effect: SetTimer) -> None:
        self.timers.set(effect.key, effect.duration_ms, lambda: self._answer(live, TimerFired(timer=effect.key)))

    def _answer(self, live: LiveRun, event: IncomingEvent) -> None:
        self.hook("after effect")
        live.inbox.put_nowait(event)

    async def _call_model(self, live: LiveRun, effect: CallModel) -> None:
        try:
            async with self.slots:
                reply = await self._reply(live, effect)
        except ScriptExhausted as error:
            event: IncomingEvent = _failed(effect, error, retry=False, reason="script_exhausted")
        except ModelRefused as error:
            event = _failed(effect, error, retry=False)
        except (ModelUnavailable, PortError) as error:
            event = _failed(effect, error, retry=True)
        else:
            event = ModelReplied(
                call=effect.key,
                agent=effect.agent,
                text=storable(reply.text),
                usage=reply.usage,
                tool_calls=tuple(_storable_call(call) for call in reply.tool_calls),
            )
        self._answer(live, event)

    async def _reply(self, live: LiveRun, effect: CallModel) -> ModelReply:
        agent = live.crew.agent(effect.agent)
        assert agent is not None, "the engine calls the crew's own agents"
        request = self._request(live, effect, agent)
        pieces = self.model_for(live.crew, agent).reply(request)
        try:
            async for piece in pieces:
                if isinstance(piece, Delta):
                    self.on_delta(live.id, effect.agent, piece.text)
                else:
                    return piece
        finally:
            if isinstance(pieces, AsyncGenerator):  # left open, the loop would close it in a task that nobody owns
                await pieces.aclose()
        raise ModelUnavailable("the reply broke off before its end")

    def _request(self, live: LiveRun, effect: CallModel, agent: Agent) -> ModelRequest:
        messages = live.conversation.messages(live.run.state.history, _turn(live, effect.turn))
        return ModelRequest(
            key=effect.key,
            agent=agent.id,
            number=effect.number,
            system=live.conversation.instructions(agent.id),
            messages=messages,
            tools=self.toolbox.schemas(agent.tools),
            temperature=agent.temperature,
            top_p=agent.top_p,
        )

    async def _run_tool(self, live: LiveRun, effect: RunTool) -> None:
        agent = live.crew.agent(effect.agent)
        assert agent is not None, "the engine runs tools of the crew's own agents"
        seconds = live.crew.settings.tool_execution_timeout_seconds
        ok = False
        try:
            if effect.name not in agent.tools:
                owned = ", ".join(agent.tools) or "none"
                raise ToolFailed(f"agent '{agent.id}' has no tool '{effect.name}'; it has {owned}")
            async with asyncio.timeout(seconds):
                output = await self.toolbox.run(effect.name, effect.arguments, key=effect.key)
            ok = True
        except TimeoutError:
            output = f"tool '{effect.name}' took longer than {seconds:g} s"
        except ToolFailed as error:
            output = str(error)
        most = live.crew.settings.max_tool_output_chars
        self._answer(live, ToolReturned(call=effect.key, ok=ok, output=cut(storable(output), most)))


def storable(text: str) -> str:
    """The text with half characters replaced: UTF-8 has no form for lone surrogates, and neither has the journal."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def _storable_call(call: ToolRequest) -> ToolRequest:
    return ToolRequest(id=storable(call.id), name=storable(call.name), arguments=storable(call.arguments))


def _turn(live: LiveRun, number: int) -> Turn:
    state = live.run.state
    turns = [branch.turn for branch in state.group.branches] if state.group else [state.turn]
    return next(turn for turn in turns if turn is not None and turn.number == number)


def _failed(effect: CallModel, error: Exception, *, retry: bool, reason: str = "model_error") -> ModelFailed:
    return ModelFailed(call=effect.key, agent=effect.agent, error=str(error), retry=retry, reason=reason)
