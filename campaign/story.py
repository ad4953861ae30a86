"""Stories that are played while processes die: a crew, its tools, and all replies.

Rule 1: a story is plain data, so that a child process can be handed it in a file.
Rule 2: `random_story` draws from its seed alone.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from interlock.adapters.crews.script_files import read_plain_yaml, read_script
from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall

SETTINGS = {"retry_backoff_min_millis": 2, "max_rounds": 20}


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """`tools` is apart from the crew's document, because there is no host file to name them.

    `below` are sub-crews by the folders that they are in.
    """

    crew: dict[str, Any]
    below: dict[str, dict[str, Any]] = {}
    tools: dict[str, tuple[str, ...]]
    script: dict[str, list[ScriptedAnswer]]
    # The person's answer to a question of the story.
    answer: str = "Rome"
    # The person's answer about a payment with an unknown outcome: the text to use, or to try it again.
    decision: str = "text"

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


def pays(number: int) -> ToolCall:
    """A call of the tool that must not run twice; the number tells one payment from another."""
    return ToolCall("pay", {"number": number})


def looks_up(number: int) -> ToolCall:
    return ToolCall("look_up", {"number": number})


# Tools of both kinds at once, a group with a payment in one branch, a question, one more tool, the end.
SHORT = Story(
    crew={
        "version": "2.0",
        "name": "short",
        "entry_point": "a",
        "agents": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}],
        "routing": {
            "signals": {
                "a": [{"signal": "[FAN]", "type": "parallel", "target": "both"}],
                "d": [{"signal": "[WAIT]"}, {"signal": "[END]"}],
            },
            "parallel_groups": {"both": {"agents": ["b", "c"], "wait_for_all": True, "next_agent": "d"}},
        },
        "settings": SETTINGS,
    },
    tools={"a": ("pay", "look_up"), "b": ("pay",), "c": ("look_up",), "d": ("pay", "look_up")},
    script={
        "a": [ScriptedAnswer(tool_calls=(looks_up(1), pays(1))), ScriptedAnswer(text="[FAN]")],
        "b": [ScriptedAnswer(tool_calls=(pays(2),)), ScriptedAnswer(text="b is done")],
        "c": [ScriptedAnswer(tool_calls=(looks_up(2),)), ScriptedAnswer(text="c is done")],
        "d": [
            ScriptedAnswer(text="Which city?\n[WAIT]"),
            ScriptedAnswer(tool_calls=(pays(3), looks_up(3))),
            ScriptedAnswer(text="[END]"),
        ],
    },
)


def _team(name: str, **routing: Any) -> dict[str, Any]:
    agents = [{"id": agent} for agent in routing["signals"]]
    entry = agents[0]["id"]
    return {
        "version": "2.0",
        "name": name,
        "entry_point": entry,
        "agents": agents,
        "routing": routing,
        "settings": SETTINGS,
    }


# Three teams at once, of which one pays, one calls another team that pays, and one asks a person; then a last payment.
NESTED = Story(
    crew={
        "version": "2.0",
        "name": "nested",
        "entry_point": "a",
        "agents": [{"id": "a"}],
        "sub_crews": {name: {"config_path": name} for name in ("left", "right", "desk")},
        "routing": {
            "signals": {
                "a": [
                    {"signal": "[LEFT]", "type": "sub_crew", "target_crew": "left"},
                    {"signal": "[RIGHT]", "type": "sub_crew", "target_crew": "right"},
                    {"signal": "[DESK]", "type": "sub_crew", "target_crew": "desk"},
                    {"signal": "[END]"},
                ]
            }
        },
        "settings": SETTINGS,
    },
    below={
        "left": _team("left", signals={"l": [{"signal": "[END]"}]}),
        "right": {
            **_team(
                "right",
                signals={"r": [{"signal": "[DOWN]", "type": "sub_crew", "target_crew": "cellar"}, {"signal": "[END]"}]},
            ),
            "sub_crews": {"cellar": {"config_path": "cellar"}},
        },
        "right/cellar": _team("cellar", signals={"c": [{"signal": "[END]"}]}),
        "desk": _team("desk", signals={"d": [{"signal": "[WAIT]"}, {"signal": "[END]"}]}),
    },
    tools={"a": ("pay",), "l": ("pay", "look_up"), "c": ("pay",)},
    script={
        "a": [
            ScriptedAnswer(text="Go.\n[LEFT] [RIGHT] [DESK]"),
            ScriptedAnswer(tool_calls=(pays(9),)),
            ScriptedAnswer(text="[END]"),
        ],
        "l": [
            ScriptedAnswer(tool_calls=(pays(1), looks_up(1)), delay_seconds=0.002),
            ScriptedAnswer(text="left is done [END]", delay_seconds=0.01),
        ],
        "r": [ScriptedAnswer(text="[DOWN]"), ScriptedAnswer(text="right is done [END]")],
        "c": [
            ScriptedAnswer(tool_calls=(pays(2),), delay_seconds=0.002),
            ScriptedAnswer(text="deep [END]", delay_seconds=0.004),
        ],
        "d": [ScriptedAnswer(text="Which city?\n[WAIT]"), ScriptedAnswer(text="thanks [END]")],
    },
)


def _calls(name: str, **given: Any) -> ScriptedAnswer:
    return ScriptedAnswer(tool_calls=(ToolCall(name, given),))


# The trip of the seed, with payments: two at work at once, a query, a question to a person, a report that is sent back.
DELEGATED = Story(
    crew={
        "version": "2.0",
        "name": "delegated",
        "entry_point": "planner",
        "agents": [{"id": "planner", "is_terminal": True}, {"id": "flights"}, {"id": "hotels"}],
        "delegation": {"children": {"planner": ["flights", "hotels"]}, "select": "all"},
        "settings": SETTINGS,
    },
    tools={"planner": ("pay",), "flights": ("pay", "look_up"), "hotels": ("ask_user", "pay")},
    script={
        "planner": [
            ScriptedAnswer(
                tool_calls=(
                    ToolCall("delegate", {"to": "flights", "task": "LAX to Italy"}),
                    ToolCall("delegate", {"to": "hotels", "task": "Rome"}),
                )
            ),
            _calls("answer_child", answer="Price", to="flights"),
            ScriptedAnswer(tool_calls=(pays(9),)),
            ScriptedAnswer(text="Here is your trip."),
        ],
        "flights": [
            ScriptedAnswer(tool_calls=(pays(1), looks_up(1)), delay_seconds=0.03),
            _calls("query_parent", question="Price or comfort?"),
            _calls("report", result=""),
            _calls("report", result="Three flights"),
        ],
        "hotels": [
            _calls("ask_user", question="Which city?"),
            ScriptedAnswer(tool_calls=(pays(2),)),
            _calls("report", result="A hotel"),
        ],
    },
)


# The same with a team: an agent that pays and a crew at once; in the crew a question, a payment and a task for another
# crew that pays; its first report is empty, so that it runs a second time.
ENTRUSTED = Story(
    crew={
        "version": "2.0",
        "name": "entrusted",
        "entry_point": "planner",
        "agents": [{"id": "planner", "is_terminal": True}, {"id": "flights"}],
        "sub_crews": {"team": {"config_path": "team"}},
        "delegation": {"children": {"planner": ["flights", "team"]}, "select": "all"},
        "settings": SETTINGS,
    },
    below={
        "team": {
            "version": "2.0",
            "name": "team",
            "entry_point": "t",
            "agents": [{"id": "t", "is_terminal": True}],
            "sub_crews": {"cellar": {"config_path": "cellar"}},
            "delegation": {"children": {"t": ["cellar"]}, "select": "all"},
            "settings": SETTINGS,
        },
        "team/cellar": _team("cellar", signals={"c": [{"signal": "[END]"}]}),
    },
    tools={"planner": ("pay",), "flights": ("pay", "look_up"), "t": ("ask_user", "pay"), "c": ("pay",)},
    script={
        "planner": [
            ScriptedAnswer(
                tool_calls=(
                    ToolCall("delegate", {"to": "flights", "task": "LAX to Italy"}),
                    ToolCall("delegate", {"to": "team", "task": "Rome"}),
                )
            ),
            ScriptedAnswer(tool_calls=(pays(9),)),
            ScriptedAnswer(text="Here is your trip."),
        ],
        "flights": [
            ScriptedAnswer(tool_calls=(pays(1), looks_up(1)), delay_seconds=0.01),
            _calls("report", result="Three flights"),
        ],
        "t": [
            _calls("delegate", to="cellar", task="Look below"),
            _calls("ask_user", question="Which city?"),
            ScriptedAnswer(),
            ScriptedAnswer(tool_calls=(pays(2),)),
            ScriptedAnswer(text="A hotel"),
        ],
        "c": [
            ScriptedAnswer(tool_calls=(pays(3),), delay_seconds=0.002),
            ScriptedAnswer(text="deep [END]", delay_seconds=0.004),
        ],
    },
)


class _Writer:
    """Writes a chain of agents, each with tool rounds, failures, a question or a group, as chance has it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.calls = 0
        self.tools: dict[str, tuple[str, ...]] = {}
        self.script: dict[str, list[ScriptedAnswer]] = {}
        self.signals: dict[str, list[dict[str, str]]] = {}
        self.groups: dict[str, dict[str, Any]] = {}

    def agent(self, name: str, endings: Sequence[str]) -> None:
        """Says what leads up to its endings, each of which is the end of a turn."""
        self.tools[name] = ("pay", "look_up")
        said: list[ScriptedAnswer] = []
        for ending in endings:
            rounds = self.random.choice((0, 1, 1, 2))
            said += [ScriptedAnswer(tool_calls=self._some_tools(), delay_seconds=self._delay()) for _ in range(rounds)]
            if self.random.random() < 0.15:
                said.append(ScriptedAnswer(error="overloaded"))
            said.append(ScriptedAnswer(text=ending, delay_seconds=self._delay()))
        self.script[name] = said

    def link(self, number: int, *, is_last: bool) -> None:
        """One agent of the chain, and the group after it, if any."""
        name, onward = f"a{number}", f"a{number + 1}"
        routes = [{"signal": "[WAIT]"}]
        waits = ["Go on?\n[WAIT]"] if self.random.random() < 0.5 else []
        if is_last:
            routes.append({"signal": "[END]"})
        elif self.random.random() < 0.6:
            routes.append({"signal": "[FAN]", "type": "parallel", "target": f"g{number}"})
            self._group(number, onward)
        else:
            routes.append({"signal": "[NEXT]", "target": onward})
        self.signals[name] = routes
        self.agent(name, [*waits, routes[-1]["signal"]])

    def _group(self, number: int, onward: str) -> None:
        members = [f"m{number}{letter}" for letter in "xyz"[: self.random.randint(2, 3)]]
        for member in members:
            self.agent(member, ["done"])
        self.groups[f"g{number}"] = {"agents": members, "wait_for_all": True, "next_agent": onward}

    def _some_tools(self) -> tuple[ToolCall, ...]:
        made = []
        for _ in range(self.random.randint(1, 3)):
            self.calls += 1
            made.append(self.random.choice((pays, looks_up))(self.calls))
        return tuple(made)

    def _delay(self) -> float:
        return self.random.choice((0.0, 0.0, 0.002, 0.01))


def random_story(seed: int) -> Story:
    writer = _Writer(seed)
    length = writer.random.randint(1, 4)
    for number in range(length):
        writer.link(number, is_last=number == length - 1)
    crew = {
        "version": "2.0",
        "name": f"story-{seed}",
        "entry_point": "a0",
        "agents": [{"id": name} for name in writer.script],
        "routing": {"signals": writer.signals, "parallel_groups": writer.groups},
        "settings": SETTINGS,
    }
    decision = "retry" if writer.random.random() < 0.2 else "text"
    return Story(crew=crew, tools=writer.tools, script=writer.script, decision=decision)


def story_in(folder: Path, answer: str) -> Story:
    """The story of an example: the crew and its agents as they are in the folder, and its script."""
    crew: Any = read_plain_yaml(folder / "crew.yaml")
    agents: list[Any] = [{"id": name, **read_agent(folder, name)} for name in crew["agents"]]
    tools = {agent["id"]: tuple(agent.pop("tools", ())) for agent in agents}
    said = {
        agent: [ScriptedAnswer(text=each) if isinstance(each, str) else each for each in answers]
        for agent, answers in read_script(folder / "script.yaml").items()
    }
    return Story(crew={**crew, "agents": agents}, tools=tools, script=said, answer=answer)


def read_agent(folder: Path, name: str) -> Any:
    return read_plain_yaml(folder / "agents" / f"{name}.yaml")


def as_yaml(crew: dict[str, Any]) -> str:
    """JSON is YAML."""
    return json.dumps(crew)
