"""Stories of runs, one a file: a command, then what it must lead to.

A file holds a title, a crew, then steps. Each step is a command, a line of dashes, and the facts and orders it gave:

    sub NAME             a sub-crew, in YAML, in a folder of that name; before the crew that calls it
    crew                 the crew, in YAML, without version and name; `crew 1.0` is an old one
    start TEXT           a run begins; `continue TEXT` begins another from the history of this one
    pass MS              so much working time goes by before the next event
    reply AGENT: TEXT    the model of AGENT answers; `\\n` is a line break
    think TEXT           the model whose reply is told next has reasoned this; `think P: TEXT` for provider P, signed
    tools AGENT: A, B    the model of AGENT calls tools A and B; `tools AGENT: A | TEXT` says something with it
    use AGENT: TOOL JSON the model of AGENT calls one tool with these arguments; ` + ` stands between several
    emit AGENT: X, Y     the model of AGENT emits signals X and Y; `+A` calls tool A beside them, `| TEXT` as for tools
    typed AGENT: JSON | TEXT   like reply, with the verdict of the host on the value in TEXT
    free AGENT: TEXT     like reply, from a model that could not be held to its ending
    output TOOL: TEXT    the tool gives its output; `broke TOOL: TEXT` is an error, `lost TOOL` an unknown outcome
    fail AGENT: TEXT     the model call fails; `refuse AGENT: TEXT` fails it for good
    busy AGENT: MS       the model call fails, and the provider asks to be left alone for so long
    overlong AGENT: TEXT the provider finds the conversation too long
    room AGENT: TOKENS   the budgets have room for a call of so many tokens, at two millionths of a dollar each
    noroom AGENT: LIMIT  a limit is in the way; `noroom AGENT: LIMIT MS` is one to wait for
    after PURPOSE        the timer of PURPOSE fires
    withhold TOOL: JSON  the tool gives its output and writes JSON to the memory; a hook asks a person about both
    held TOOL            the tool needs an approval, and was not run
    asks TOOL: JSON      the tool needs an approval on these terms, and was not run
    decide TOOL: JSON    the host has decided about the call of the tool, which was not run
    hold TEXT            like resume, by a person who may approve later calls too
    expire #2            nobody has answered the question of that token in time
    type JSON            the host has registered a message type; `given TYPE to AGENT: BODY` sends one
    resume TEXT          the oldest wait is answered; `answer #2: TEXT` answers the one of that token
    child C: TEXT        the sub-crew C comes back with TEXT; `child C wrote {…}: TEXT` with memory it wrote,
                         `child C said A B: TEXT` with so much of what was said there, `child C failed: REASON` without
                         a result, also `stopped`, `cancelled` and `above1`, a bound of this run that it has reached;
                         `child C stopped WORDS: REASON` after it has said something
    child C waits: AGENT nothing in C can go on before AGENT gets an answer; `child C goes: on` when it gets one
    cancel               somebody cancels the run
    broken TEXT          the process cannot drive the run
    park                 a person stops the process that drives the run; `unpark` continues it
    mail AGENT, AGENT    the agents have mail, as far as the next event is told
    taken AGENT: X, Y    the store gives AGENT its mail: broadcasts of types X and Y; `taken AGENT:` is none
    hear AGENT: X        the bus brings AGENT a broadcast of type X to act on; `hear AGENT: X 5` has five hops
    wake AGENT: X        a run begins at AGENT because of a broadcast of type X
    history              shows what is shared
    view AGENT           shows what the model of AGENT is shown
    letters              shows what is open between agents, and what became of the rest
    waits                shows what is waited for, oldest first
    counts               shows where the run stands

Changed output is rewritten by `python tests/engine/test_scenarios.py`; read its diff before you commit it.
After every step the state must survive a trip through JSON, what is still owed must be what was ordered and neither
answered nor given up, and no key may be used twice; in the end a replay of the events must give the same facts.
`coverage.yaml` says which sentence is shown where.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from interlock.adapters.crews.crew_files import read_crew
from interlock.broadcast.record import Broadcast, ReceivedBroadcast, Source
from interlock.crew.definition import CrewDefinition
from interlock.engine.effects import (
    AckInbox,
    CallModel,
    Cancel,
    CheckOutput,
    ClaimInbox,
    Effect,
    HandBackBroadcast,
    PublishBroadcast,
    Reserve,
    ReserveAgain,
    RunTool,
    SendExternalSignal,
    SetAlarm,
    SetTimer,
    Settle,
    StartChild,
    StopChild,
    StoreApproval,
)
from interlock.engine.events import (
    ApprovalNeeded,
    ApprovalTerms,
    BroadcastHeard,
    CancelRequested,
    ChildContinues,
    ChildReturned,
    ChildWait,
    ChildWaits,
    Decided,
    DerivedEvent,
    DriveFailed,
    Entry,
    HookDecision,
    HookOutcome,
    HooksDecided,
    HookVerdict,
    HostNeeds,
    IncomingEvent,
    InputExpired,
    MailTaken,
    MessageGiven,
    ModelCallLost,
    ModelFailed,
    ModelReplied,
    OutputVerdict,
    ParkRequested,
    ReasoningBlock,
    Reserved,
    RunResumed,
    RunStarted,
    TimerFired,
    ToolDecided,
    ToolOutcomeLost,
    ToolRequest,
    ToolReturned,
    Usage,
)
from interlock.engine.flow.sub_crews import start_child_effect
from interlock.engine.kinds import HookPoint
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.routing.candidates import Candidate
from interlock.engine.run import OVER, RULES, Run, Step
from interlock.engine.state import ChildRun, Turn, TurnMessage, turns_of
from interlock.messages.host_types import MessageType

ROOT = Path(__file__).parents[2]
SCENARIOS = Path(__file__).parent / "scenarios"
DASHES = "----"


class Story:
    """A run, and those that continue it, told step by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens: list[str] = []
        self.types: list[MessageType] = []
        self.ids: dict[str, int] = {}
        self.shows: dict[str, Callable[[str], str]] = {
            "crew": self._crew,
            "sub": self._sub,
            "pass": self._pass,
            "mail": self._mail,
            "think": self._think,
            "type": self._type,
            "history": self._history,
            "view": self._view,
            "waits": self._waits,
            "letters": self._letters,
            "counts": self._counts,
        }
        self.hears: dict[str, Callable[[str], IncomingEvent]] = {
            "start": self._start,
            "start2": self._start_under_rules_2,
            "given": self._given,
            "continue": self._continue,
            "reply": self._reply,
            "tools": self._tools,
            "use": self._use,
            "emit": self._emit,
            "free": lambda rest: msgspec.structs.replace(self._reply(rest), unconstrained=True),
            "output": lambda rest: self._returned(rest, ok=True),
            "wrote": self._wrote,
            "withhold": self._withhold,
            "broke": lambda rest: self._returned(rest, ok=False),
            "lost": lambda rest: ToolOutcomeLost(call=self._tool(rest)),
            "held": lambda rest: ApprovalNeeded(call=self._tool(rest)),
            "asks": self._asks,
            "decide": self._decide,
            "hooks": self._hooks,
            "typed": self._typed,
            "hooked": self._start_hooked,
            "hold": lambda rest: msgspec.structs.replace(self._resume(rest), by="key:boss", may_hold=True),
            "expire": lambda rest: InputExpired(token=self.tokens[int(rest.removeprefix("#")) - 1]),
            "fail": lambda rest: self._failed(rest, retry=True),
            "gone": self._gone,
            "busy": self._busy,
            "refuse": lambda rest: self._failed(rest, retry=False),
            "overlong": lambda rest: self._failed(rest, retry=False, too_long=True),
            "room": self._room,
            "noroom": self._no_room,
            "after": self._timer,
            "resume": self._resume,
            "answer": self._answer,
            "child": self._child,
            "cancel": lambda _: CancelRequested(by="somebody"),
            "broken": lambda rest: DriveFailed(error=rest),
            "park": lambda _: ParkRequested(by="somebody"),
            "unpark": lambda _: RunResumed(token=self.run.state.parked),
            "taken": self._taken,
            "hear": self._hear,
            "wake": self._wake,
        }

    def tell(self, command: str) -> str:
        word, rest = re.fullmatch(r"(\w+)[ ]?(.*)", command, re.DOTALL).groups()  # type: ignore[union-attr]
        if word in self.shows:
            return self.shows[word](rest)
        step = self.hear(self.hears[word](rest.replace("\\n", "\n")))
        return "\n".join([*map(self._fact, step.facts), *self._orders(step.effects)])

    # The run

    def _crew(self, rest: str) -> str:
        version, _, text = rest.partition("\n")
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "crew.yaml").write_text(f'version: "{version or "2.0"}"\nname: story\n{text}\n', "utf-8")
        loaded = read_crew(self.folder)
        assert loaded.crew is not None
        self.crew: CrewDefinition = loaded.crew
        self.begin("r")
        return "ok" if loaded.is_sound else "\n".join(f"{p.code}: {p.message}" for p in loaded.problems)

    def _sub(self, rest: str) -> str:
        name, _, text = rest.partition("\n")
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "crew.yaml").write_text(f'version: "2.0"\nname: {name}\n{text}\n', "utf-8")
        return "ok" if read_crew(folder).is_sound else "not sound"

    def begin(self, run: str) -> None:
        self.run = Run(self.crew, run)
        self.conversation = Conversation(self.crew, self.run.table)
        self.events: list[IncomingEvent] = []
        self.facts: list[tuple[DerivedEvent, ...]] = []
        self.open: dict[str, Effect] = {}
        self.names: dict[str, str] = {}
        self.passed_ms = 0
        self.mail: tuple[str, ...] = ()
        self.reasoning: tuple[ReasoningBlock, ...] = ()
        self.paused: dict[str, int] = {}
        self.held: set[str] = set()

    def hear(self, event: IncomingEvent) -> Step:
        event = msgspec.structs.replace(event, worked_ms=event.worked_ms + self.passed_ms, mail=self.mail)
        if self.reasoning:
            event = msgspec.structs.replace(event, reasoning=self.reasoning)
        self.passed_ms, self.mail, self.reasoning = 0, (), ()
        step = self.run.apply(event)
        self.events.append(event)
        self.facts.append(step.facts)
        self._answered(event)
        if isinstance(event, ParkRequested):  # what is given up now is ordered again by the resume
            self.held |= {effect.key for effect in step.effects if isinstance(effect, Cancel)}
        if isinstance(event, InputExpired):
            self.open = {k: e for k, e in self.open.items() if getattr(e, "token", "") != event.token}
        for effect in step.effects:
            self._ordered(effect)
        self._check()
        return step

    def _answered(self, event: IncomingEvent) -> None:
        if isinstance(event, ChildContinues):  # it is owed again, as it was when it was started
            self.open |= {
                child.key: start_child_effect(child) for child in _children(self.run) if child.key == event.call
            }
        elif not isinstance(event, ModelCallLost):  # its call is made again
            self.open.pop(getattr(event, "call", ""), None)
            self.open.pop(getattr(event, "timer", ""), None)

    def _ordered(self, effect: Effect) -> None:
        if isinstance(effect, AckInbox | Cancel | Settle):  # about an effect that has its key already
            self.open.pop(effect.key, None)
            return
        if isinstance(effect, StopChild):
            self.open[effect.key] = effect
            return
        is_again = effect.key in self.held or (isinstance(effect, SetAlarm) and effect.key in self.open)
        assert effect.key not in self.names or is_again, "a key is never used twice, but for what was parked"
        self.names[effect.key] = self._name(effect)
        if isinstance(
            effect, Reserve | CallModel | RunTool | CheckOutput | ClaimInbox | StartChild | SetTimer | SetAlarm
        ):
            self.open[effect.key] = self._due(effect)

    def _due(self, effect: Effect) -> Effect:
        """A timer by when it is due instead of how long it still takes, so that two moments can be compared."""
        if not isinstance(effect, SetTimer):
            return effect
        return msgspec.structs.replace(effect, duration_ms=effect.duration_ms + self.run.state.worked_ms)

    def _overdue(self, effect: Effect) -> Effect:
        """A timer that should have fired before now is due now."""
        if not isinstance(effect, SetTimer):
            return effect
        return msgspec.structs.replace(effect, duration_ms=max(effect.duration_ms, self.run.state.worked_ms))

    def _check(self) -> None:
        restored = Run.restore(self.crew, self.run.snapshot())
        assert restored.snapshot() == self.run.snapshot()
        owed = {effect.key: self._due(effect) for effect in restored.outstanding_effects()}
        assert owed == {key: self._overdue(effect) for key, effect in self.open.items()}

    def replayed(self) -> Run:
        run = Run(self.crew, self.run.state.run)
        for event, facts in zip(self.events, self.facts, strict=True):
            assert run.apply(event).facts == facts
        return run

    # What happens

    def _start(self, text: str) -> RunStarted:
        return RunStarted(crew="story", input=text, rules=RULES, messages=tuple(self.types))

    def _type(self, text: str) -> str:
        self.types.append(msgspec.json.decode(text, type=MessageType))
        return "ok"

    def _given(self, rest: str) -> MessageGiven:
        kind, _, to = rest.partition(":")[0].partition(" to ")
        return MessageGiven(kind=kind, to=to, body=msgspec.json.decode(rest.partition(":")[2]))

    def _start_under_rules_2(self, text: str) -> IncomingEvent:
        """As a run of an earlier day, when a task was acknowledged only once it was begun."""
        return RunStarted(crew="story", input=text, rules=2)

    def _continue(self, text: str) -> RunStarted:
        before = self.run.state
        assert before.status in OVER
        self.begin(f"{before.run}+")
        return RunStarted(crew="story", input=text, rules=RULES, history=tuple(before.history), continues=before.run)

    def _reply(self, rest: str) -> ModelReplied:
        agent, text = _said(rest)
        usage = Usage(input_tokens=3, output_tokens=2, cost_micros=10)
        return ModelReplied(call=self._key(f"call of {agent}"), agent=agent, text=text, usage=usage)

    def _typed(self, rest: str) -> ModelReplied:
        agent, said = _said(rest)
        verdict, _, text = said.partition(" | ")
        found = msgspec.json.decode(verdict, type=OutputVerdict)
        return msgspec.structs.replace(self._reply(f"{agent}: {text}"), output=found)

    def _tools(self, rest: str) -> ModelReplied:
        agent, names = _said(rest)
        names, _, text = names.partition("|")
        calls = tuple(
            ToolRequest(id=f"t{n}", name=name.strip(), arguments="{}") for n, name in enumerate(names.split(","))
        )
        key = self._key(f"call of {agent}")
        return ModelReplied(call=key, agent=agent, text=text.strip(), usage=Usage(), tool_calls=calls)

    def _use(self, rest: str) -> ModelReplied:
        agent, used = _said(rest)
        calls = tuple(_call(n, call) for n, call in enumerate(used.split(" + ")))
        return ModelReplied(call=self._key(f"call of {agent}"), agent=agent, text="", tool_calls=calls)

    def _emit(self, rest: str) -> ModelReplied:
        agent, names = _said(rest)
        names, _, text = names.partition("|")
        calls = tuple(_emission(n, name.strip()) for n, name in enumerate(names.split(",")))
        key = self._key(f"call of {agent}")
        return ModelReplied(call=key, agent=agent, text=text.strip(), usage=Usage(), tool_calls=calls)

    def _returned(self, rest: str, *, ok: bool) -> ToolReturned:
        name, text = _said(rest)
        return ToolReturned(call=self._tool(name), ok=ok, output=text)

    def _asks(self, rest: str) -> ApprovalNeeded:
        name, terms = _said(rest)
        return ApprovalNeeded(call=self._tool(name), terms=msgspec.json.decode(terms, type=ApprovalTerms))

    def _decide(self, rest: str) -> ToolDecided:
        name, decided = _said(rest)
        return ToolDecided(call=self._tool(name), tool=name, **msgspec.json.decode(decided))

    def _start_hooked(self, text: str) -> RunStarted:
        """A run whose output the hooks of the host see; `verdict` on the input comes before the text."""
        decided, _, text = text.rpartition("| ")
        verdict = msgspec.json.decode(decided, type=HookVerdict) if decided else None
        needs = HostNeeds(hooks=("guard",))
        return RunStarted(crew="story", input=text, rules=RULES, needs=needs, checks_output=True, verdict=verdict)

    def _hooks(self, rest: str) -> HooksDecided:
        """The verdict of hooks on a tool by its name, on the call of an agent, or on the output and its new value."""
        about, decided = _said(rest)
        decided, _, output = decided.partition(" | ")
        verdict = msgspec.json.decode(decided, type=HookVerdict)
        if verdict.point == HookPoint.BEFORE_TOOL:
            return HooksDecided(call=self._tool(about), verdict=verdict)
        if verdict.point == HookPoint.BEFORE_MODEL:
            return HooksDecided(call=self._key(f"call of {about}"), agent=about, verdict=verdict)
        assert self.run.state.ending is not None
        found = msgspec.json.decode(output, type=OutputVerdict) if output else None
        return HooksDecided(call=self.run.state.ending.checking, verdict=verdict, output=found)

    def _wrote(self, rest: str) -> ToolReturned:
        """A tool that returns what it wrote to the shared memory."""
        name, written = _said(rest)
        return ToolReturned(call=self._tool(name), ok=True, output="kept", memory=msgspec.json.decode(written))

    def _withhold(self, rest: str) -> ToolReturned:
        """A tool whose result, and what it wrote, wait for a person, because a hook asks."""
        name, written = _said(rest)
        asked = HookDecision(hook="guard", outcome=HookOutcome.ASKED, reason="show it?")
        verdict = HookVerdict(point="after_tool", decisions=(asked,), question="show it?", deadline_ms=1_000)
        held = msgspec.json.decode(written)
        return ToolReturned(call=self._tool(name), ok=True, output="kept", verdict=verdict, held_memory=held)

    def _failed(self, rest: str, *, retry: bool, too_long: bool = False) -> ModelFailed:
        agent, text = _said(rest)
        key = self._key(f"call of {agent}")
        return ModelFailed(call=key, agent=agent, error=text, retry=retry, too_long=too_long)

    def _gone(self, rest: str) -> ModelCallLost:
        agent, tokens = _said(rest)
        usage = Usage(input_tokens=int(tokens), cost_micros=2 * int(tokens))
        return ModelCallLost(call=self._key(f"call of {agent}"), agent=agent, usage=usage)

    def _busy(self, rest: str) -> ModelFailed:
        agent, wait = _said(rest)
        return ModelFailed(call=self._key(f"call of {agent}"), agent=agent, error="busy", retry_after_ms=int(wait))

    def _room(self, rest: str) -> Reserved:
        agent, tokens = _said(rest)
        key = self._key(f"room for {agent}")
        return Reserved(call=key, agent=agent, tokens=int(tokens), cost_micros=2 * int(tokens))

    def _no_room(self, rest: str) -> Reserved:
        agent, rest = _said(rest)
        limit, _, wait = rest.partition(" ")
        what, key = limit.split("_")[1], self._key(f"room for {agent}")
        then = "wait" if wait else "stop"
        return Reserved(
            call=key, agent=agent, refused=limit, what=what, then=then, wait_ms=int(wait or 0), tokens=4, most=9, used=7
        )

    def _timer(self, purpose: str) -> TimerFired:
        key = self._key(f"timer {purpose}")
        timer = self.open.get(key)
        left = timer.duration_ms - self.run.state.worked_ms if isinstance(timer, SetTimer) else 0
        return TimerFired(timer=key, worked_ms=max(left - self.passed_ms, 0))

    def _resume(self, text: str) -> RunResumed:
        waits = self.run.state.waits
        return RunResumed(token=waits[0].token if waits else self.tokens[-1], input=text)

    def _answer(self, rest: str) -> RunResumed:
        name, text = _said(rest)
        return RunResumed(token=self.tokens[int(name.removeprefix("#")) - 1], input=text)

    def _child(self, rest: str) -> IncomingEvent:
        name, how, more, text = re.fullmatch(r"(\S+?)(?: (\w+)(?: (\{.*\}|[^:]+))?)?: ?(.*)", rest).groups()  # type: ignore[union-attr]
        key = self._key(f"child {name}")
        paused = self.paused.setdefault(key, 0)
        if how == "waits":
            self.paused[key] = paused + 1
            wait = ChildWait(token=f"{name}:{paused + 1}", agent=text, reason="signal:[WAIT]")
            return ChildWaits(call=key, waits=(wait,))
        if how == "goes":
            return ChildContinues(call=key)
        usage = Usage(calls=2, input_tokens=3, output_tokens=2, cost_micros=10)
        above = int(how.removeprefix("above")) if how and how.startswith("above") else 0
        status = "completed" if how in (None, "wrote", "said") else "stopped" if above else how
        reason = "signal:[END]" if status == "completed" else text
        said = more.split() if how == "said" else []
        return ChildReturned(
            call=key,
            status=status,
            reason=reason,
            text=text if status == "completed" else more or "",
            usage=usage,
            memory=msgspec.json.decode(more) if how == "wrote" else {},
            history=tuple(Entry(role="assistant", author=f"{name}/x", text=each, turn=1) for each in said),
            above=above,
        )

    def _taken(self, rest: str) -> MailTaken:
        agent, kinds = _said(rest)
        heard = tuple(_broadcast(kind.strip()) for kind in kinds.split(",") if kind.strip())
        return MailTaken(call=self._key(f"mail of {agent}"), agent=agent, heard=heard)

    def _hear(self, rest: str) -> BroadcastHeard:
        agent, kind = _said(rest)
        kind, _, hops = kind.partition(" ")
        return BroadcastHeard(agent=agent, heard=_broadcast(kind, int(hops or 0)), delivery=7)

    def _wake(self, rest: str) -> RunStarted:
        agent, kind = _said(rest)
        return RunStarted(crew="story", input=kind, rules=RULES, entry=agent, heard=_broadcast(kind), delivery=7)

    def _think(self, rest: str) -> str:
        provider, _, text = rest.rpartition(": ")
        self.reasoning += (ReasoningBlock(provider=provider, text=text, data="signed" if provider else ""),)
        return ""

    def _mail(self, rest: str) -> str:
        self.mail = tuple(name.strip() for name in rest.split(","))
        return ""

    def _tool(self, name: str) -> str:
        return self._key(f"tool {name}")

    def _key(self, name: str) -> str:
        """The oldest that is open under the name, else the last there was."""
        keys = [key for key, known in self.names.items() if known == name]
        assert keys, f"there never was a {name}"
        return next((key for key in keys if key in self.open), keys[-1])

    # What is shown

    def _pass(self, rest: str) -> str:
        self.passed_ms += int(rest)
        return ""

    def _history(self, _rest: str) -> str:
        return "\n".join(_one_line(f"{entry.role} {entry.author}: {entry.text}") for entry in self.run.state.history)

    def _view(self, agent: str) -> str:
        history, turn = self.run.state.history, self._turn(agent)
        shown = self.conversation.messages(history, turn)
        assert shown == Conversation(self.crew, self.run.table).messages(history, turn)
        return "\n".join(map(_message, shown))

    def _turn(self, agent: str) -> Turn:
        return next(turn for turn in turns_of(self.run.state) if turn.agent == agent)

    def _letters(self, _rest: str) -> str:
        boxes = self.run.state.mailboxes.values()
        sent = [sent for box in boxes for sent in box.sent.values()]
        fates = Counter(fate for box in boxes for fate in box.settled.values())
        lines = [
            f"{self._field('to', each.message.message_id)[3:]} {each.message.type} {each.message.sender} -> "
            f"{each.message.addressee}{'' if each.acknowledged else ', not taken up'}"
            for each in sent
        ]
        total = ", ".join(f"{fate} {count}" for fate, count in sorted(fates.items()))
        assert self.run.state.messages == fates.total() + len(sent), "no message is unaccounted for"
        return "\n".join([*lines, f"sent {self.run.state.messages}: {total or 'all open'}"])

    def _waits(self, _rest: str) -> str:
        return "\n".join(f"{self._token(wait.token)} {wait.agent} {wait.reason}" for wait in self.run.state.waits)

    def _counts(self, _rest: str) -> str:
        state = self.run.state
        return (
            f"{state.status} handoffs={state.handoffs} turns={state.turns} calls={state.usage.calls} "
            f"worked={state.worked_ms}"
        )

    def _fact(self, fact: DerivedEvent) -> str:
        fields = [self._field(name, getattr(fact, name)) for name in fact.__struct_fields__]
        among = _among(fact.candidates) if isinstance(fact, Decided) else ""
        return " ".join([str(fact.__struct_config__.tag), *filter(None, fields), *filter(None, [among])])

    def _field(self, name: str, value: object) -> str:
        if name in ("candidates", "call", "usage", "mail", "memory", "held_memory") or value is msgspec.UNSET:
            return ""
        if value in ("", 0, None):
            return ""
        if name in ("token", "again_of"):
            value = self._token(str(value))
        if name == "message" and isinstance(value, dict):
            value = " ".join(f"{key}={_short(self._id(each))}" for key, each in value.items() if each not in ("", {}))
        if name in ("message_id", "to"):
            value = self._id(value)
        return f"{name}={_short(value)}"

    def _id(self, value: object) -> object:
        """Ids of messages by the order in which they appear, since their numbers say nothing."""
        if not isinstance(value, str) or not value.startswith(f"{self.run.state.run}:"):
            return value
        if value in self.tokens:
            return f"#{self.tokens.index(value) + 1}"
        return f"m{self.ids.setdefault(value, len(self.ids) + 1)}"

    def _token(self, token: str) -> str:
        if token not in self.tokens:
            self.tokens.append(token)
        return f"#{self.tokens.index(token) + 1}"

    def _orders(self, effects: tuple[Effect, ...]) -> Iterator[str]:
        """Orders of one kind that follow each other stand on one line."""
        orders = [self._order(effect) for effect in effects]
        for verb, alike in groupby(orders, key=lambda order: order[0]):
            yield f"  -> {verb} " + ", ".join(detail for _, detail in alike)

    def _order(self, effect: Effect) -> tuple[str, str]:
        match effect:
            case Reserve() | ReserveAgain():
                return "ask again for" if isinstance(effect, ReserveAgain) else "ask for", f"room for {effect.agent}"
            case Settle():
                return "settle", f"{effect.agent} at {_usage(effect)}"
            case CallModel():
                model = f" at {effect.model}" if effect.model else ""
                return "call", effect.agent + model + (f" again ({effect.attempt})" if effect.attempt else "")
            case RunTool() | StoreApproval() | CheckOutput():
                return self._order_about_tool(effect)
            case StartChild() | StopChild():
                return self._order_about_child(effect)
            case SetTimer() | SetAlarm():
                return "set", f"{self.names[effect.key]} to {effect.duration_ms} ms"
            case Cancel():
                return "give up", self.names[effect.key]
            case SendExternalSignal():
                return "tell the host", effect.signal
            case PublishBroadcast() | ClaimInbox() | AckInbox() | HandBackBroadcast():
                return self._order_to_the_bus(effect)

    def _order_about_tool(self, effect: RunTool | StoreApproval | CheckOutput) -> tuple[str, str]:
        if isinstance(effect, CheckOutput):
            return "ask the hooks about", f"the output of a run that is {effect.status}"
        if isinstance(effect, RunTool):
            return "run tool", f"{effect.name} for {effect.agent}"
        return "store", f"{effect.id} of {effect.by}: {effect.pattern}{', for this run' * effect.for_run}"

    def _order_about_child(self, effect: StartChild | StopChild) -> tuple[str, str]:
        if isinstance(effect, StopChild):
            return "stop", self.names[effect.key]
        shows = f", shown {effect.history} up to {effect.until}" if effect.history else ""
        given = "".join(f", {g.most} {g.what} of {g.above} above" for g in effect.given)
        hops = f", {effect.hops} hops" if effect.hops else ""
        return "start", f"{effect.name} on '{_one_line(effect.input)}'{shows}{given}{hops}"

    def _order_to_the_bus(
        self, effect: PublishBroadcast | ClaimInbox | AckInbox | HandBackBroadcast
    ) -> tuple[str, str]:
        match effect:
            case PublishBroadcast():
                return "announce", effect.type + (f" with {effect.hops} hops" if effect.hops else "")
            case ClaimInbox():
                return "take", f"mail of {effect.agent}"
            case AckInbox():
                return ("put back" if effect.put_back else "strike off"), self.names[effect.key]
            case HandBackBroadcast():
                return "hand back", f"{effect.id} for {effect.agent}"

    def _name(self, effect: Effect) -> str:
        match effect:
            case Reserve():
                return f"room for {effect.agent}"
            case CallModel():
                return f"call of {effect.agent}"
            case RunTool():
                return f"tool {effect.name}"
            case ClaimInbox():
                return f"mail of {effect.agent}"
            case StartChild():
                return f"child {effect.crew}"
            case SetTimer():
                timers = self.run.state.timers
                purpose = next(purpose for purpose, timer in timers.items() if timer.key == effect.key)
                kind, _, about = purpose.partition(":")
                return f"timer {kind}:{self._id(about)}" if about else f"timer {kind}"
            case SetAlarm():
                return f"alarm of {self._token(effect.token)}"
            case _:
                return ""


def _children(run: Run) -> list[ChildRun]:
    group, calling = run.state.group, run.state.calling
    members = [branch.child for branch in group.branches if branch.child is not None] if group is not None else []
    of_tasks = [task.child for task in run.state.tasks.values() if task.child is not None]
    return [*members, *(calling.children if calling is not None else []), *of_tasks]


def _broadcast(kind: str, hops: int = 0) -> ReceivedBroadcast:
    source = Source(type="process", id="ci")
    made = Broadcast(id=f"id-{kind}", type=kind, source=source, data={"n": 1}, created_at=1_790_000_000_000)
    return ReceivedBroadcast(broadcast=made, hops=hops)


def _emission(n: int, name: str) -> ToolRequest:
    """A tool if it begins with a plus."""
    if name.startswith("+"):
        return ToolRequest(id=f"t{n}", name=name[1:], arguments="{}")
    arguments = msgspec.json.encode({"name": name, "reason": "so"}).decode()
    return ToolRequest(id=f"t{n}", name="emit_signal", arguments=arguments)


def _call(n: int, call: str) -> ToolRequest:
    name, _, arguments = call.strip().partition(" ")
    return ToolRequest(id=f"t{n}", name=name, arguments=arguments)


def _said(rest: str) -> tuple[str, str]:
    who, _, text = rest.partition(":")
    return who.strip(), text.strip()


def _usage(effect: Settle) -> str:
    return "what was held" if effect.usage is None else f"{effect.usage.tokens} tokens"


def _message(message: TurnMessage) -> str:
    calls = ", ".join(call.name for call in message.tool_calls)
    thoughts = "".join(f" (reasoned for {block.provider}: {block.text})" for block in message.reasoning)
    said = f"{message.role}: {message.text}{thoughts}" + (f" (calls {calls})" if calls else "")
    return _one_line(said).replace(":  ", ": ")


def _among(candidates: tuple[Candidate, ...]) -> str:
    """How the choice went, if there was one."""
    shown = (f"{c.signal} {c.outcome} {c.priority}{' conflicting' * c.conflicts}" for c in candidates)
    return f"among='{', '.join(shown)}'" if len(candidates) > 1 else ""


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def _short(value: object) -> str:
    text = _one_line(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return f"'{text}'" if " " in text else text


def steps(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a file, each with the output below it."""
    for block in re.split(r"\n\n(?=\S)", text.strip()):
        lines = [line for line in block.splitlines() if not line.startswith("# ")]
        command, _, output = "\n".join(lines).partition(f"\n{DASHES}\n")
        if command.removesuffix(f"\n{DASHES}").strip():
            yield command.removesuffix(f"\n{DASHES}"), output


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.txt")), ids=lambda file: file.stem)
def test_the_story_goes_as_written(file: Path, tmp_path: Path) -> None:
    story = Story(tmp_path / "crew")
    for command, expected in steps(file.read_text("utf-8")):
        assert story.tell(command) == expected, command
    assert story.replayed().snapshot() == story.run.snapshot()


# The register


def sentences() -> list[dict[str, Any]]:
    register = yaml.safe_load((SCENARIOS / "coverage.yaml").read_text("utf-8"))
    return [sentence for section in register.values() for sentence in section]


def is_there(place: str) -> bool:
    """A scenario by its name, or a test as file::name."""
    if "::" not in place:
        return (SCENARIOS / f"{place}.txt").is_file()
    file, _, name = place.partition("::")
    return re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE) is not None


def test_every_sentence_is_shown_somewhere_that_exists_or_says_why_not() -> None:
    assert sentences()
    for sentence in sentences():
        assert len(sentence) == 2, sentence
        assert is_there_or_explained(sentence), sentence


def is_there_or_explained(sentence: dict[str, Any]) -> bool:
    if "shown" in sentence:
        return bool(sentence["shown"]) and all(map(is_there, sentence["shown"]))
    return bool(re.match(r"issue \d: \w", sentence.get("later", ""))) or bool(sentence.get("owed"))


def test_every_scenario_shows_a_sentence() -> None:
    named = {place for sentence in sentences() for place in sentence.get("shown", ())}
    assert {file.stem for file in SCENARIOS.glob("*.txt")} <= named


def test_every_scenario_says_in_its_first_line_what_it_shows() -> None:
    files = list(SCENARIOS.glob("*.txt"))
    assert files
    for file in files:
        assert re.match(r"# \S.*[.]\n", file.read_text("utf-8")), file.name


def rewritten(file: Path, folder: Path) -> str:
    story = Story(folder)
    comments = [line for line in file.read_text("utf-8").splitlines() if line.startswith("# ")]
    blocks = [f"{command}\n{DASHES}\n{story.tell(command)}".rstrip() for command, _ in steps(file.read_text("utf-8"))]
    return "\n".join(comments) + "\n" + "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:] or sorted(map(str, SCENARIOS.glob("*.txt"))):
        with tempfile.TemporaryDirectory() as scratch:
            Path(name).write_text(rewritten(Path(name), Path(scratch) / "crew"), "utf-8")
