"""Bodies about runs, their questions and their events."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from interlock.server.shapes.fields import RUN, TOKEN, LongText, RequestBody, ResponseBody, WholeNumber
from interlock.server.shapes.usage import Used

Status = Literal["running", "paused", "completed", "failed", "stopped", "cancelled"]


class Context(RequestBody):
    """The context of a run, besides its input."""

    original_input: LongText = ""
    previous_results: dict[str, str] = Field(default={}, description="Results of other crews, by name.")
    shared_memory: dict[str, Any] = Field(default={}, description="Values that agents may read and write.")


class StartRun(RequestBody):
    crew: str = Field(description="The name of a crew that is served here.", examples=["desk"])
    input: LongText = Field(
        "", description="The input of the first agent.", examples=["My lamp never came, order A-17"]
    )
    continues: str | None = Field(
        None, alias="continue", description="A finished run whose history the new one starts from.", examples=[None]
    )
    context: Context | None = Field(None, description="Not together with `continue`.", examples=[None])


class Resume(RequestBody):
    token: str | None = Field(None, description="The wait to answer; optional if there is only one.", examples=[TOKEN])
    input: LongText = Field("", description="The answer.", examples=["yes"])


class Fork(RequestBody):
    after: WholeNumber = Field(
        ge=1, le=2**53, description="The seq of the last event that both runs share.", examples=[12]
    )


class GiveAnswer(RequestBody):
    answer: LongText = Field(
        description=(
            "The answer, as the person gave it. To an approval: `yes`, `no`, `no: REASON`, a JSON object with other"
            " arguments, or, with the scope `approve`, `for this run` and `always`, which may name the calls that they"
            " hold for: `always: pay:amount <= 50`."
        ),
        examples=["yes"],
    )


class SendMessage(RequestBody):
    type: str = Field(min_length=1, max_length=64, description="A type that the host registered.", examples=["PRICE"])
    to: str = Field(min_length=1, max_length=256, description="An agent of the run's crew.", examples=["clerk"])
    body: dict[str, Any] = Field({}, description="The body, as the schema of the type requires.")


class SentMessage(ResponseBody):
    message_id: str = Field(description="An answer names it as `in_response_to`.", examples=[f"{RUN}:m1"])


class Question(ResponseBody):
    """A wait for a person. Its id stays when it is asked again because an answer was refused; its token does not."""

    id: str = Field(examples=[TOKEN])
    run: str = Field(examples=[RUN])
    crew: str = Field(examples=["desk"])
    agent: str = Field(examples=["cashier"])
    question: str = Field(examples=["May I pay 240 dollars?"])
    context: str = Field(
        description="Why the agent asks, in its own words, or why the tool call needs an approval; may be empty.",
        examples=["The customer is waiting."],
    )
    expects: str = Field(description="The form of an answer, in words; empty if any will do.")
    choices: list[str] = Field(description="The possible answers; empty if the answer is free.")
    reason: str = Field(examples=["signal:[WAIT]"])
    token: str = Field(examples=[TOKEN])
    asked_at: int = Field(description="Milliseconds since 1970.", examples=[1_794_800_000_000])
    deadline_at: int | None = Field(
        description="Milliseconds since 1970; null if there is no deadline.", examples=[None]
    )
    default: str | None = Field(description="The answer that counts after the deadline; null if there is none.")
    pattern: str = Field(description="A pattern for the whole answer; empty if there is none.")
    answer_schema: dict[str, Any] = Field(description="The schema of an answer in JSON; empty if it is not JSON.")
    fault: str = Field(description="Why the last answer was refused; empty if none was.")
    key: str = Field(description="Stays the same when the question is asked again.", examples=[TOKEN])
    tool: str = Field(description="The tool of the question; empty if there is none.")
    arguments: Any = Field(description="The arguments of the tool; null if this is not an approval.")
    parameters: dict[str, Any] = Field(
        description="The schema of the tool's arguments; empty if this is not an approval."
    )
    holds_for: str = Field(
        description=(
            "The calls for which the answers `for this run` and `always` hold; empty if the answer must name them, and"
            " if this is not an approval."
        )
    )


class RunView(ResponseBody):
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
    parent: str = Field(description="The run that called it; empty for a run that was started directly.")
    continues: str = Field(description="The run that it continues, or was forked from.")
    usage: Used


class AgentModel(ResponseBody):
    """`path` are the sub-crews from the run down to the agent, as in events."""

    path: list[str]
    agent: str = Field(examples=["clerk"])
    model: str = Field(examples=["openai:gpt-4o-mini"])


class RunDetail(RunView):
    """`output` is the last reply, `text` the same without signals, or the open question."""

    detail: str = Field(
        description="The reason in a sentence, if a budget stopped the run or a process could not drive it."
    )
    output: str
    text: str
    value: Any = Field(description="The typed result; null unless the run completed with one.", examples=[None])
    token: str = Field(description="The token of the oldest open wait, if the run is paused.")
    questions: list[Question]
    usage_by_agent: dict[str, Used]
    models: list[AgentModel] = Field(description="The model of each agent when the run started.")


class RunPage(ResponseBody):
    runs: list[RunView]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")


class QuestionPage(ResponseBody):
    questions: list[Question]
    next: str | None


class Event(BaseModel):
    """An event; its type decides on more fields."""

    model_config = ConfigDict(extra="allow")

    run: str = Field(examples=[RUN])
    seq: int = Field(ge=1, examples=[1])
    at: int = Field(examples=[1_794_800_000_000])
    type: str = Field(examples=["run.started"])


class EventPage(ResponseBody):
    events: list[Event]
    next: int | None = Field(description="`after` for the next page; null if there is none yet.")


class StreamEvent(BaseModel):
    """One event of a stream. `data` is an event as JSON, or with `event: stream.closed` the reason why it ends."""

    model_config = ConfigDict(extra="allow")

    data: str = Field(json_schema_extra={"contentMediaType": "application/json"})
    event: str = Field(examples=["message"])
    id: str = Field(examples=["17"])


class Reason(ResponseBody):
    run: str = Field(examples=[RUN])
    seq: int = Field(examples=[12])
    type: str = Field(examples=["decision"])
    text: str = Field(examples=["clerk handed over to cashier on [REFUND]"])
    event: Event


class Explanation(ResponseBody):
    run: str = Field(examples=[RUN])
    reasons: list[Reason]
