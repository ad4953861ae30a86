"""Bodies about crews: what they are, their graph, their problems."""

from typing import Any, Literal

from pydantic import Field

from interlock.server.shapes.fields import ResponseBody


class CrewView(ResponseBody):
    name: str = Field(examples=["desk"])
    description: str
    sound: bool
    entry_point: str
    agents: list[str]
    problems: int
    revision: str = Field(description="The start of the checksum of the served version; empty if the crew has errors.")
    loaded_at: int = Field(description="The time of reading its files, in milliseconds since 1970.")
    reloaded: bool = Field(description="True if it was read after the server had started.")
    watched: bool = Field(description="True if a changed file is read at once, and not only on SIGHUP.")
    newer_problems: int = Field(description="The number of problems that keep a newer file from being served.")


class CrewList(ResponseBody):
    crews: list[CrewView]


class AgentView(ResponseBody):
    id: str
    name: str
    role: str
    description: str
    model: str
    tools: list[str]
    handoff_targets: list[str]
    is_terminal: bool
    instructions: str = Field(description="The system prompt: the agent's prompt and its signals.")


class RouteView(ResponseBody):
    agent: str
    signal: str
    behavior: str
    priority: int
    target: str
    description: str


class SignalView(ResponseBody):
    name: str
    behavior: str
    priority: int
    description: str


class CrewDetail(CrewView):
    version: str
    agent_details: list[AgentView]
    routes: list[RouteView]
    signals: list[SignalView]
    settings: dict[str, Any]


class GraphNode(ResponseBody):
    id: str
    name: str
    label: str
    kind: Literal["agent", "group", "sub_crew", "end", "unknown"]
    entry: bool
    terminal: bool
    waits: bool
    notes: list[str]
    closed: str = Field(description="Why the inside is not shown.")
    inside: "Graph | None"


class GraphEdge(ResponseBody):
    source: str
    target: str
    kind: str
    label: str


class Graph(ResponseBody):
    name: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    description: str


class ProblemView(ResponseBody):
    code: str
    severity: Literal["error", "warning", "note"]
    message: str
    file: str
    line: int
    column: int
    path: str
    fix: str


class CrewProblems(ResponseBody, title="Problems"):
    __qualname__ = "Problems"  # its name in the OpenAPI document

    ok: bool
    problems: list[ProblemView]
