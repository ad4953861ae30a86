"""What goes in and out over HTTP, as the OpenAPI document tells it. Unknown keys are refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

RUN = "01a1e2ac96f34f33c417"
TOKEN = f"{RUN}:8.0"

Status = Literal["running", "paused", "completed", "failed", "stopped", "cancelled"]
# Beyond this an input is refused by its crew, whose own limit is at most as large.
Words = Annotated[str, Field(max_length=64 * 1024 * 1024)]


def _whole(value: object) -> object:
    """JSON has one kind of number: 12.0 is 12."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class Given(BaseModel):
    """What somebody sends."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid")


class Context(Given):
    """What a crew is told besides its input."""

    original_input: Words = ""
    previous_results: dict[str, str] = Field(default={}, description="Results of crews, by name.")
    shared_memory: dict[str, Any] = Field(default={}, description="What agents may read and write.")


class StartRun(Given):
    crew: str = Field(description="The name of a crew that is served here.", examples=["desk"])
    input: Words = Field("", description="What the first agent is told.", examples=["My lamp never came, order A-17"])
    continues: str | None = Field(
        None, alias="continue", description="A finished run whose history the new one starts from.", examples=[None]
    )
    context: Context | None = Field(None, description="Not together with `continue`.", examples=[None])


class Resume(Given):
    token: str | None = Field(
        None, description="Which wait is answered; may be left out where there is one.", examples=[TOKEN]
    )
    input: Words = Field("", description="The answer.", examples=["yes"])


class Fork(Given):
    after: Whole = Field(ge=1, le=2**53, description="The seq of the last event that both runs share.", examples=[12])


class GiveAnswer(Given):
    answer: Words = Field(description="The answer, as the person gave it.", examples=["yes"])


class OpenByCode(Given):
    code: str = Field(description="The code in the address that `interlock serve` printed; it works once.")


class OpenByKey(Given):
    key: str = Field(description="A key of this server.")


class Used(Told):
    calls: int
    input_tokens: int
    output_tokens: int
    cost_micros: int = Field(description="Millionths of a dollar, of the calls whose price is known.")
    unpriced_calls: int = Field(description="Calls whose price is unknown; while there are any, the cost is unknown.")


class Question(Told):
    """A wait for a person. Its id stays when it is asked again because an answer was refused; its token does not."""

    id: str = Field(examples=[TOKEN])
    run: str = Field(examples=[RUN])
    crew: str = Field(examples=["desk"])
    agent: str = Field(examples=["cashier"])
    question: str = Field(examples=["May I pay 240 dollars?"])
    context: str = Field(
        description="Why the agent asks, in its own words; empty if it did not say.",
        examples=["The customer is waiting."],
    )
    expects: str = Field(description="What an answer must look like, in words; empty if anything will do.")
    choices: list[str] = Field(description="The answers there are; none if the answer is free.")
    reason: str = Field(examples=["signal:[WAIT]"])
    token: str = Field(examples=[TOKEN])
    asked_at: int = Field(description="Milliseconds since 1970.", examples=[1_794_800_000_000])
    deadline_at: int | None = Field(description="Milliseconds since 1970; null if it stays open.", examples=[None])
    default: str | None = Field(description="The answer that counts after the deadline; null if there is none.")
    pattern: str = Field(description="The form of the whole answer; empty if it may have any.")
    answer_schema: dict[str, Any] = Field(description="The schema of an answer in JSON; empty if it is not JSON.")
    fault: str = Field(description="Why the last answer was refused; empty if none was.")
    key: str = Field(description="Stays the same when the question is asked again.", examples=[TOKEN])
    tool: str = Field(description="The tool that the question is about; empty if it is about none.")
    arguments: Any = Field(description="What the tool would be called with; null if this is not an approval.")
    parameters: dict[str, Any] = Field(
        description="The schema of the tool's arguments; empty if this is not an approval."
    )


class RunView(Told):
    """A run as lists show it. `run` is its id, as in events."""

    id: str = Field(examples=[RUN])
    run: str = Field(examples=[RUN])
    crew: str = Field(examples=["desk"])
    status: Status
    reason: str = Field(examples=["signal:[DONE]"])
    agent: str = Field(examples=["clerk"])
    seq: int = Field(description="The seq of its newest event.", examples=[32])
    created_at: int = Field(examples=[1_794_800_000_000])
    updated_at: int = Field(examples=[1_794_800_004_000])
    parent: str = Field(description="The run that called it; empty for one that was started by itself.")
    continues: str = Field(description="The run it goes on from, or was forked from.")
    usage: Used


class AgentModel(Told):
    """`path` are the sub-crews from the run down to the agent, as in events."""

    path: list[str]
    agent: str = Field(examples=["clerk"])
    model: str = Field(examples=["openai:gpt-4o-mini"])


class RunDetail(RunView):
    """`output` is the last reply as it was said, `text` the same without marks, or the open question."""

    detail: str = Field(
        description="The reason in a sentence, where a budget stopped the run "
        "or the process that found it cannot drive it."
    )
    output: str
    text: str
    token: str = Field(description="Of the oldest open wait, where the run is paused.")
    questions: list[Question]
    usage_by_agent: dict[str, Used]
    models: list[AgentModel] = Field(description="The model of each agent when the run started.")


class RunPage(Told):
    runs: list[RunView]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")


class QuestionPage(Told):
    questions: list[Question]
    next: str | None


class Event(BaseModel):
    """One thing that happened; more fields follow by type."""

    model_config = ConfigDict(extra="allow")

    run: str = Field(examples=[RUN])
    seq: int = Field(ge=1, examples=[1])
    at: int = Field(examples=[1_794_800_000_000])
    type: str = Field(examples=["run.started"])


class EventPage(Told):
    events: list[Event]
    next: int | None = Field(description="The `after` of the next page; null if there is none yet.")


class StreamEvent(BaseModel):
    """One event of a stream. `data` is an event as JSON, or with `event: stream.closed` the reason why it ends."""

    model_config = ConfigDict(extra="allow")

    data: str = Field(json_schema_extra={"contentMediaType": "application/json"})
    event: str = Field(examples=["message"])
    id: str = Field(examples=["17"])


class Reason(Told):
    run: str = Field(examples=[RUN])
    seq: int = Field(examples=[12])
    type: str = Field(examples=["decision"])
    text: str = Field(examples=["clerk: hand_over cashier, because of [REFUND]"])
    event: Event


class Explanation(Told):
    run: str = Field(examples=[RUN])
    reasons: list[Reason]


class CrewView(Told):
    name: str = Field(examples=["desk"])
    description: str
    sound: bool
    entry_point: str
    agents: list[str]
    problems: int
    revision: str = Field(description="The beginning of the sum of what is served; empty if it has errors.")
    loaded_at: int = Field(description="When it was read, in milliseconds since 1970.")
    newer_problems: int = Field(description="What keeps a newer file from being served; 0 if there is none.")


class CrewList(Told):
    crews: list[CrewView]


class AgentView(Told):
    id: str
    name: str
    role: str
    description: str
    model: str
    tools: list[str]
    handoff_targets: list[str]
    is_terminal: bool
    instructions: str = Field(description="What its model is told: the prompt and the contract of its marks.")


class RouteView(Told):
    agent: str
    signal: str
    behavior: str
    priority: int
    target: str
    description: str


class SignalView(Told):
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


class GraphNode(Told):
    id: str
    name: str
    label: str
    kind: Literal["agent", "group", "sub_crew", "end", "unknown"]
    entry: bool
    terminal: bool
    waits: bool
    notes: list[str]
    closed: str = Field(description="Why what is inside is not shown.")
    inside: "Graph | None"


class GraphEdge(Told):
    source: str
    target: str
    kind: str
    label: str


class Graph(Told):
    name: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    description: str


class ProblemView(Told):
    code: str
    severity: Literal["error", "warning", "note"]
    message: str
    file: str
    line: int
    column: int
    path: str
    fix: str


class Problems(Told):
    ok: bool
    problems: list[ProblemView]


class AgentUsage(Told):
    agent: str = Field(examples=["clerk"])
    usage: Used


class CrewUsage(Told):
    crew: str = Field(examples=["desk"])
    runs: int
    usage: Used
    agents: list[AgentUsage] = Field(description="Who has cost most comes first.")


class UsageAt(Told):
    at: int = Field(description="Where the hour or day begins, in UTC.", examples=[1_794_800_000_000])
    crew: str = Field(examples=["desk"])
    agent: str = Field(description="Of that crew; empty where it is told by crew.", examples=["clerk"])
    usage: Used = Field(
        description="Of the runs started then: by crew with all runs below them, by agent each with its own."
    )


class UsageReport(Told):
    runs: int
    usage: Used
    crews: list[CrewUsage]
    unread: list[str] = Field(description="Damaged runs, of which nobody knows.")
    step_ms: int = Field(description="How long each of the times is.", examples=[3_600_000])
    times: list[UsageAt]


class Emit(Given):
    type: str = Field(max_length=1024, description="What it is, in segments.", examples=["build:project-x:done"])
    data: Any = Field(None, description="Any JSON, or nothing.", examples=[{"ok": True}])


class SendMessage(Given):
    type: str = Field(min_length=1, max_length=64, description="As the host registered it.", examples=["PRICE"])
    to: str = Field(min_length=1, max_length=256, description="An agent of the run's crew.", examples=["clerk"])
    body: dict[str, Any] = Field({}, description="What the type's schema asks for.")


class SentMessage(Told):
    message_id: str = Field(description="An answer names it as `in_response_to`.", examples=[f"{RUN}:m1"])


class Subscribe(Given):
    crew: str = Field(min_length=1, max_length=256, examples=["desk"])
    agent: str = Field(min_length=1, max_length=256, examples=["clerk"])
    pattern: str = Field(max_length=1024, description="`*` is exactly one segment.", examples=["build:*:done"])
    silent: bool = Field(True, description="Shown with the next turn; otherwise it gets a turn for it.")


class Schedule(Given):
    type: str = Field(max_length=1024, examples=["report:due"])
    data: Any = Field(None, examples=[None])
    deliver_at: Whole | None = Field(None, alias="deliverAt", description="Milliseconds since 1970.", examples=[None])
    in_ms: Whole | None = Field(
        None, alias="inMs", ge=0, le=2**53, description="Or so many from now.", examples=[60_000]
    )
    repeat_key: str | None = Field(
        None, alias="repeatKey", description="The same type and key again takes this one's place.", examples=["daily"]
    )


class RepeatView(Told):
    """Every so many milliseconds, or at a local time on some days of the week."""

    everyMs: int = 0  # noqa: N815 - as in schedules of signals
    at: str = ""
    zone: str = ""
    days: list[str] = []


class AddSchedule(Given):
    """When: exactly one of `at`, `every_ms`, `daily` (with `days` for some days of the week) and `cron`."""

    crew: str = Field(max_length=256, examples=["newsroom"])
    input: str = Field("", examples=["The news of the day"])
    at: Whole | None = Field(None, description="Once; milliseconds since 1970.", examples=[None])
    every_ms: Whole | None = Field(None, ge=1, le=2**53, examples=[None])
    daily: str | None = Field(None, max_length=5, description="A local time, HH:MM.", examples=["09:00"])
    days: list[str] = Field([], max_length=7, examples=[["mon", "thu"]])
    cron: str | None = Field(None, max_length=200, description="Five fields.", examples=[None])
    zone: str = Field("UTC", max_length=100, examples=["Europe/Berlin"])


class ScheduleView(Told):
    id: str
    crew: str
    input: str
    next_at: int = Field(description="Milliseconds since 1970.")
    created_at: int
    repeat: RepeatView | None
    cron: str
    zone: str
    paused: bool
    attempts: int = Field(description="How often the next run was tried to start.")
    try_at: int
    last_at: int = Field(description="The time that the last run was planned for; 0 before the first.")
    last_run: str
    problem: str = Field(description="Why the last run did not start; empty if it did.")


class SchedulePage(Told):
    schedules: list[ScheduleView]


class SourceView(Told):
    type: Literal["system", "agent", "webhook", "process"]
    id: str = ""


class BroadcastView(BaseModel):
    """A broadcast, as the protocol has it."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(examples=["k3x9p2q8w7e6r5t4y3u2i1o0"])
    type: str = Field(examples=["build:project-x:done"])
    source: SourceView
    createdAt: int = Field(examples=[1_794_800_000_000])  # noqa: N815 - the name is the protocol's


class BroadcastPage(Told):
    events: list[BroadcastView]


class SubscriptionView(Told):
    crew: str
    agent: str
    pattern: str
    silent: bool
    origin: Literal["file", "tool", "api"]


class SubscriptionPage(Told):
    subscriptions: list[SubscriptionView]


class DelayedView(BroadcastView):
    """A signal for later."""

    deliverAt: int  # noqa: N815 - the name is the protocol's
    attempts: int


class DelayedPage(Told):
    delayed: list[DelayedView]


class DeadBroadcast(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str
    broadcast: BroadcastView
    reason: str
    at: int
    crew: str = Field("", description="Of the agent that it was for.")
    agent: str = Field("", description="Whom it was for; empty if it was withheld from everybody.")


class DeadBroadcasts(Told):
    dead: list[DeadBroadcast]


class Revived(Told):
    revived: int = Field(description="How many deliveries are tried again.")


class DeadLetter(Told):
    number: int
    hook: str = Field(examples=["ops"])
    key: str = Field(description="The id that every try has.", examples=[f"{RUN}:32"])
    attempts: int
    error: str = Field(examples=["the receiver answered 500"])
    died_at: int = Field(description="When it was given up, in ms.", examples=[1_794_800_000_000])
    body: dict[str, Any]


class DeadLetters(Told):
    letters: list[DeadLetter]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")


class Session(Told):
    id: str = Field(examples=["owner"])
    scopes: list[str] = Field(
        description="All that it may; `admin` stands beside the others, not for them.",
        examples=[["admin", "answer", "metrics", "read", "run"]],
    )
    crews: list[str] = Field(
        default=[],
        description="The only crews whose runs it may see and start, if limited.",
        examples=[["desk"]],
    )


class Health(Told):
    status: str = Field(examples=["ok"])


class Problem(BaseModel):
    """RFC 9457. `code` is stable; `detail` is for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:interlock:problem:run-not-found"])
    title: str = Field(examples=["There is no such run"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no run 'x'; 'interlock runs list' shows those there are"])
    code: str = Field(examples=["run-not-found"])
