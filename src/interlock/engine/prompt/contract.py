"""The contract in the prompt: which marks an agent may use, what each does, where it must stand, and what happens
without one. Made from the crew file, so that prompt and graph cannot disagree.

Rule 1: every mark with an effect is named; other known marks are shown as ⟦END⟧.
Rule 2: text from the crew file is put on one line and not parsed again, neither for fields nor for lines.
Rule 3: only the crew's own signals show their descriptions; built-in signals do not.
Rule 4: the last line carries no mark, so that an echo of the instructions steers nothing if position counts.
"""

from collections.abc import Iterator, Sequence

import msgspec

from interlock.crew.definition import AgentDefinition, CrewDefinition, GroupDefinition, RouteDefinition
from interlock.engine.routing.candidates import Verb
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.engine.routing.emit_signal import EMIT_SIGNAL, is_tool_mode
from interlock.signals.definition import SignalBehavior
from interlock.signals.matching import neutralizer

_WORDS = {
    "en": {
        "title": "## Signals",
        "last_line": "{must} one of these marks on its last line, written exactly so:",
        "own_line": "{put} one of these marks on a line of its own, written exactly so:",
        "anywhere": "{put} one of these marks, written exactly so:",
        "constrained": "Your reply ends with exactly one of these marks, alone on its last line:",
        "tool": "{call} {tool} with one of these names, in the same reply as your answer; marks in text do nothing:",
        "must": "End your reply with",
        "may": "You may end your reply with",
        "must_put": "Your reply must contain",
        "may_put": "Your reply may contain",
        "must_call": "Call",
        "may_call": "You may call",
        "hand_over": "hands over to {who}",
        "end": "ends the run",
        "await": "waits for a person, then you go on",
        "await_other": "waits for a person, then {who} goes on",
        "ask_host": "tells the host and waits for its answer",
        "fork": "starts {who} at the same time",
        "then": ", then {who} goes on",
        "call": "calls the crew {who}",
        "tell_host": "tells the host",
        "publish": "publishes your reply",
        "publish_to": "publishes your reply to {who}",
        "held": " once a person approves",
        "example": "Example: {text}",
        "tells": "These only tell others; use them beside the above, in the same place:",
        "tells_alone": "These only tell others, in the place where marks count:",
        "acknowledges": "These are noted and change nothing:",
        "member": "Your reply is joined with those of the other members of group {who}.",
        "member_may": "These may decide what comes next:",
        "without": "Without one, {what}.",
        "none": "No mark is needed: {what}.",
        "nudge": "you are asked again",
        "fail": "the run fails",
        "over": "the run ends with your reply",
        "person": "the run waits for a person",
        "goes_on": "{who} goes on",
    },
    "vi": {
        "title": "## Tín hiệu",
        "last_line": "{must} một trong các dấu sau ở dòng cuối, viết đúng như sau:",
        "own_line": "{put} một trong các dấu sau trên một dòng riêng, viết đúng như sau:",
        "anywhere": "{put} một trong các dấu sau, viết đúng như sau:",
        "constrained": "Câu trả lời kết thúc bằng đúng một trong các dấu sau, đứng riêng ở dòng cuối:",
        "tool": "{call} {tool} với một trong các tên sau, trong cùng câu trả lời; dấu trong văn bản không có tác dụng:",
        "must": "Hãy kết thúc câu trả lời bằng",
        "may": "Bạn có thể kết thúc câu trả lời bằng",
        "must_put": "Câu trả lời phải có",
        "may_put": "Câu trả lời có thể có",
        "must_call": "Hãy gọi",
        "may_call": "Bạn có thể gọi",
        "hand_over": "chuyển cho {who}",
        "end": "kết thúc phiên chạy",
        "await": "chờ người dùng, rồi bạn tiếp tục",
        "await_other": "chờ người dùng, rồi {who} tiếp tục",
        "ask_host": "báo cho hệ thống và chờ trả lời",
        "fork": "khởi động đồng thời {who}",
        "then": ", rồi {who} tiếp tục",
        "call": "gọi crew {who}",
        "tell_host": "báo cho hệ thống",
        "publish": "công bố câu trả lời",
        "publish_to": "công bố câu trả lời cho {who}",
        "held": " sau khi được người dùng chấp thuận",
        "example": "Ví dụ: {text}",
        "tells": "Các dấu sau chỉ để báo tin; dùng kèm dấu ở trên, cùng vị trí:",
        "tells_alone": "Các dấu sau chỉ để báo tin, ở vị trí mà dấu có hiệu lực:",
        "acknowledges": "Các dấu sau chỉ được ghi nhận, không thay đổi gì:",
        "member": "Câu trả lời được ghép với câu trả lời của các thành viên khác trong nhóm {who}.",
        "member_may": "Các dấu sau có thể quyết định bước tiếp theo:",
        "without": "Nếu không có dấu, {what}.",
        "none": "Không cần dấu: {what}.",
        "nudge": "bạn sẽ được hỏi lại",
        "fail": "phiên chạy thất bại",
        "over": "phiên chạy kết thúc với câu trả lời của bạn",
        "person": "phiên chạy chờ người dùng",
        "goes_on": "{who} tiếp tục",
    },
}

# Texts for decisions without a signal, by their reason.
_WITHOUT_SIGNAL = {
    "wait_for_signal": "person",
    "terminal_agent": "over",
    "no_signal_complete": "over",
    "default": "goes_on",
    "handoff_target": "goes_on",
}


class UsableMarks(msgspec.Struct, frozen=True):
    """The marks an agent may use, by effect."""

    steering: tuple[RouteDefinition, ...]
    tells: tuple[RouteDefinition, ...]
    acknowledgements: tuple[RouteDefinition, ...]

    @property
    def routes(self) -> tuple[RouteDefinition, ...]:
        return (*self.steering, *self.tells, *self.acknowledgements)


def usable_marks(crew: CrewDefinition, agent: str, group: str = "") -> UsableMarks:
    """The marks of the current agent, or of a member of a group, which cannot wait."""
    routes = crew.routes.get(agent, ())
    noted = tuple(route for route in routes if route.acknowledges)
    steering = tuple(route for route in routes if not route.is_tell and not route.acknowledges)
    tells = tuple(route for route in routes if route.is_tell and not route.acknowledges)
    if not group:
        return UsableMarks(steering, tells, noted)
    notified = tuple(r for r in routes if not r.acknowledges and (r.is_tell or r.behavior is SignalBehavior.EXTERNAL))
    goes = tuple(r for r in steering if r.behavior not in (SignalBehavior.PAUSE, SignalBehavior.EXTERNAL))
    return UsableMarks(() if crew.groups[group].next_agent else goes, notified, ())


def contract(table: RoutingTable, agent: AgentDefinition, group: str = "") -> str:
    """The contract about the agent's marks; empty in a crew without marks."""
    if not any(table.crew.routes.values()):
        return ""
    text = "\n".join(_Contract(table, agent, group).lines())
    return neutralizer(lambda inner: table.is_known_mark(inner) and not table.is_own_mark(agent.id, inner))(text)


class _Contract:
    """The lines of one agent's contract."""

    def __init__(self, table: RoutingTable, agent: AgentDefinition, group: str) -> None:
        self.crew, self.agent, self.group = table.crew, agent, group
        self.words = _WORDS[table.crew.settings.language]
        self.definitions = {definition.name: definition for definition in table.crew.signals}
        self.usable = usable_marks(table.crew, agent.id, group)
        self.silent = table.decide(OwnReply(agent.id, ""))

    def lines(self) -> Iterator[str]:
        yield self.words["title"]
        if self.group:
            yield self._phrase("member", who=_one_line(self.group))
        if self.usable.steering:
            yield self.words["member_may"] if self.group else self._head()
            yield from map(self._line, self.usable.steering)
        if self.usable.tells:
            yield self.words["tells" if self.usable.steering else "tells_alone"]
            yield from map(self._line, self.usable.tells)
        if self.usable.acknowledgements:
            yield self.words["acknowledges"]
            yield from map(self._line, self.usable.acknowledgements)
        yield from self._last_lines()

    def _last_lines(self) -> Iterator[str]:
        """The line about replies without a mark; empty for an agent that is only a member of groups."""
        if self.group:
            yield self._phrase("none", what=self._after_group())
        elif self.usable.steering:
            yield self._phrase("without", what=self._without())
        elif self.silent.verb is not None:
            yield self._phrase("none", what=self._without())

    def _head(self) -> str:
        """The line about the position of marks, and whether one is required."""
        settings, how = self.crew.settings, "must" if self.silent.verb is None else "may"
        place = settings.signal_position if settings.signal_mode == "text" else settings.signal_mode
        must, put, call = (self.words[f"{how}{part}"] for part in ("", "_put", "_call"))
        return self._phrase(place, must=must, put=put, call=call, tool=EMIT_SIGNAL)

    def _line(self, route: RouteDefinition) -> str:
        definition = self.definitions.get(route.signal)
        described = route.description or (definition.description if definition is not None else "")
        example = definition.example if definition is not None and not is_tool_mode(self.crew) else ""
        name = route.signal[1:-1] if is_tool_mode(self.crew) else route.signal
        parts = [f"- {name}" if route.acknowledges else f"- {name}: {self._does(route)}{self._approval_note(route)}."]
        parts += [_sentence(described)] if described.strip() else []
        parts += [self._phrase("example", text=_one_line(example))] if example.strip() else []
        return " ".join(parts)

    def _does(self, route: RouteDefinition) -> str:
        """The effect of a mark, with the display names of agents."""
        match route.behavior:
            case SignalBehavior.TERMINATE:
                return self.words["end"]
            case SignalBehavior.ROUTE:
                return self._phrase("hand_over", who=self._who(route.target))
            case SignalBehavior.PAUSE:
                other = route.target and route.target != self.agent.id
                return self._phrase("await_other", who=self._who(route.target)) if other else self.words["await"]
            case SignalBehavior.PARALLEL:
                return self._starts(self.crew.groups[route.target])
            case SignalBehavior.SUB_CREW:
                return self._phrase("call", who=_one_line(route.target_crew))
            case SignalBehavior.EXTERNAL:
                return self.words["ask_host" if route.pause and not self.group else "tell_host"]
            case SignalBehavior.BROADCAST:
                who = ", ".join(map(self._who, route.targets))
                return self._phrase("publish_to", who=who) if who else self.words["publish"]

    def _starts(self, group: GroupDefinition) -> str:
        started = self._phrase("fork", who=", ".join(map(self._who, group.agents)))
        return started + (self._phrase("then", who=self._who(group.next_agent)) if group.next_agent else "")

    def _approval_note(self, route: RouteDefinition) -> str:
        moves = (SignalBehavior.ROUTE, SignalBehavior.PARALLEL, SignalBehavior.SUB_CREW)
        is_held = route.behavior in moves and not self.crew.behavior_of(self.agent.id).auto_route
        return self.words["held"] if is_held else ""

    def _without(self) -> str:
        if self.silent.verb is None:
            return self.words[self.silent.then]
        who = self._who(self.silent.target) if self.silent.verb is Verb.HAND_OVER else ""
        return self._phrase(_WITHOUT_SIGNAL[self.silent.because], who=who)

    def _after_group(self) -> str:
        then = self.crew.groups[self.group].next_agent
        who = [then] if then else [a for a, routes in self.crew.routes.items() if _has_route_to(routes, self.group)]
        return self._phrase("goes_on", who=" / ".join(map(self._who, who or [self.group])))

    def _who(self, id_: str) -> str:
        agent = self.crew.agent(id_)
        if agent is None:
            return _one_line(id_)
        return _one_line(f"{agent.name} ({agent.role})" if agent.role.strip() else agent.name)

    def _phrase(self, phrase: str, **what: str) -> str:
        return self.words[phrase].format(**what)


def _has_route_to(routes: Sequence[RouteDefinition], group: str) -> bool:
    return any(route.target == group for route in routes)


def _sentence(text: str) -> str:
    line = _one_line(text)
    return f"{line}." if line[-1].isalnum() else line


def _one_line(text: str) -> str:
    return " ".join(text.split())
