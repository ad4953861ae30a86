"""Where hooks of the host decide about model calls, tool calls, and the output of a run.

Rule 1: a verdict before a call is an event of its own, stored before the call is made; one after a call is stored with
the result. If no hook had anything to say, nothing is stored.
"""

import hashlib
import math
from typing import Any

import msgspec

from interlock.engine.effects import CheckOutput, RunTool
from interlock.engine.events import HookedReply, HooksDecided, HookVerdict, ModelReplied, ToolReturned
from interlock.engine.kinds import HookPoint, RunStatus
from interlock.engine.outputs.reply_value import read_value
from interlock.engine.state import TurnMessage
from interlock.engine.turns.hook_questions import sentence_of
from interlock.ports import ModelReply, ModelRequest, ToolSchema
from interlock.ports.hooks import HookCall, RunOutput
from interlock.runtime.calls.host_hooks import HostHooks
from interlock.runtime.calls.output_verdicts import OutputVerdicts
from interlock.runtime.calls.reply_stream import require_sound
from interlock.runtime.calls.storable import as_storable, as_storable_block, as_storable_call
from interlock.runtime.live_run import LiveRun, PendingModelCall


class ReplacedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that a hook may replace."""

    system: str
    messages: tuple[TurnMessage, ...]
    tools: tuple[ToolSchema, ...] = ()


class HookChecks:
    def __init__(self, hooks: HostHooks, outputs: OutputVerdicts) -> None:
        self.hooks, self.outputs = hooks, outputs

    async def before_model(self, call: PendingModelCall) -> HooksDecided | None:
        """The verdict on a request; None if the call may be made as it is."""
        if call.effect.hooked or not self.hooks.has(HookPoint.BEFORE_MODEL):
            return None
        judged = await self.hooks.judge(HookPoint.BEFORE_MODEL, call.request, _as_request)
        if judged.verdict is None:
            return None
        verdict = judged.verdict
        if judged.value is not call.request:
            verdict = msgspec.structs.replace(verdict, replacement=_request_json(judged.value))
        return HooksDecided(call=call.effect.key, agent=call.effect.agent, verdict=verdict)

    async def after_model(self, call: PendingModelCall, reply: ModelReply) -> tuple[ModelReply, dict[str, Any]]:
        """The reply to use, and what the event says of the hooks."""
        require_sound(reply)
        judged = await self.hooks.judge(HookPoint.AFTER_MODEL, reply, _as_reply, (call.request,))
        if judged.verdict is None:
            return reply, {}
        used = judged.value
        if judged.verdict.stopping_decision is not None:
            used = msgspec.structs.replace(reply, text="", tool_calls=())
        said: dict[str, Any] = {"verdict": judged.verdict}
        if used is not reply:
            said["original"] = _original(reply, keep=judged.keeps_original)
        if judged.verdict.stopping_decision is not None or not judged.keeps_original:
            said["reasoning"] = ()  # it may say what the reply must not
        elif used.reasoning != reply.reasoning:
            said["reasoning"] = tuple(map(as_storable_block, used.reasoning))
        return used, said

    async def before_tool(self, live: LiveRun, effect: RunTool) -> HooksDecided | None:
        """The verdict on a tool call; None if it may be made as it is."""
        if effect.hooked or not self.hooks.has(HookPoint.BEFORE_TOOL):
            return None
        call = _hook_call(live, effect)
        judged = await self.hooks.judge(HookPoint.BEFORE_TOOL, call, _as_call)
        if judged.verdict is None:
            return None
        verdict = judged.verdict
        if judged.value is not call:
            verdict = msgspec.structs.replace(verdict, replacement=_json_of(judged.value.arguments))
        return HooksDecided(call=effect.key, agent=effect.agent, verdict=verdict)

    async def after_tool(self, live: LiveRun, effect: RunTool, returned: ToolReturned) -> ToolReturned:
        """The result to use: a refused one, or one that a hook failed to look at, is withheld, with what it wrote."""
        if not self.hooks.has(HookPoint.AFTER_TOOL):
            return returned
        about = (_hook_call(live, effect),)
        judged = await self.hooks.judge(HookPoint.AFTER_TOOL, returned.output, _as_text, about)
        if judged.verdict is None:
            return returned
        stop = judged.verdict.stopping_decision
        if stop is not None:
            withheld = f"the result of '{effect.name}' is withheld: {sentence_of(stop)}"
            return msgspec.structs.replace(returned, ok=False, output=withheld, verdict=judged.verdict, memory={})
        used = msgspec.structs.replace(returned, output=as_storable(judged.value), verdict=judged.verdict)
        if judged.verdict.question:  # what it wrote waits for the answer, as its output does
            used = msgspec.structs.replace(used, memory={}, held_memory=returned.memory)
        return used

    async def on_output(self, live: LiveRun, effect: CheckOutput) -> HooksDecided:
        state, table = live.run.state, live.run.table
        is_typed = effect.status == RunStatus.COMPLETED and state.value is not msgspec.UNSET
        output = RunOutput(
            run=live.id,
            status=effect.status,
            reason=effect.reason,
            agent=state.agent,
            output=state.output,
            text=table.without_marks(state.output),
            value=state.value if is_typed else None,
        )

        def accept(given: Any, before: RunOutput) -> RunOutput:
            """The next hook sees the replacement in all of its forms: nothing of what was replaced is left."""
            text = _output_text(given, before)
            value = read_value(text, table.is_known_mark).value if is_typed else None
            return msgspec.structs.replace(before, output=text, text=table.without_marks(text), value=value)

        judged = await self.hooks.judge(HookPoint.ON_OUTPUT, output, accept)
        verdict = judged.verdict or HookVerdict(point=str(HookPoint.ON_OUTPUT))
        if judged.value is not output:
            verdict = msgspec.structs.replace(verdict, replacement=as_storable(judged.value.output))
        found = None
        if verdict.replacement is not None and verdict.stopping_decision is None:
            found = await self.outputs.of_replacement(live, effect, verdict.replacement)
        return HooksDecided(call=effect.key, agent=state.agent, verdict=verdict, output=found)


async def judge_input(hooks: HostHooks, text: str) -> tuple[str, HookVerdict | None]:
    """The input to use, and the verdict. What is refused, or could not be looked at, is not stored."""
    judged = await hooks.judge(HookPoint.ON_INPUT, text, _as_text)
    stopped = judged.verdict is not None and judged.verdict.stopping_decision is not None
    return ("" if stopped else as_storable(judged.value)), judged.verdict


def with_replaced_request(request: ModelRequest, replaced: str) -> ModelRequest:
    """The request with the parts that a hook gave instead, as the run keeps them."""
    given = msgspec.json.decode(replaced, type=ReplacedRequest)
    return msgspec.structs.replace(request, system=given.system, messages=given.messages, tools=given.tools)


def with_reply(event: ModelReplied, used: ModelReply, verdict: dict[str, Any]) -> ModelReplied:
    """The event with the reply that the hooks made of the model's."""
    if not verdict:
        return event
    calls = tuple(map(as_storable_call, used.tool_calls))
    return msgspec.structs.replace(event, text=as_storable(used.text), tool_calls=calls, **verdict)


def _request_json(request: ModelRequest) -> str:
    parts = ReplacedRequest(system=request.system, messages=tuple(request.messages), tools=request.tools)
    return _json_of(parts)


def _original(reply: ModelReply, *, keep: bool) -> HookedReply:
    if keep:
        return HookedReply(text=as_storable(reply.text), tool_calls=tuple(map(as_storable_call, reply.tool_calls)))
    return HookedReply(digest=hashlib.sha256(reply.text.encode("utf-8", "surrogatepass")).hexdigest())


def _hook_call(live: LiveRun, effect: RunTool) -> HookCall:
    return HookCall(
        name=effect.name,
        arguments=_decode_arguments(effect.arguments),
        agent=effect.agent,
        run=live.id,
        key=live.key(effect.idempotency_key or effect.key),
        user=live.run.state.user,
    )


def _decode_arguments(arguments: str) -> Any:
    try:
        given = msgspec.json.decode(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return given if isinstance(given, dict) else arguments


def _json_of(value: Any) -> str:
    """A value of a hook as JSON; raises `ValueError` for a number that JSON cannot represent."""
    plain = msgspec.to_builtins(value, str_keys=True)
    if not _is_finite(plain):
        raise ValueError("NaN and Infinity are not JSON")
    return as_storable(msgspec.json.encode(plain, order="deterministic").decode())


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _as_request(given: Any, request: ModelRequest) -> ModelRequest:
    if not isinstance(given, ModelRequest):
        raise TypeError(f"before_model must return a ModelRequest, Refuse, Ask or None, not {type(given).__name__}")
    same = msgspec.structs.replace(given, system=request.system, messages=request.messages, tools=request.tools)
    if same != request:
        raise ValueError("before_model may replace the system text, the messages and the tools of a request only")
    with_replaced_request(request, _request_json(given))
    return given


def _as_reply(given: Any, reply: ModelReply) -> ModelReply:
    if isinstance(given, str):
        return msgspec.structs.replace(reply, text=given)
    if not isinstance(given, ModelReply):
        raise TypeError(f"after_model must return text, a ModelReply, Refuse, Ask or None, not {type(given).__name__}")
    require_sound(given)
    reasoning, calls = tuple(given.reasoning), tuple(given.tool_calls)
    return msgspec.structs.replace(reply, text=given.text, tool_calls=calls, reasoning=reasoning)


def _as_call(given: Any, call: HookCall) -> HookCall:
    arguments = given.arguments if isinstance(given, HookCall) else given
    if not isinstance(arguments, dict):
        raise TypeError(f"before_tool must return arguments, a call, Refuse, Ask or None, not {type(given).__name__}")
    replaced = msgspec.structs.replace(call, arguments=arguments)
    if isinstance(given, HookCall) and given != replaced:
        raise ValueError("before_tool may replace the arguments of a call only")
    _json_of(arguments)
    return replaced


def _as_text(given: Any, _text: str) -> str:
    if not isinstance(given, str):
        raise TypeError(f"the replacement must be text, not {type(given).__name__}")
    return given


def _output_text(given: Any, output: RunOutput) -> str:
    """The output that a hook gives; a replaced value is the output as JSON."""
    text = given.output if isinstance(given, RunOutput) else given
    if not isinstance(text, str):
        raise TypeError(f"on_output must return text, a RunOutput, Refuse, Ask or None, not {type(given).__name__}")
    value = given.value if isinstance(given, RunOutput) else output.value
    if _json_of(value) == _json_of(output.value):  # equality of Python takes 1 for true
        return text
    if text != output.output:
        raise ValueError("on_output may replace the output or the value, not both")
    return _json_of(value)
