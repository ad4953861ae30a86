"""Model calls: made by the driver of a run or in a task of their own; a failure is an event too.

The way of a call: `call_in_driver` or `call_in_task`, `_call_handling_errors`, `read_reply`.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from interlock.crew.definition import AgentDefinition, CrewDefinition, ModelRef
from interlock.crew.tokens import text_tokens
from interlock.engine.budgets.limits import cost_of, cost_without_cache, with_cost
from interlock.engine.effects import CallModel
from interlock.engine.events import NO_USAGE, HooksDecided, IncomingEvent, ModelFailed, ModelReplied, Usage
from interlock.engine.prompt.conversation import UNSCALED
from interlock.engine.routing.stream import ReplyScanner
from interlock.engine.state import turns_by
from interlock.errors import ModelRefused, ModelUnavailable, NotOwner, PortError, PromptTooLong, ScriptExhausted
from interlock.ports import Model, ModelReply, ModelRequest, Toolbox
from interlock.runtime.calls.costs import CostOfRun
from interlock.runtime.calls.hook_checks import HookChecks, with_replaced_request, with_reply
from interlock.runtime.calls.host_decisions import HostDecisions
from interlock.runtime.calls.model_request import build_model_request, tokens_of_tools
from interlock.runtime.calls.reply_stream import StreamedReply, read_reply, require_sound
from interlock.runtime.calls.storable import as_storable, as_storable_block, as_storable_call
from interlock.runtime.live_run import LiveRun, PendingModelCall, Slots
from interlock.runtime.provider_holds import HeldProviders

# The model for an agent of a crew in a run.
ModelFor = Callable[[CrewDefinition, AgentDefinition, str], Model]
# A piece of a reply; a piece of reasoning, and whether the text before it was reasoning too; the end of a reply that
# had pieces.
OnDelta = Callable[[LiveRun, CallModel, str], None]
OnReasoning = Callable[[LiveRun, CallModel, str, bool], None]
OnReplyOver = Callable[[LiveRun, CallModel], None]
# Puts the outcome of an effect into the inbox of its run.
Answer = Callable[[LiveRun, IncomingEvent], None]
# Called before and after each effect; tests kill the process with it.
Hook = Callable[[str], None]

# How a call ended, or what the hooks of the host decided instead of making it.
ModelOutcome = ModelReplied | ModelFailed | HooksDecided

# A provider that asks for more than a day is not believed.
RETRY_AFTER_SAID_MAX_MS = 86_400_000


class ModelCalls:
    def __init__(
        self,
        *,
        model_for: ModelFor,
        toolbox: Toolbox,
        host_decisions: HostDecisions,
        on_delta: OnDelta,
        on_reasoning: OnReasoning,
        on_reply_over: OnReplyOver,
        calls_max: int,
        costs: CostOfRun | None,
        answer: Answer,
        hook: Hook | None,
        checks: HookChecks,
        held: HeldProviders,
    ) -> None:
        self._held = held
        self._checks, self._outputs = checks, checks.outputs
        self._model_for, self._toolbox, self._host_decisions = model_for, toolbox, host_decisions
        self._on_delta, self._on_reply_over = on_delta, on_reply_over
        # Hooks that see replies see them before watchers do.
        self._shown_by = None if checks.hooks.sees_replies else (on_delta, on_reasoning)
        # Models that began a reply inside a block of reasoning; by their agent where they have no name.
        self._unopened: set[ModelRef | str] = set()
        self._costs, self._answer, self._hook = costs, answer, hook
        # Waiters are served in the order they came, so that no run starves.
        self._slots, self._calls_max = Slots(calls_max), calls_max

    async def hold_calls(self) -> None:
        """Lets no new call begin, and waits until the calls in progress are over."""
        for _ in range(self._calls_max):
            if not self._slots.take_free():
                await self._slots.wait()

    def prepare_call(self, live: LiveRun, effect: CallModel) -> PendingModelCall:
        """Builds the request now: when the call is made, the run may have changed."""
        agent, scale = live.conversation.agents[effect.agent], live.run.state.scales.get(effect.agent, UNSCALED)
        request = build_model_request(live, agent, effect, scale, self._toolbox)
        if effect.hooked:
            request = _with_hooked_request(live, effect, request)
        if effect.model:
            agent = msgspec.structs.replace(agent, primary=agent.backup)
        return PendingModelCall(effect, agent, request, scale)

    async def call_in_task(self, live: LiveRun, call: PendingModelCall) -> None:
        if live.is_calling(call.effect):  # else it was cancelled before it began
            try:
                event = await self._call_handling_errors(live, call)
            except NotOwner as error:
                live.fail(error)
            else:
                self._answer(live, event)
            finally:
                live.begun.discard(call.effect.key)

    async def call_in_driver(self, live: LiveRun, call: PendingModelCall) -> IncomingEvent | None:
        """Makes a call in the driver's own task; returns None if the call is cancelled meanwhile."""
        live.alone = call.effect.key
        if live.inbox:
            live.start_pump_if_alone()
        try:
            event = await self._call_handling_errors(live, call)
        except asyncio.CancelledError:
            if not live.clear_call_cancellation():
                raise
            return None
        finally:
            live.alone = ""
            live.begun.discard(call.effect.key)
        if live.given_up:
            live.clear_call_cancellation()
        if self._hook is not None:
            self._hook("after effect")
        return event

    async def _call_handling_errors(self, live: LiveRun, call: PendingModelCall) -> ModelOutcome:
        """Asks the host where it decides itself, else the model.

        A failure is an outcome too; what the provider counted, or else the pieces before it, is paid for.
        """
        hooks, pieces_said = self._checks.hooks, _PiecesSaid(live, call.effect, self._shown_by)
        said = pieces_said.texts
        try:
            asks_host = call.effect.purpose or hooks.names
            if asks_host and (instead := await self._ask_host(live, call)) is not None:
                return instead
            is_cut = live.crew.settings.cut_on_signal
            listen = partial(ReplyScanner, live.run.table, call.agent.id) if is_cut else None
            if self._held.until or not self._slots.take_free():
                await self._wait_for_turn(live, call)
            try:
                live.require_lease()
                live.begun.add(call.effect.key)
                pieces = self._model_for(live.crew, call.agent, live.id).reply(call.request)
                tell, reason = pieces_said.add, pieces_said.add_reasoning
                holds_text = bool(self._unopened) and _name_of_model(call.agent) in self._unopened
                streamed = await read_reply(pieces, tell, reason, listen, holds_text=holds_text)
            finally:
                self._slots.give_back()
                if said:
                    self._on_reply_over(live, call.effect)
            if streamed.is_unopened:
                self._unopened.add(_name_of_model(call.agent))
            event = _reply_event(live, call, streamed, self._costs)
            if hooks.sees_replies:
                event = await self._judge_reply(live, call, streamed.reply, event)
            return await self._outputs.with_verdict(live, event) if live.run.table.outputs else event
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            gave_up = ModelUnavailable(f"the model gave up by itself: {error!r}")
            return self._failure_with_cost(live, call, gave_up, said)
        except (KeyboardInterrupt, GeneratorExit, NotOwner):  # the process, or this call, is to end
            raise
        except BaseException as error:  # a host's model may fail in any way; the run fails, and nothing else does
            return self._failure_with_cost(live, call, error, said)

    async def _wait_for_turn(self, live: LiveRun, call: PendingModelCall) -> None:
        """Waits until the provider takes calls again, then takes a slot.

        If others were told to wait while it waited for the slot, it waits again, without one.
        """
        while True:
            is_free = await self._held.wait_until_free(live, call.agent)
            if self._slots.take_free():
                return
            await self._slots.wait()
            if not is_free or not self._held.holds_back(live, call.agent):
                return
            self._slots.give_back()

    def _failure_with_cost(
        self, live: LiveRun, call: PendingModelCall, error: BaseException, said: list[str]
    ) -> ModelFailed:
        """The failure with what the provider counted, or else with an upper estimate for the pieces before it."""
        failed = _failure_of(call.effect, error)
        if isinstance(error, ModelUnavailable) and error.is_overloaded:
            self._held.on_overloaded(live, call.agent, failed.retry_after_ms)
        usage = error.usage if isinstance(error, PortError) else None
        if not (isinstance(usage, Usage) and usage.tokens):
            if not said:
                return failed
            usage = _estimate_usage(live, call, ModelReply(text="".join(said)))
        costs = cost_of if self._costs is None else self._costs(live.id)
        return msgspec.structs.replace(failed, usage=with_cost(call.agent, usage, costs))

    async def _ask_host(self, live: LiveRun, call: PendingModelCall) -> ModelOutcome | None:
        """What the host decides itself, or what its hooks say of the request; None if the model is to be called."""
        if call.effect.purpose and self._host_decisions.has(call.effect.purpose):
            return await self._host_decisions.reply(live, call.effect)
        return await self._checks.before_model(call)

    async def _judge_reply(
        self, live: LiveRun, call: PendingModelCall, reply: ModelReply, event: ModelReplied
    ) -> ModelReplied:
        """The event with what the hooks of the host made of the reply; its pieces were held back until now."""
        event = with_reply(event, *await self._checks.after_model(call, reply))
        if event.text and live.is_calling(call.effect):
            self._on_delta(live, call.effect, event.text)
            self._on_reply_over(live, call.effect)
        return event


class _PiecesSaid(msgspec.Struct):
    """The pieces of a reply so far, reasoning included. Each is shown, unless hooks see the reply first."""

    live: LiveRun
    call: CallModel
    shown_by: tuple[OnDelta, OnReasoning] | None
    texts: list[str] = []
    seq: int = -1
    is_awaited: bool = False

    def add(self, text: str) -> None:
        self.texts.append(text)
        if self.seq != self.live.run.state.seq:
            self._look_again()
        if self.is_awaited and self.shown_by is not None:
            self.shown_by[0](self.live, self.call, text)

    def add_reasoning(self, text: str, *, takes_back: bool = False) -> None:
        self.texts.append(text)
        if self.seq != self.live.run.state.seq:
            self._look_again()
        if self.is_awaited and self.shown_by is not None:
            self.shown_by[1](self.live, self.call, text, takes_back)

    def _look_again(self) -> None:
        """Only a record can cancel a call. A cancelled one may say some more; its run has continued without it."""
        self.seq, self.is_awaited = self.live.run.state.seq, self.live.is_calling(self.call)


def _with_hooked_request(live: LiveRun, effect: CallModel, request: ModelRequest) -> ModelRequest:
    """The request that a hook of the host gave instead, if it did."""
    turn = next(turn for turn in turns_by(live.run.state, effect.agent) if turn.call == effect.key)
    return with_replaced_request(request, turn.replaced) if turn.replaced else request


def _name_of_model(agent: AgentDefinition) -> ModelRef | str:
    return agent.primary or agent.id


def _is_being_cancelled() -> bool:
    """True if this task is to stop; a model may also raise `CancelledError` by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _reply_event(
    live: LiveRun, call: PendingModelCall, streamed: StreamedReply, costs: CostOfRun | None
) -> ModelReplied:
    require_sound(streamed.reply)
    reply, usage, uncached_micros = streamed.reply, streamed.reply.usage, 0
    is_estimated = (streamed.cut or reply.uncounted) and not usage.tokens
    if is_estimated:
        usage = _estimate_usage(live, call, reply)
    if reply.reasoning and not usage.reasoning_tokens:  # it was not counted apart
        usage = msgspec.structs.replace(usage, reasoning_tokens=min(usage.output_tokens, _tokens_of_reasoning(reply)))
    is_free = call.request.ending is not None and not reply.constrained
    if usage is not NO_USAGE or costs is not None:  # by the prices of a crew file, a call without counts costs nothing
        price = cost_of if costs is None else costs(live.id)
        if usage.cache_read_tokens or usage.cache_write_tokens:
            uncached_micros = cost_without_cache(call.agent, usage, price)
        usage = with_cost(call.agent, usage, price)
    return ModelReplied(
        call=call.effect.key,
        agent=call.effect.agent,
        text=reply.text if reply.text.isascii() else as_storable(reply.text),
        usage=usage,
        tool_calls=tuple(map(as_storable_call, reply.tool_calls)) if reply.tool_calls else (),
        estimate=_estimate_if_too_low(live, call, reply.usage.input_tokens) if reply.usage.input_tokens else 0,
        cut=streamed.cut,
        estimated=is_estimated,
        unconstrained=is_free and not streamed.cut and not reply.tool_calls,
        model=call.effect.model,
        purpose=call.effect.purpose,
        uncached_micros=uncached_micros,
        reasoning=tuple(map(as_storable_block, reply.reasoning)) if reply.reasoning else (),
    )


def _tokens_of_reasoning(reply: ModelReply) -> int:
    return sum(text_tokens(block.text) for block in reply.reasoning)


def _estimate_usage(live: LiveRun, call: PendingModelCall, reply: ModelReply) -> Usage:
    """An upper estimate of the tokens of a call that the provider did not count, or that was cut."""
    shown = live.conversation.estimate_of(call.agent.id, call.request.messages, call.scale)
    said = text_tokens(reply.text) + _tokens_of_reasoning(reply)
    said += sum(text_tokens(asked.name + asked.arguments) for asked in reply.tool_calls)
    tokens = shown + tokens_of_tools(call.request.tools)
    return msgspec.structs.replace(reply.usage, input_tokens=tokens, output_tokens=said)


def _estimate_if_too_low(live: LiveRun, call: PendingModelCall, reported: int) -> int:
    """The estimate, if the provider counted more."""
    estimate = live.conversation.estimate_of(call.agent.id, call.request.messages, call.scale)
    return estimate if reported > estimate else 0


def _failure_of(effect: CallModel, error: BaseException) -> ModelFailed:
    match error:
        case ScriptExhausted():
            return _failure_event(effect, error, retry=False, reason="script_exhausted")
        case PromptTooLong():
            return _failure_event(effect, error, retry=False, too_long=True)
        case ModelRefused():
            return _failure_event(effect, error, retry=False)
        case ModelUnavailable():
            return _failure_event(effect, error, retry=True, retry_after_ms=_clamp_retry_ms(error.retry_after_ms))
        case PortError():
            return _failure_event(effect, error, retry=True)
        case _:
            return _failure_event(effect, ModelRefused(f"{type(error).__name__}: {error}"), retry=False)


def _clamp_retry_ms(retry_after_ms: float) -> int:
    """Milliseconds that the journal can store, whatever a host's model said; the engine has its own limit."""
    return int(min(max(retry_after_ms, 0), RETRY_AFTER_SAID_MAX_MS))


def _failure_event(
    effect: CallModel,
    error: Exception,
    *,
    retry: bool,
    too_long: bool = False,
    reason: str = "model_error",
    retry_after_ms: int = 0,
) -> ModelFailed:
    return ModelFailed(
        call=effect.key,
        agent=effect.agent,
        error=as_storable(str(error)),
        retry=retry,
        too_long=too_long,
        reason=reason,
        retry_after_ms=retry_after_ms,
        model=effect.model,
    )
