"""Carries out what a run orders, and brings back what came of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from interlock.broadcast.record import Heard
from interlock.crew.definition import Agent, Crew
from interlock.crew.tokens import BYTES_PER_TOKEN, text_tokens
from interlock.engine.budgets import CostOf, cost_of, priced
from interlock.engine.contract import usable_marks
from interlock.engine.conversation import UNSCALED
from interlock.engine.effects import (
    Announce,
    CallModel,
    Cancel,
    Effect,
    HandBack,
    MailRead,
    Reserve,
    RunTool,
    SetAlarm,
    SetTimer,
    Settle,
    StartChild,
    StopChild,
    TakeMail,
    Tell,
)
from interlock.engine.emitting import DESCRIPTION, EMIT_SIGNAL, is_tool_mode, parameters
from interlock.engine.events import (
    ApprovalNeeded,
    IncomingEvent,
    MailTaken,
    ModelFailed,
    ModelReplied,
    Reserved,
    TimerFired,
    ToolOutcomeLost,
    ToolRequest,
    ToolReturned,
    Usage,
)
from interlock.engine.listening import Listener
from interlock.engine.own_tools import OF_PLACE, shown_to
from interlock.engine.phrases import cut
from interlock.engine.state import RunState, Turn, turns_by
from interlock.engine.transition import CHECK, SELECT
from interlock.errors import (
    ModelRefused,
    ModelUnavailable,
    PortError,
    PromptTooLong,
    RunError,
    ScriptExhausted,
    StoreFailed,
    ToolFailed,
    WrongArguments,
)
from interlock.ports import (
    Budgets,
    Clock,
    Grant,
    Model,
    ModelReply,
    ModelRequest,
    Reservation,
    Settlement,
    Toolbox,
    ToolSchema,
)
from interlock.runtime.bus_tools import BUS_TOOLS, Caller, run_bus_tool
from interlock.runtime.children import Children
from interlock.runtime.hearing import HeardOut, heard_out, heard_to_the_cut, require_sound
from interlock.runtime.holding import while_away
from interlock.runtime.judging import Judges
from interlock.runtime.live import STOPPING, Call, LiveRun
from interlock.runtime.switchboard import NO_MAIL, Mail, Switchboard, taking
from interlock.runtime.timers import Timers

ModelFor = Callable[[Crew, Agent], Model]
OnDelta = Callable[[LiveRun, str, str], None]
OnAlarm = Callable[[LiveRun, SetAlarm], None]
# Told before and after each effect; what tests kill the process with.
Hook = Callable[[str], None]


# Nobody who says more than a day means it.
RETRY_AFTER_SAID_MAX_MS = 86_400_000

NO_GRANTS: Mapping[str, Grant] = {}


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
        on_delta: OnDelta,
        budgets: Budgets,
        calls_max: int,
        hook: Hook = no_hook,
        cost_of: CostOf = cost_of,
        on_alarm: OnAlarm,
        judges: Judges,
        children: Children,
        board: Switchboard,
    ) -> None:
        self.on_alarm, self.judges = on_alarm, judges
        self.clock, self.timers = clock, timers
        self.model_for, self.toolbox = model_for, toolbox
        self.on_delta, self.budgets = on_delta, budgets
        self.hook, self.cost_of, self.children, self.board = hook, cost_of, children, board
        # Waiters are served in the order they came, so that no run starves.
        self.slots, self._calls_max = asyncio.Semaphore(calls_max), calls_max
        self.tools_under_way = 0

    async def hold_calls(self) -> None:
        """Lets no further call begin, and waits until those under way are over."""
        for _ in range(self._calls_max):
            await self.slots.acquire()

    def spending(self, live: LiveRun, effects: Sequence[Effect], at: int) -> tuple[Reservation | Settlement, ...]:
        """What the store is asked to do about budgets. Bounds of a call or a run alone are no business of its."""
        if not any(isinstance(effect, Reserve | Settle) for effect in effects):
            return ()
        orders: list[Reservation | Settlement] = []
        for effect in effects:
            if isinstance(effect, Reserve):
                orders.append(self._reservation(live, effect, at))
            elif isinstance(effect, Settle):
                orders.append(_settlement(live, effect, at))
        return tuple(order for order in orders if live.run.budgets.of(order.agent).of_windows)

    def perform(
        self,
        live: LiveRun,
        effects: Sequence[Effect],
        grants: Mapping[str, Grant] = NO_GRANTS,
        mail: Mail = NO_MAIL,
    ) -> None:
        lone = _lone_call(effects) if live.may_call_alone else None
        for effect in effects:
            self.hook("before effect")
            match effect:
                case CallModel() if effect is lone:
                    live.lone = self._call(live, effect)
                case CallModel():
                    self._start(live, effect.key, self._call_model(live, self._call(live, effect)))
                case RunTool():
                    self._start(live, effect.key, self._run_tool(live, effect))
                case StartChild() | StopChild():
                    self._see_to_child(live, effect)
                case SetTimer() | SetAlarm():
                    self._set_timer(live, effect)
                case Cancel():
                    self._give_up(live, effect.key)
                case Reserve() | TakeMail():
                    self._pass_on(live, effect, grants, mail)
                case Settle() | Tell() | Announce() | MailRead() | HandBack():
                    pass  # done in the transaction of the record, or by whoever hears of it

    def lose_tools(
        self,
        live: LiveRun,
        effects: Sequence[Effect],
        grants: Mapping[str, Grant] = NO_GRANTS,
        mail: Mail = NO_MAIL,
    ) -> None:
        """After a crash or parking: what may have run and cannot be run again is for a person to decide."""
        again: list[Effect] = []
        for effect in effects:
            if isinstance(effect, RunTool) and not self._may_run_again(effect):
                self._answer(live, ToolOutcomeLost(call=effect.key))
            else:
                again.append(effect)
        self.perform(live, again, grants, mail)

    def _pass_on(self, live: LiveRun, effect: Reserve | TakeMail, grants: Mapping[str, Grant], mail: Mail) -> None:
        """What the store has answered already."""
        if isinstance(effect, Reserve):
            self._reserve(live, effect, grants.get(live.key(effect.key)))
        else:
            self._take_mail(live, effect, mail.get(live.key(effect.key)))

    def _may_run_again(self, effect: RunTool) -> bool:
        """Also what was never run: it waits for an approval that nobody was asked for yet."""
        return effect.name in BUS_TOOLS or self.toolbox.is_idempotent(effect.name) or self._is_held(effect)

    def _is_held(self, effect: RunTool) -> bool:
        return self.toolbox.needs_approval(effect.name) and not effect.approved

    def _take_mail(self, live: LiveRun, effect: TakeMail, mail: tuple[Heard, ...] | None) -> None:
        if mail is not None:
            self._answer(live, MailTaken(call=effect.key, agent=effect.agent, heard=mail))
        else:  # the answer was lost with the process that asked
            self._start(live, effect.key, self._take_again(live, effect))

    async def _take_again(self, live: LiveRun, effect: TakeMail) -> None:
        try:
            mail = await while_away(self.clock, lambda: self.board.bus.take(taking(live, effect)))
        except StoreFailed as error:
            live.fail(error)
        else:
            self._answer(live, MailTaken(call=effect.key, agent=effect.agent, heard=mail))

    def _see_to_child(self, live: LiveRun, order: StartChild | StopChild) -> None:
        if isinstance(order, StartChild):
            self._start(live, order.key, self._follow_child(live, order))
        else:
            live.give_up(order.key)
            self._start(live, f"{STOPPING}{order.key}", self._stop_child(live, order))

    def follow_child(self, live: LiveRun, key: str) -> None:
        """A child that has gone on is followed again, unless it still is."""
        order = next((each for each in live.run.outstanding() if each.key == key), None)  # none while it is parked
        if isinstance(order, StartChild) and key not in live.tasks:
            self._start(live, key, self._follow_child(live, order))

    async def _follow_child(self, live: LiveRun, order: StartChild) -> None:
        try:
            event = await while_away(self.clock, lambda: self.children.outcome(live, order))
        except Exception as error:  # the child cannot be driven here, and neither can this run
            live.fail(error)
            return
        if event is not None:
            self._answer(live, event)

    async def _stop_child(self, live: LiveRun, order: StopChild) -> None:
        try:
            event = await while_away(self.clock, lambda: self.children.stopped(order))
        except Exception as error:  # the child is in other hands, and so will this run be
            live.fail(error)
        else:
            self._answer(live, event)

    def _start(self, live: LiveRun, key: str, work: Awaitable[None]) -> None:
        live.own(key, asyncio.ensure_future(work))

    def _give_up(self, live: LiveRun, key: str) -> None:
        self.timers.give_up(live.key(key))
        live.give_up(key)

    def _set_timer(self, live: LiveRun, effect: SetTimer | SetAlarm) -> None:
        if isinstance(effect, SetAlarm):
            self.on_alarm(live, effect)
            return
        fired = TimerFired(timer=effect.key)
        self.timers.set(live.key(effect.key), effect.duration_ms, lambda: self._answer(live, fired))

    def _answer(self, live: LiveRun, event: IncomingEvent) -> None:
        self.hook("after effect")
        live.tell(event)

    def _reserve(self, live: LiveRun, effect: Reserve, grant: Grant | None) -> None:
        order = self._reservation(live, effect, self.clock.now_ms())
        if grant is not None or not order.limits:
            self._answer(live, _reserved(effect, order, grant or Grant()))
        else:  # the answer was lost with the process that asked
            self._start(live, effect.key, self._reserve_again(live, effect, order))

    async def _reserve_again(self, live: LiveRun, effect: Reserve, order: Reservation) -> None:
        try:
            (grant,) = await while_away(self.clock, lambda: self.budgets.spend(live.row, (order,)))
        except (RunError, StoreFailed) as error:  # the run belongs to somebody else by now, or nobody can store
            live.fail(error)
        else:
            self._answer(live, _reserved(effect, order, grant))

    def _reservation(self, live: LiveRun, effect: Reserve, at: int) -> Reservation:
        state, turn = live.run.state, _turn(live, effect)
        budget = live.run.budgets.of(effect.agent)
        model = budget.agent.model(backup=turn.backup)
        asked = msgspec.structs.replace(budget.agent, primary=model) if turn.backup else budget.agent
        tokens = live.conversation.estimate(state.history, turn, state.scales.get(effect.agent, UNSCALED))
        tokens += _tokens_of(self._tools(live, budget.agent, turn))
        return Reservation(
            key=live.key(effect.key),
            crew=live.crew.name,
            agent=effect.agent,
            at=at,
            tokens=tokens,
            cost_micros=self.cost_of(asked, tokens, 0) or 0,
            limits=budget.of_windows,
            provider=model.server if model is not None else "",
        )

    def _call(self, live: LiveRun, effect: CallModel) -> Call:
        """Made ready at once: by the time it is made, the run may have moved on."""
        state, agent, turn = live.run.state, live.conversation.agent(effect.agent), _turn(live, effect)
        scale, group = state.scales.get(agent.id, UNSCALED), _group(live, turn)
        request = ModelRequest(
            key=live.key(effect.key),
            agent=agent.id,
            number=effect.number,
            purpose=effect.purpose,
            purpose_number=effect.purpose_number,
            system=live.conversation.instructions_of(turn, group),
            messages=live.conversation.messages(state.history, turn, scale),
            tools=self._tools(live, agent, turn),
            temperature=agent.temperature,
            top_p=agent.top_p,
            top_k=agent.top_k,
            ending=live.conversation.ending_of(turn, group),
            path=state.way or state.path,
        )
        if effect.model:
            agent = msgspec.structs.replace(agent, primary=agent.backup)
        return Call(effect, agent, request, scale)

    def _tools(self, live: LiveRun, agent: Agent, turn: Turn) -> tuple[ToolSchema, ...]:
        """The agent's own, first the host's and then Interlock's, and how it steers where that is a tool."""
        if turn.kind in (SELECT, CHECK):
            return ()
        schemas = (*self.toolbox.schemas(agent.tools), *own_schemas(live.crew, agent, turn, live.run.state))
        if not is_tool_mode(live.crew) or turn.kind:
            return schemas
        names = [route.signal for route in usable_marks(live.crew, agent.id, _group(live, turn)).routes]
        emit = ToolSchema(name=EMIT_SIGNAL, description=DESCRIPTION, parameters=parameters(names))
        return (*schemas, emit) if names else schemas

    async def _call_model(self, live: LiveRun, call: Call) -> None:
        if live.is_calling(call.effect):  # else it was given up before it began
            self._answer(live, await self.outcome_of(live, call))

    async def await_lone_call(self, live: LiveRun, call: Call) -> IncomingEvent | None:
        """In the driver's own task; nothing comes of it if it is given up meanwhile."""
        try:
            event = await self.outcome_of(live, call)
        except asyncio.CancelledError:
            if not live.was_given_up():
                raise
            return None
        finally:
            live.alone = ""
        live.was_given_up()
        self.hook("after effect")
        return event

    async def outcome_of(self, live: LiveRun, call: Call) -> IncomingEvent:
        """Calls the model; a failure is an outcome too, and what was heard before it is paid for."""
        said: list[str] = []
        event = await self._outcome(live, call, said)
        if said and isinstance(event, ModelFailed):
            usage = priced(call.agent, _estimated(live, call, ModelReply(text="".join(said))), self.cost_of)
            return msgspec.structs.replace(event, usage=usage)
        return event

    async def _said(self, live: LiveRun, call: Call, said: list[str]) -> ModelReplied:
        """By the model, or by the host where it decides itself."""
        if call.effect.purpose and self.judges.has(call.effect.purpose):
            return await self.judges.reply(live, call.effect)
        async with self.slots:
            return _replied(live, call, await self._heard(live, call, said), self.cost_of)

    async def _outcome(self, live: LiveRun, call: Call, said: list[str]) -> ModelReplied | ModelFailed:
        effect = call.effect
        try:
            return await self._said(live, call, said)
        except ScriptExhausted as error:
            return _failed(effect, error, retry=False, reason="script_exhausted")
        except PromptTooLong as error:
            return _failed(effect, error, retry=False, too_long=True)
        except ModelRefused as error:
            return _failed(effect, error, retry=False)
        except ModelUnavailable as error:
            return _failed(effect, error, retry=True, retry_after_ms=_waitable(error.retry_after_ms))
        except PortError as error:
            return _failed(effect, error, retry=True)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return _failed(effect, ModelUnavailable(f"the model gave up by itself: {error!r}"), retry=True)
        except (KeyboardInterrupt, GeneratorExit):  # somebody wants the process, or this call of it, to end
            raise
        except BaseException as error:  # a host's model may fail in any way; the run fails, and nothing else does
            return _failed(effect, ModelRefused(f"{type(error).__name__}: {error}"), retry=False)

    async def _heard(self, live: LiveRun, call: Call, said: list[str]) -> HeardOut:
        pieces = self.model_for(live.crew, call.agent).reply(call.request)

        def tell(text: str) -> None:
            said.append(text)
            if live.is_calling(call.effect):  # a call that was stopped may say some more; its run has moved on
                self.on_delta(live, call.agent.id, text)

        try:
            if not live.crew.settings.cut_on_signal:
                return await heard_out(pieces, tell)
            return await heard_to_the_cut(pieces, tell, partial(Listener, live.run.table, call.agent.id))
        finally:
            if isinstance(pieces, AsyncGenerator):  # left open, the loop would close it in a task that nobody owns
                await pieces.aclose()

    async def _run_tool(self, live: LiveRun, effect: RunTool) -> None:
        if not live.is_awaiting(effect):  # it was given up before it began
            return
        agent = live.conversation.agent(effect.agent)
        seconds = live.crew.settings.tool_execution_timeout_seconds
        ok = False
        self.tools_under_way += 1
        try:
            self._require_own(live, agent, effect)
            if self._is_held(effect):
                self._answer(live, ApprovalNeeded(call=effect.key))
                return
            async with asyncio.timeout(seconds):
                output = await self._output_of(live, effect)
            ok = True
        except TimeoutError:
            output = f"tool '{effect.name}' took longer than {seconds:g} s"
        except ToolFailed as error:
            if effect.edited and isinstance(error, WrongArguments):  # the person who wrote them can write others
                self._answer(live, ApprovalNeeded(call=effect.key, fault=storable(str(error))))
                return
            output = str(error)
        finally:
            self.tools_under_way -= 1
        most = live.crew.settings.max_tool_output_chars
        self._answer(live, ToolReturned(call=effect.key, ok=ok, output=cut(storable(output), most)))

    async def _output_of(self, live: LiveRun, effect: RunTool) -> str:
        key = live.key(effect.idempotency_key or effect.key)
        if effect.name not in BUS_TOOLS:
            return await self.toolbox.run(effect.name, effect.arguments, key=key)
        hops = live.at_work.get(effect.agent, 0)
        caller = Caller(crew=live.crew.name, agent=effect.agent, key=key, now=self.clock.now_ms(), hops=hops)
        try:
            output = await run_bus_tool(self.board.bus, effect.name, effect.arguments, caller)
        except StoreFailed as error:
            raise ToolFailed(str(error)) from error
        self.board.scheduled()
        return output

    def _require_own(self, live: LiveRun, agent: Agent, effect: RunTool) -> None:
        """A model calls a tool by the name that it was shown, which need not be the one in the crew file."""
        turns, name = turns_by(live.run.state, effect.agent), effect.name
        mine = [turn for turn in turns for tool in turn.tools if tool.key == effect.key]
        own = [schema for turn in mine for schema in own_schemas(live.crew, agent, turn, live.run.state)]
        shown = tuple(schema.name for schema in (*self.toolbox.schemas(agent.tools), *own))
        if name in OF_PLACE or (name not in shown and name not in agent.tools):
            unshown = (tool for tool in agent.tools if not tool.startswith("mcp:"))
            owned = ", ".join(dict.fromkeys((*unshown, *shown))) or "none"
            raise ToolFailed(f"agent '{agent.id}' has no tool '{name}'; it has {owned}")


def own_schemas(crew: Crew, agent: Agent, turn: Turn, state: RunState) -> tuple[ToolSchema, ...]:
    """What a model is told of the tools that Interlock itself carries out."""
    if not agent.tools and not turn.children and not turn.kind and not turn.owes:  # nearly always
        return ()
    inside = tuple(
        ToolSchema(name=name, description=description, parameters=parameters)
        for name, description, parameters in shown_to(crew, agent, turn, state)
    )
    return (*inside, *(BUS_TOOLS[name].schema for name in agent.tools if name in BUS_TOOLS))


def _lone_call(effects: Sequence[Effect]) -> CallModel | None:
    """The one thing to be done, if it is a call."""
    if len(effects) == 1:
        return effects[0] if isinstance(effects[0], CallModel) else None
    work = [effect for effect in effects if isinstance(effect, CallModel | RunTool | Reserve | TakeMail)]
    return work[0] if len(work) == 1 and isinstance(work[0], CallModel) else None


def answers(orders: Sequence[Reservation | Settlement], grants: Sequence[Grant]) -> Mapping[str, Grant]:
    """What the store said, by the key of what it was asked."""
    if not grants:
        return NO_GRANTS
    asked = [order.key for order in orders if isinstance(order, Reservation)]
    return dict(zip(asked, grants, strict=True))


def _reserved(effect: Reserve, order: Reservation, grant: Grant) -> Reserved:
    return Reserved(
        call=effect.key,
        agent=effect.agent,
        tokens=order.tokens,
        cost_micros=order.cost_micros,
        refused=grant.refused,
        what=grant.what,
        then=grant.then,
        wait_ms=grant.wait_ms,
        alerts=grant.alerts,
        above=grant.above,
        most=grant.most,
        used=grant.used,
        exceeded=grant.exceeded,
    )


def _settlement(live: LiveRun, effect: Settle, at: int) -> Settlement:
    return Settlement(
        key=live.key(effect.key),
        crew=live.crew.name,
        agent=effect.agent,
        at=at,
        usage=effect.usage,
        failed=effect.failed,
        provider=effect.provider,
        crews_above=live.run.crews_above,
    )


def storable(text: str) -> str:
    """The text with half characters replaced: UTF-8 has no form for lone surrogates, and neither has the journal."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def _storable_call(call: ToolRequest) -> ToolRequest:
    return ToolRequest(id=storable(call.id), name=storable(call.name), arguments=storable(call.arguments))


def _turn(live: LiveRun, effect: CallModel | Reserve) -> Turn:
    """The turn that has just ordered something."""
    floor = live.run.state.turn
    if floor is not None and floor.number == effect.turn:  # nearly always
        return floor
    return next(turn for turn in turns_by(live.run.state, effect.agent) if turn.number == effect.turn)


def _group(live: LiveRun, turn: Turn) -> str:
    """The group that the turn is a member's of."""
    group = live.run.state.group
    if group is None:
        return ""
    return group.name if any(branch.turn is turn for branch in group.branches) else ""


def _replied(live: LiveRun, call: Call, heard: HeardOut, cost_of: CostOf) -> ModelReplied:
    require_sound(heard.reply)
    reply, usage = heard.reply, heard.reply.usage
    is_estimated = (heard.cut or reply.uncounted) and not usage.tokens
    if is_estimated:
        usage = _estimated(live, call, reply)
    is_free = call.request.ending is not None and not reply.constrained
    return ModelReplied(
        call=call.effect.key,
        agent=call.effect.agent,
        text=storable(reply.text),
        usage=priced(call.agent, usage, cost_of),
        tool_calls=tuple(map(_storable_call, reply.tool_calls)) if reply.tool_calls else (),
        estimate=_missed_estimate(live, call, reply.usage.input_tokens) if reply.usage.input_tokens else 0,
        cut=heard.cut,
        estimated=is_estimated,
        unconstrained=is_free and not heard.cut and not reply.tool_calls,
        model=call.effect.model,
        purpose=call.effect.purpose,
    )


def _estimated(live: LiveRun, call: Call, reply: ModelReply) -> Usage:
    """An upper estimate of the tokens of a call, where the provider said nothing of them, or was stopped before."""
    shown = live.conversation.estimate_of(call.agent.id, call.request.messages, call.scale)
    said = text_tokens(reply.text) + sum(text_tokens(asked.name + asked.arguments) for asked in reply.tool_calls)
    tokens = shown + _tokens_of(call.request.tools)
    return msgspec.structs.replace(reply.usage, input_tokens=tokens, output_tokens=said)


def _tokens_of(tools: Sequence[ToolSchema]) -> int:
    return len(msgspec.json.encode(tools)) // BYTES_PER_TOKEN


def _waitable(retry_after_ms: float) -> int:
    """Milliseconds as the journal takes them, whatever a host's model said; the engine has a bound of its own."""
    return int(min(max(retry_after_ms, 0), RETRY_AFTER_SAID_MAX_MS))


def _is_being_cancelled() -> bool:
    """Whether somebody wants this task to stop; a model may also raise what looks like it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _missed_estimate(live: LiveRun, call: Call, reported: int) -> int:
    """What was estimated, if the provider counted more."""
    estimate = live.conversation.estimate_of(call.agent.id, call.request.messages, call.scale)
    return estimate if reported > estimate else 0


def _failed(
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
        error=storable(str(error)),
        retry=retry,
        too_long=too_long,
        reason=reason,
        retry_after_ms=retry_after_ms,
        model=effect.model,
    )
