"""Keys whose effect is seen in a run: two crews that differ in one value, and what a calm simulation of each gives."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from interlock import Interlock
from interlock.adapters.crews.crew_files import LoadedCrew
from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.crew.definition import CrewDefinition
from interlock.engine.effects import SetTimer
from interlock.engine.events import MessageGiven, RunStarted, ToolRequest, Usage
from interlock.engine.run import RULES, Run
from interlock.errors import ModelUnavailable, UsageError
from interlock.messages.frames import words_in_frames
from interlock.messages.host_types import MessageType
from interlock.ports import ModelReply, ModelRequest
from interlock.testing import Faults, Simulation, simulate

Look = Callable[[LoadedCrew], Any]
Line = str | ModelReply | Exception


@dataclass(frozen=True)
class Case:
    """A crew with a gap `<>`, two values for it, and what is seen with each."""

    crew: str
    one: str
    other: str
    look: Look
    seen: tuple[Any, Any]


class Talk:
    """Says its lines in order, whoever is asked, and then that it is done; notes what it was shown."""

    def __init__(self, lines: Sequence[Line], seconds: float = 0) -> None:
        self._lines, self._seconds = iter(lines), seconds
        self.asked: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        await asyncio.sleep(self._seconds)
        line = next(self._lines, "done [END]")
        if isinstance(line, Exception):
            raise line
        return line if isinstance(line, ModelReply) else ModelReply(text=line)


def simulated(loaded: LoadedCrew, talk: Talk, **how: Any) -> Simulation:
    assert loaded.crew is not None
    simulation = simulate(loaded.crew, seed=1, models=talk, faults=Faults.none(), answers=0, **how)
    simulation.require_lawful()
    return simulation


def reason(*lines: Line, seconds: float = 0, **how: Any) -> Look:
    """Why the run ends."""
    return lambda loaded: simulated(loaded, Talk(lines, seconds), **how).reason


def warned(*lines: Line, seconds: float = 0, **how: Any) -> Look:
    """The warnings of the run."""

    def look(loaded: LoadedCrew) -> list[str]:
        events = simulated(loaded, Talk(lines, seconds), **how).events
        return [event["code"] for event in events if event["type"] == "warning"]

    return look


def statuses(*lines: Line) -> Look:
    """How the members of a group ended, and the run."""

    def look(loaded: LoadedCrew) -> list[str]:
        simulation = simulated(loaded, Talk(lines))
        ended = [event["status"] for event in simulation.events if event["type"] == "branch.finished"]
        return [*ended, simulation.reason]

    return look


def took_long(*lines: Line) -> Look:
    """Whether it took more than ten seconds of virtual time."""
    return lambda loaded: simulated(loaded, Talk(lines)).virtual_ms > 10_000


def shown_last(*lines: Line, **how: Any) -> Look:
    """What the last call was shown."""

    def look(loaded: LoadedCrew) -> list[str]:
        talk = Talk(lines)
        simulated(loaded, talk, **how)
        return [message.text for message in talk.asked[-1].messages]

    return look


def asked_first(look_at: Callable[[ModelRequest], Any], *lines: Line) -> Look:
    """Something of the first call."""

    def look(loaded: LoadedCrew) -> Any:
        talk = Talk(lines)
        simulated(loaded, talk)
        return look_at(talk.asked[0])

    return look


def setting_of_model(key: str) -> Callable[[ModelRequest], Any]:
    return lambda request: getattr(request.settings, key)


def kept(look_at: Callable[[Interlock, CrewDefinition], Coroutine[Any, Any, Any]]) -> Look:
    """Something of a run in a data folder."""

    async def looked(crew: CrewDefinition) -> Any:
        with TemporaryDirectory() as folder:
            async with Interlock(folder, models=lambda _: "done [END]") as box:
                return await look_at(box, crew)

    def look(loaded: LoadedCrew) -> Any:
        assert loaded.crew is not None
        return asyncio.run(looked(loaded.crew))

    return look


async def organization(box: Interlock, crew: CrewDefinition) -> str:
    run = await box.start(crew, "go")
    await run.result()
    return (await box.journal.row(run.id)).organization


async def takes_two_kilobytes(box: Interlock, crew: CrewDefinition) -> bool:
    try:
        await (await box.start(crew, "x" * 2_000)).result()
    except UsageError:
        return False
    return True


HEAD = 'version: "2.0"\nentry_point: a\n'
ROUTES = (
    'routing: {signals: {a: [{signal: "[NEXT]", target: b}, {signal: "[END]"}],'
    ' b: [{signal: "[NEXT]", target: a}, {signal: "[END]"}]}}\n'
)


def calling(*, route: str = "", caps: str = "") -> str:
    """An agent that calls a crew and is told what came of it; the crew's agent may go on with itself."""
    return HEAD + (
        f"agents: [{{id: a}}]\nsub_crews: {{kid: {{config_path: kid{caps}}}}}\n"
        f'routing: {{signals: {{a: [{{signal: "[ASK]", type: sub_crew, target_crew: kid, on_error: return{route}}},'
        ' {signal: "[END]"}]}}\n'
    )


def shown_to_child(loaded: LoadedCrew) -> int:
    """How much the agent of the crew that is called is shown."""
    talk = Talk(["[ASK]"])
    simulated(loaded, talk)
    return len(next(request for request in talk.asked if request.path).messages)


def called(*lines: Line, seconds: float = 0) -> Look:
    """What the caller is shown when the crew that it called has come back."""

    def look(loaded: LoadedCrew) -> list[str]:
        talk = Talk(lines, seconds)
        simulated(loaded, talk)
        return [message.text for message in talk.asked[-1].messages]

    return look


def last_entry(*lines: Line, seconds: float = 0) -> Look:
    """What the caller was told last of the crew that it called."""

    def look(loaded: LoadedCrew) -> str:
        texts: list[str] = called(*lines, seconds=seconds)(loaded)
        return next(words_in_frames(text)[0] for text in reversed(texts) if text.startswith('<said by="kid"'))

    return look


AGAIN = ("so [AGAIN]", "and so [AGAIN]", "kid is done [END]")
CAME_BACK, BOUNDED = "kid is done", "the crew 'kid' did not complete: stopped, max_handoffs"
SPENDING = tuple(
    ModelReply(text=text, usage=Usage(input_tokens=400, output_tokens=100, cost_micros=400_000)) for text in AGAIN
)


def setting(keys: str) -> str:
    """Two agents that hand over to each other for ever, with these settings."""
    return HEAD + "agents: [{id: a}, {id: b}]\n" + ROUTES + f"settings: {{{keys}}}\n"


def agent(keys: str) -> str:
    return HEAD + f"agents: [{{id: a, {keys}}}, {{id: b}}]\n" + ROUTES


def group(keys: str) -> str:
    return (
        HEAD
        + "agents: [{id: a}, {id: b}, {id: c}]\n"
        + 'routing: {signals: {a: [{signal: "[FAN]", type: parallel, target: g}, {signal: "[END]"}]},'
        + f" parallel_groups: {{g: {{agents: [b, c], {keys}}}}}}}\n"
    )


def tool_crew(keys: str) -> str:
    return (
        'version: "1.0"\nentry_point: a\nagents: [{id: a, tools: [look]}]\n'
        + 'routing: {signals: {a: [{signal: "[END]"}]}}\n'
        + f"settings: {{retry_backoff_min_millis: 1, {keys}}}\n"
    )


TURNS = tuple(f"turn {n} [NEXT]" for n in range(3))
DEAR = tuple(
    ModelReply(text=f"turn {n} [NEXT]", usage=Usage(input_tokens=60, output_tokens=40, cost_micros=400_000))
    for n in range(3)
)
DOWN = tuple(ModelUnavailable("overloaded") for _ in range(9))
CHEAP = (ModelReply(text="one [END]", usage=Usage(input_tokens=60, output_tokens=40)),)
CACHED = (
    ModelReply(
        text="one [END]",
        usage=Usage(input_tokens=60, cache_read_tokens=40, cache_write_tokens=10, output_tokens=40),
    ),
)
CALL_TOOL = ModelReply(
    text="",
    tool_calls=(
        ToolRequest(id="1", name="look", arguments="{}"),
        ToolRequest(id="2", name="look", arguments="{}"),
    ),
)


async def look() -> str:
    """Takes ten seconds, and has much to say."""
    await asyncio.sleep(10)
    return "x" * 100


ENDED = "signal:[END]"


def stops(key: str, lines: Sequence[Line], low: str, high: str, why: str, more: str = "") -> Case:
    return Case(setting(f"{key}: <>{more}"), low, high, reason(*lines), (why, ENDED))


def agent_stops(key: str, lines: Sequence[Line], low: str, high: str, why: str) -> Case:
    return Case(agent(f"cost_limits: {{{key}: <>}}"), low, high, reason(*lines), (why, ENDED))


BROKEN: tuple[Line, ...] = (ModelUnavailable("overloaded"), ModelUnavailable("overloaded"), *TURNS)

GIVES = ScriptedAnswer(tool_calls=(ToolCall("delegate", {"to": "b", "task": "look"}),))
EMPTY = ScriptedAnswer(tool_calls=(ToolCall("report", {"result": ""}),))


def delegating(keys: str) -> str:
    head = 'version: "2.0"\nentry_point: a\nagents: [{id: a, is_terminal: true}, {id: b}]\n'
    return head + f"delegation: {{children: {{a: [b]}}, {keys}}}\n"


def settled(*replies_of_b: ScriptedAnswer, tasks: int = 1) -> Look:
    """What became of the tasks that the first agent gave to the second, in their order."""
    gives = ScriptedAnswer(tool_calls=GIVES.tool_calls * tasks)
    script = {"a": [gives, *[ScriptedAnswer(text="done")] * 3], "b": [*replies_of_b, ScriptedAnswer(text="seen")]}

    def look(loaded: LoadedCrew) -> list[str]:
        assert loaded.crew is not None
        simulation = simulate(loaded.crew, seed=1, script=script, faults=Faults.none(), answers=0)
        simulation.require_lawful()
        sent = [e["message"] for e in simulation.events if e["type"] == "message.sent" and not e["attempt"]]
        fates = {e["message_id"]: e["outcome"] for e in simulation.events if e["type"] == "message.settled"}
        return [fates[message["message_id"]] for message in sent if message["type"] == "DELEGATE"]

    return look


def waits_for_ack(loaded: LoadedCrew) -> list[int]:
    """How long a message of the host to an agent that has no turn may stay unacknowledged, in milliseconds."""
    assert loaded.crew is not None
    note = MessageType(type="NOTE", schema={"type": "object"}, from_=("@host",), to=("b",))
    run = Run(loaded.crew, "r")
    run.apply(RunStarted(crew="c", input="x", rules=RULES, messages=(note,)))
    effects = run.apply(MessageGiven(kind="NOTE", to="b", body={})).effects
    return [effect.duration_ms for effect in effects if isinstance(effect, SetTimer)]


SLOW = ScriptedAnswer(text="late", delay_seconds=5)
SHORT = ScriptedAnswer(text="ok")
TWICE = ["answered", "answered"]

RUNS: dict[str, Case] = {
    "delegation.select": Case(delegating("select: <>"), "all", "none", settled(), (["answered"], [])),
    "delegation.report_check": Case(
        delegating("select: all, report_check: <>"), "rules", "none", settled(EMPTY), (TWICE, ["answered"])
    ),
    "delegation.min_report_chars": Case(
        delegating("select: all, min_report_chars: <>"), "4", "1", settled(SHORT), (TWICE, ["answered"])
    ),
    "delegation.max_follow_ups": Case(
        delegating("select: all, max_follow_ups: <>"), "1", "0", settled(EMPTY), (TWICE, ["answered"])
    ),
    "delegation.ack_timeout_seconds": Case(
        delegating("select: all, ack_timeout_seconds: <>"), "1", "100", waits_for_ack, ([1_000], [100_000])
    ),
    "delegation.answer_timeout_seconds": Case(
        delegating("select: all, answer_timeout_seconds: <>"), "1", "100", settled(SLOW), (["timed_out"], ["answered"])
    ),
    "settings.max_handoffs": stops("max_handoffs", TURNS, "1", "3", "max_handoffs"),
    "settings.max_rounds": stops("max_rounds", ("hm", "hm, hm"), "2", "3", "max_rounds"),
    "settings.loop_window": Case(
        setting("loop_window: <>"), "20", "0", reason(*["again [NEXT]"] * 6), ("loop_detected", ENDED)
    ),
    "settings.timeout_warning_threshold_pct": Case(
        setting("timeout_seconds: 100, timeout_warning_threshold_pct: <>"),
        "10",
        "90",
        warned(*TURNS, seconds=5),
        (["timeout-near"], []),
    ),
    "settings.slow_call_threshold_seconds": Case(
        setting("slow_call_threshold_seconds: <>"), "1", "9", warned("one [END]", seconds=5), (["slow-call"], [])
    ),
    "settings.max_context_window": Case(
        setting("max_context_window: <>"),
        "460",
        "100000",
        lambda loaded: len(shown_last(*(f"{n} " + "word " * 50 + "[NEXT]" for n in range(9)))(loaded)),
        (4, 10),
    ),
    "settings.context_trim_percent": Case(
        setting("max_context_window: 655, context_trim_percent: <>"),
        "10",
        "80",
        lambda loaded: len(shown_last(*(f"{n} " + "word " * 50 + "[NEXT]" for n in range(6)))(loaded)),
        (6, 3),
    ),
    "settings.max_tool_output_chars": Case(
        tool_crew("max_tool_output_chars: <>"),
        "10",
        "99999",
        lambda loaded: shown_last(CALL_TOOL, tools=[look])(loaded)[-1],
        (f"{'x' * 10}\n[cut: 90 more characters]", "x" * 100),
    ),
    "settings.max_total_tool_output_chars": Case(
        tool_crew("max_total_tool_output_chars: <>"),
        "110",
        "99999",
        lambda loaded: shown_last(CALL_TOOL, tools=[look])(loaded)[-1],
        (f"{'x' * 10}\n[cut: 90 more characters]", "x" * 100),
    ),
    "settings.tool_execution_timeout_seconds": Case(
        tool_crew("tool_execution_timeout_seconds: <>"),
        "5",
        "50",
        lambda loaded: shown_last(CALL_TOOL, tools=[look])(loaded)[-1],
        ("error: tool 'look' took longer than 5 s", "x" * 100),
    ),
    "settings.tool_result_timeout_seconds": Case(
        tool_crew("tool_result_timeout_seconds: <>"),
        "5",
        "50",
        lambda loaded: shown_last(CALL_TOOL, tools=[look])(loaded)[-1],
        ("error: the tools of this reply took longer than 5 s", "x" * 100),
    ),
    "settings.retry_backoff_min_millis": Case(
        setting("retry_backoff_max_seconds: 60, retry_backoff_min_millis: <>"),
        "1000",
        "20000",
        took_long(*DOWN[:1], "one [END]"),
        (False, True),
    ),
    "settings.retry_backoff_max_seconds": Case(
        setting("retry_backoff_min_millis: 20000, retry_backoff_max_seconds: <>"),
        "1",
        "60",
        took_long(*DOWN[:1], "one [END]"),
        (False, True),
    ),
    # Budgets
    "settings.max_calls_per_minute": stops("max_calls_per_minute", TURNS, "2", "9", "budget:calls"),
    "settings.max_calls_per_hour": stops("max_calls_per_hour", TURNS, "2", "9", "budget:calls"),
    "settings.max_calls_per_day": stops("max_calls_per_day", TURNS, "2", "9", "budget:calls"),
    "settings.max_calls_per_run": stops("max_calls_per_run", TURNS, "2", "9", "budget:calls"),
    "settings.max_tokens_per_call": stops("max_tokens_per_call", TURNS, "3", "9999", "budget:tokens"),
    "settings.max_tokens_per_minute": stops("max_tokens_per_minute", DEAR, "150", "9999", "budget:tokens"),
    "settings.max_tokens_per_hour": stops("max_tokens_per_hour", DEAR, "150", "9999", "budget:tokens"),
    "settings.max_tokens_per_day": stops("max_tokens_per_day", DEAR, "150", "9999", "budget:tokens"),
    "settings.max_tokens_per_run": stops("max_tokens_per_run", DEAR, "150", "9999", "budget:tokens"),
    "settings.max_cost_per_call": Case(
        setting("max_cost_per_call: <>"), "0.3", "9", warned(*DEAR[:1]), (["budget-exceeded"], [])
    ),
    "settings.max_cost_per_minute": stops("max_cost_per_minute", DEAR, "0.5", "9", "budget:cost"),
    "settings.max_cost_per_hour": stops("max_cost_per_hour", DEAR, "0.5", "9", "budget:cost"),
    "settings.max_cost_per_day": stops("max_cost_per_day", DEAR, "0.5", "9", "budget:cost"),
    "settings.max_cost_per_run": stops("max_cost_per_run", DEAR, "0.5", "9", "budget:cost"),
    "settings.cost_alert_threshold": Case(
        setting("max_cost_per_run: 9, cost_alert_threshold: <>"), "0.1", "0.9", warned(*DEAR), (["budget-alert"], [])
    ),
    "settings.block_on_quota_exceed": Case(
        setting("max_calls_per_minute: 2, block_on_quota_exceed: <>"),
        "true",
        "false",
        lambda loaded: (reason(*TURNS)(loaded), warned(*TURNS)(loaded)),
        (("budget:calls", []), (ENDED, ["budget-wait"])),
    ),
    "settings.max_errors_per_hour": stops("max_errors_per_hour", BROKEN, "2", "9", "budget:errors"),
    "settings.max_errors_per_day": stops("max_errors_per_day", BROKEN, "2", "9", "budget:errors"),
    "settings.max_consecutive_errors": stops("max_consecutive_errors", BROKEN, "2", "9", "budget:errors"),
    "agents[].cost_limits": Case(
        agent("cost_limits: <>"), "{max_tokens_per_call: 3}", "{}", reason(*TURNS), ("budget:tokens", ENDED)
    ),
    "agents[].cost_limits.max_tokens_per_call": agent_stops("max_tokens_per_call", TURNS, "3", "9999", "budget:tokens"),
    "agents[].cost_limits.max_tokens_per_day": agent_stops("max_tokens_per_day", DEAR, "90", "9999", "budget:tokens"),
    "agents[].cost_limits.max_cost_per_day_usd": agent_stops("max_cost_per_day_usd", DEAR, "0.3", "9", "budget:cost"),
    "agents[].cost_limits.alert_threshold": Case(
        agent("cost_limits: {max_tokens_per_day: 500, alert_threshold: <>}"),
        "0.2",
        "0.9",
        warned(*DEAR),
        (["budget-alert"], []),
    ),
    "agents[].cost_limits.block_on_cost_exceed": Case(
        agent("cost_limits: {max_tokens_per_day: 90, block_on_cost_exceed: <>}"),
        "true",
        "false",
        lambda loaded: (reason(*DEAR)(loaded), warned(*DEAR)(loaded)),
        (("budget:tokens", []), (ENDED, ["budget-alert"])),
    ),
    "agents[].cost_limits.enforce": Case(
        agent("cost_limits: {max_tokens_per_day: 90, enforce: <>}"),
        "true",
        "false",
        reason(*DEAR),
        ("budget:tokens", ENDED),
    ),
    "agents[].cost_limits.input_token_price_per_million": Case(
        agent("cost_limits: {input_token_price_per_million: <>}"),
        "2",
        "0",
        lambda loaded: simulated(loaded, Talk(CHEAP)).events[-1]["usage"]["cost_micros"],
        (120, 0),
    ),
    "settings.input_token_price_per_million": Case(
        setting("input_token_price_per_million: <>"),
        "2",
        "0",
        lambda loaded: simulated(loaded, Talk(CHEAP)).events[-1]["usage"]["cost_micros"],
        (120, 0),
    ),
    "settings.output_token_price_per_million": Case(
        setting("output_token_price_per_million: <>"),
        "2",
        "0",
        lambda loaded: simulated(loaded, Talk(CHEAP)).events[-1]["usage"]["cost_micros"] > 0,
        (True, False),
    ),
    "agents[].cost_limits.output_token_price_per_million": Case(
        agent("cost_limits: {output_token_price_per_million: <>}"),
        "2",
        "0",
        lambda loaded: simulated(loaded, Talk(CHEAP)).events[-1]["usage"]["cost_micros"],
        (80, 0),
    ),
    "agents[].cost_limits.cache_read_token_price_per_million": Case(
        agent("cost_limits: {cache_read_token_price_per_million: <>}"),
        "2",
        "0.5",
        lambda loaded: simulated(loaded, Talk(CACHED)).events[-1]["usage"]["cost_micros"],
        (80, 20),
    ),
    "agents[].cost_limits.cache_write_token_price_per_million": Case(
        agent("cost_limits: {cache_write_token_price_per_million: <>}"),
        "2",
        "0.5",
        lambda loaded: simulated(loaded, Talk(CACHED)).events[-1]["usage"]["cost_micros"],
        (20, 5),
    ),
    "settings.cache_read_token_price_per_million": Case(
        setting("cache_read_token_price_per_million: <>"),
        "2",
        "0.5",
        lambda loaded: simulated(loaded, Talk(CACHED)).events[-1]["usage"]["cost_micros"],
        (80, 20),
    ),
    "settings.cache_write_token_price_per_million": Case(
        setting("cache_write_token_price_per_million: <>"),
        "2",
        "0.5",
        lambda loaded: simulated(loaded, Talk(CACHED)).events[-1]["usage"]["cost_micros"],
        (20, 5),
    ),
    "agents[].error_limits": Case(
        agent("error_limits: <>"), "{max_consecutive: 2}", "{}", reason(*BROKEN), ("budget:errors", ENDED)
    ),
    "agents[].error_limits.max_consecutive": Case(
        agent("error_limits: {max_consecutive: <>}"), "2", "9", reason(*BROKEN), ("budget:errors", ENDED)
    ),
    "agents[].error_limits.max_per_day": Case(
        agent("error_limits: {max_per_day: <>}"), "2", "9", reason(*BROKEN), ("budget:errors", ENDED)
    ),
    "agents[].error_limits.block_on_error_exceed": Case(
        agent("error_limits: {max_per_day: 2, block_on_error_exceed: <>}"),
        "true",
        "false",
        reason(*BROKEN),
        ("budget:errors", ENDED),
    ),
    "agents[].error_limits.enforce": Case(
        agent("error_limits: {max_per_day: 2, enforce: <>}"),
        "true",
        "false",
        reason(*BROKEN),
        ("budget:errors", ENDED),
    ),
    # What the model is shown
    "settings.language": Case(
        setting("language: <>"),
        "en",
        "vi",
        lambda loaded: shown_last("hm")(loaded)[-1].split()[0],
        ("Your", "Câu"),
    ),
    **{
        f"agents[].{field}": Case(
            agent(f'system_prompt: "You: {{{{{field}}}}}", {field}: <>'),
            "kind",
            "stern",
            asked_first(lambda request: request.system.splitlines()[0]),
            ("You: kind", "You: stern"),
        )
        for field in ("role", "description", "backstory")
    },
    "agents[].temperature": Case(
        agent("temperature: <>"), "0", "0.5", asked_first(lambda request: request.temperature), (0, 0.5)
    ),
    "agents[].top_k": Case(agent("top_k: <>"), "1", "5", asked_first(lambda request: request.top_k), (1, 5)),
    **{
        f"agents[].{key}": Case(agent(f"{key}: <>"), *written, asked_first(setting_of_model(key)), read)
        for key, written, read in (
            ("reasoning", ('"off"', "2000"), ("off", 2000)),
            ("cache", ('"off"', "1h"), ("off", "1h")),
            ("max_tokens", ("100", "200"), (100, 200)),
            ("seed", ("0", "7"), (0, 7)),
            ("stop", ("[END]", '["a", "b"]'), (("END",), ("a", "b"))),
            ("parallel_tool_calls", ("true", "false"), (True, False)),
            ("service_tier", ("flex", "priority"), ("flex", "priority")),
            ("extra", ("{a: [1]}", "{b: {c: null}}"), ({"a": [1]}, {"b": {"c": None}})),
        )
    },
    "agents[].top_p": Case(agent("top_p: <>"), "0.1", "0.5", asked_first(lambda request: request.top_p), (0.1, 0.5)),
    "settings.signal_mode": Case(
        setting("signal_mode: <>"),
        "text",
        "tool",
        asked_first(lambda request: [tool.name for tool in request.tools]),
        ([], ["emit_signal"]),
    ),
    "settings.cut_on_signal": Case(
        setting("cut_on_signal: <>"),
        "true",
        "false",
        lambda loaded: len(shown_last("so\n[END]\nand more")(loaded)),
        (1, 3),
    ),
    # What is kept
    "settings.organization": Case(setting("organization: <>"), "left", "right", kept(organization), ("left", "right")),
    "settings.max_input_size_kb": Case(
        setting("max_input_size_kb: <>"), "1", "2", kept(takes_two_kilobytes), (False, True)
    ),
    # Groups and signals
    "signals[].max_occurs": Case(
        HEAD + 'agents: [{id: a}, {id: b}]\nsignals: [{name: "[NEXT]", max_occurs: <>}]\n' + ROUTES,
        "1",
        "3",
        reason(*TURNS),
        ("max_occurs", ENDED),
    ),
    "routing.parallel_groups.*.wait_for_all": Case(
        group("wait_for_all: <>"),
        "true",
        "false",
        statuses("go [FAN]", "first", "second"),
        (["ok", "ok", ENDED], ["ok", "cancelled", ENDED]),
    ),
    "routing.parallel_groups.*.on_error": Case(
        group("on_error: <>"),
        "continue",
        "fail",
        lambda loaded: statuses("go [FAN]", *DOWN[:1], "fine", *DOWN[:2])(loaded)[-1],
        (ENDED, "group_failed"),
    ),
    # Crews that are called
    "routing.signals.*[].context": Case(calling(route=", context: <>"), "{}", "{history: 1}", shown_to_child, (1, 2)),
    "routing.signals.*[].context.history": Case(
        calling(route=", context: {history: <>}"), "1", "all", shown_to_child, (2, 3)
    ),
    "routing.signals.*[].context.return_history": Case(
        calling(route=", context: {return_history: <>}"), "0", "1", lambda loaded: len(called("[ASK]")(loaded)), (3, 4)
    ),
    "sub_crews.*.settings": Case(
        calling(caps=", settings: <>"), "{}", "{max_handoffs: 1}", last_entry("[ASK]", *AGAIN), (CAME_BACK, BOUNDED)
    ),
    "sub_crews.*.settings.max_handoffs": Case(
        calling(caps=", settings: {max_handoffs: <>}"), "9", "1", last_entry("[ASK]", *AGAIN), (CAME_BACK, BOUNDED)
    ),
    "sub_crews.*.settings.timeout_seconds": Case(
        calling(caps=", settings: {timeout_seconds: <>}"),
        "900",
        "2",
        last_entry("[ASK]", *AGAIN, seconds=1),
        (CAME_BACK, "the crew 'kid' did not complete: stopped, timeout"),
    ),
    "sub_crews.*.settings.max_calls_per_run": Case(
        calling(caps=", settings: {max_calls_per_run: <>}"),
        "9",
        "2",
        last_entry("[ASK]", *AGAIN),
        (CAME_BACK, "the crew 'kid' did not complete: stopped, budget:calls"),
    ),
    "sub_crews.*.settings.max_tokens_per_run": Case(
        calling(caps=", settings: {max_tokens_per_run: <>}"),
        "999999",
        "600",
        last_entry("[ASK]", *SPENDING),
        (CAME_BACK, "the crew 'kid' did not complete: stopped, budget:tokens"),
    ),
    "sub_crews.*.settings.max_cost_per_run": Case(
        calling(caps=", settings: {max_cost_per_run: <>}"),
        "9.0",
        "0.5",
        last_entry("[ASK]", *SPENDING),
        (CAME_BACK, "the crew 'kid' did not complete: stopped, budget:cost"),
    ),
}
