"""The keys of a crew file."""

from interlock.crew.keys.agents import AGENT
from interlock.crew.keys.routing import ROUTING, SIGNAL
from interlock.crew.keys.settings import SETTINGS
from interlock.crew.keys.values import ANY_TEXT, COUNT, MONEY, SECONDS, legacy_key
from interlock.crew.shapes import Either, Flag, Key, ListOf, MapOf, Number, SchemaText, Section, Text
from interlock.limits import ANSWER_CHARS_MAX

VERSIONS = ("1.0", "2.0")

CAPS = Section(
    "sub-crew settings",
    (
        Key("max_handoffs", COUNT, "Handoff limit of the child."),
        Key("timeout_seconds", SECONDS, "Limit of the child's working time."),
        Key("max_calls_per_run", COUNT, "Limit of the child's model calls."),
        Key("max_tokens_per_run", COUNT, "Token limit of the child."),
        Key("max_cost_per_run", MONEY, "Cost limit of the child, in dollars."),
    ),
)

SUB_CREW = Section(
    "a sub-crew",
    (
        Key(
            "config_path",
            Text(),
            "The folder of the other crew, inside this crew's own folder.",
            required=True,
        ),
        Key("description", ANY_TEXT, "What it is good at."),
        Key("settings", CAPS, "Limits for it that are tighter than its own."),
        Key("output", SchemaText(), "The output that this crew expects of it; compared with the output that it has."),
    ),
)

DELEGATION = Section(
    "delegation",
    (
        Key("root", Text(), "The root of the tree; the entry point unless given."),
        Key("children", MapOf(ListOf(Text()), "agent ids"), "The children of each agent: a tree.", required=True),
        Key("select", Text(options=("model", "all", "none")), "How the children for a task are selected."),
        Key(
            "report_check",
            Text(options=("model", "rules", "none")),
            "How a report is checked against its task.",
        ),
        Key("ack_timeout_seconds", SECONDS, "Time limit for the acknowledgement of a message."),
        Key("answer_timeout_seconds", SECONDS, "Time limit for the answer to a question or task."),
        Key("min_report_chars", Number(least=1, most=ANSWER_CHARS_MAX, whole=True), "Least length of a report."),
        Key("max_follow_ups", Number(most=100, whole=True), "How often a report may be sent back."),
        Key("max_depth", Number(least=1, most=32, whole=True), "How deep delegation may go."),
    ),
)

SUBSCRIPTION = Section(
    "a subscription",
    (
        Key("pattern", Text(), "Broadcast types to receive; `*` matches one segment.", required=True),
        Key("silent", Flag(), "False gives the agent a turn for each broadcast."),
    ),
)

CREW = Section(
    "a crew",
    (
        Key("version", Text(loose=True, options=VERSIONS), "The version of the file format.", required=True),
        Key("name", Text(), "The crew's name; its folder's name unless given."),
        Key("description", ANY_TEXT, "What the crew is for."),
        Key("entry_point", Text(), "The agent that gets the input.", required=True),
        Key(
            "agents",
            ListOf(Either(Text(), AGENT)),
            "Ids of agents with files, or inline agents.",
            required=True,
        ),
        Key("signals", ListOf(SIGNAL), "Signals of this crew; they extend or override the built-in ones."),
        Key("routing", ROUTING, "Which agent gets control next."),
        Key("sub_crews", MapOf(SUB_CREW, "names"), "Crews that this crew can call."),
        Key("delegation", DELEGATION, "Delegation between agents, with typed messages."),
        Key("subscriptions", MapOf(ListOf(SUBSCRIPTION), "agent ids"), "The broadcasts that each agent receives."),
        Key("settings", SETTINGS, "Limits, budgets and defaults."),
        Key(
            "output",
            SchemaText(),
            "The JSON value of a completed run: a JSON Schema, or a file with one in the crew's folder. Each agent "
            "whose reply can end the run is asked for it.",
        ),
        legacy_key("tasks", "a crew starts from its input"),
    ),
)
