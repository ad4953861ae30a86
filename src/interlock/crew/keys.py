"""Every key of a crew file and of an agent file: its shape and what it is for.

The reader, the JSON Schema and the reference are all made from these tables, so none of them can lag behind.
"""

from interlock.crew.shapes import (
    Anything,
    Either,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    Section,
    Share,
    SignalText,
    Text,
)
from interlock.limits import ANSWER_CHARS_MAX
from interlock.signals.definition import PRIORITY_MAX, SignalBehavior

VERSIONS = ("1.0", "2.0")
ANY_TEXT = Text(blank=True)
COUNT = Number(least=1, most=1e9, whole=True)
SECONDS = Number(above=True, most=31_536_000)
MONEY = Number(most=1e9)
PRIORITY = Number(most=PRIORITY_MAX, whole=True)
SHARE_OF_ONE = Number(above=True, most=1)
BEHAVIORS = Text(options=tuple(SignalBehavior))
OLD_INNARDS = "it tuned the inner workings of the old program"


def _legacy(name: str, reason: str) -> Key:
    return Key(name, Anything(), "Kept so that old files load.", legacy=reason)


MODEL = Section(
    "a model",
    (
        Key(
            "model",
            Text(),
            "The model, as `provider:name` or just its name beside `provider`.",
            required=True,
        ),
        Key("provider", Text(), "Who serves the model, such as `openai`."),
        Key("provider_url", ANY_TEXT, "The server's address: the provider's own, or one that `interlock.toml` lists."),
    ),
)

COST_LIMITS = Section(
    "cost_limits",
    (
        Key("max_tokens_per_call", COUNT, "Most tokens of one model call of this agent."),
        Key("max_tokens_per_day", COUNT, "Most tokens of this agent in a UTC day."),
        Key("max_cost_per_day_usd", MONEY, "Most dollars of this agent in a UTC day."),
        Key("alert_threshold", SHARE_OF_ONE, "Warn when this share of a limit is used."),
        Key("block_on_cost_exceed", Flag(), "Stop at a limit; false only warns."),
        Key("enforce", Flag(), "Another name for `block_on_cost_exceed`."),
        Key("input_token_price_per_million", MONEY, "Dollars for a million tokens read; 0 is free."),
        Key("output_token_price_per_million", MONEY, "Dollars for a million tokens written; 0 is free."),
    ),
)

ERROR_LIMITS = Section(
    "error_limits",
    (
        Key("max_consecutive", COUNT, "Most failed model calls of this agent in a row."),
        Key("max_per_day", COUNT, "Most failed model calls of this agent in a UTC day."),
        Key("block_on_error_exceed", Flag(), "Stop at a limit; false only warns."),
        Key("enforce", Flag(), "Another name for `block_on_error_exceed`."),
    ),
)

AGENT = Section(
    "an agent",
    (
        Key("id", Text(), "What the agent is called in the crew."),
        Key("name", Text(), "What the agent is called in conversations; the id unless given."),
        Key("role", ANY_TEXT, "Its role, for `{{role}}`."),
        Key(
            "description",
            ANY_TEXT,
            "What it is good for, for `{{description}}` and for whoever delegates to it.",
        ),
        Key("backstory", ANY_TEXT, "Where it comes from, for `{{backstory}}`."),
        Key(
            "system_prompt",
            ANY_TEXT,
            "Its instructions; `{{name}}`, `{{role}}`, `{{description}}` and `{{backstory}}` are filled in.",
        ),
        Key("temperature", Number(most=2), "Sampling temperature; 0 means 0."),
        Key("top_p", Number(above=True, most=1), "Nucleus sampling."),
        Key("top_k", COUNT, "Sampling among the k likeliest tokens."),
        Key("model", Text(), "The model, as `provider:name`."),
        Key("provider", Text(), "Who serves `model`, in older files."),
        Key("provider_url", ANY_TEXT, "The server's address for `model`, in older files; the rule of `primary` holds."),
        Key("primary", MODEL, "The model to call."),
        Key("backup", MODEL, "The model to call when the primary one fails."),
        Key("tools", ListOf(Text()), "Tools it may call: names, or `mcp:<server>` or `mcp:<server>/<tool>`."),
        Key(
            "handoff_targets",
            ListOf(Text()),
            "Where control goes when a reply carries no signal: the first one.",
        ),
        Key("is_terminal", Flag(), "A reply without a signal completes the run."),
        Key("cost_limits", COST_LIMITS, "Budgets and prices of this agent."),
        Key("error_limits", ERROR_LIMITS, "When to stop calling its model."),
        Key("signals", ListOf(SignalText()), "The only signals it may emit, if given."),
        *(
            _legacy(name, "limits of an agent stand under cost_limits")
            for name in (
                "max_tokens_per_call",
                "max_tokens_per_day",
                "max_cost_per_day",
                "cost_alert_threshold",
                "enforce_cost_limits",
                "enforce_quotas",
            )
        ),
        _legacy("memory_limits", OLD_INNARDS),
        _legacy("logging", "every event is journalled and the log is set up by the host"),
    ),
)

SIGNAL = Section(
    "a signal definition",
    (
        Key("name", SignalText(), "The mark, in brackets.", required=True),
        Key("description", ANY_TEXT, "What it means; agents are told."),
        Key("behavior", BEHAVIORS, "What it does; `route` unless given."),
        Key("default_target", ANY_TEXT, "Where it leads when a route names no target."),
        Key("valid_targets", ListOf(Text()), "The only targets it may have, if given."),
        Key(
            "allow_all_agents",
            Flag(),
            "Whether every agent may emit it; true unless `allowed_agents` is given.",
        ),
        Key("allowed_agents", ListOf(Text()), "Who may emit it."),
        Key("priority", PRIORITY, "Who wins when a reply carries several; the higher one."),
        Key("example", ANY_TEXT, "A reply that carries it; agents are shown it."),
        Key("deprecated_msg", ANY_TEXT, "Marks it as deprecated, and says what to use instead."),
        Key("required", Flag(), "Some agent must route it."),
        Key("max_occurs", COUNT, "How often it may steer in one run; the next one stops the run."),
    ),
)

CONTEXT = Section(
    "context",
    (
        Key(
            "history",
            Share(),
            "How much of the caller's history the sub-crew sees: none, all, or the last N.",
        ),
        Key(
            "return_history",
            Share(all_allowed=False),
            "How much of the sub-crew's comes back: none or the last N.",
        ),
    ),
)

ROUTE = Section(
    "a route",
    (
        Key("signal", SignalText(), "The mark that takes this route.", required=True),
        Key("target", ANY_TEXT, "An agent or a group; empty ends the run (or pauses it, for `[WAIT]`)."),
        Key("type", BEHAVIORS, "What the signal does here, whatever the registry says."),
        Key("priority", PRIORITY, "Overrides the definition's."),
        Key("description", ANY_TEXT, "When to use it; the agent is told."),
        Key("targets", ListOf(Text()), "Who is told, for `type: broadcast`."),
        Key("parallel_targets", ListOf(Text()), "Agents to run side by side; control returns to the emitter."),
        Key("pause", Flag(), "Wait for the answer, for `type: external`."),
        Key("target_crew", Text(), "The sub-crew to call, for `type: sub_crew`."),
        Key("return_to", Text(), "Who gets control after the sub-crew; the emitter unless given."),
        Key("input_template", ANY_TEXT, "The sub-crew's input, with fields such as `{{.Input}}`."),
        Key("on_error", Text(), "What a failed sub-crew causes: `fail`, `return`, or an agent's id."),
        Key("context", CONTEXT, "What history the sub-crew sees and gives back."),
    ),
)

# Keys that mean something only on routes of these types.
KEYS_OF_BEHAVIOR = {
    "target": (SignalBehavior.TERMINATE, SignalBehavior.ROUTE, SignalBehavior.PARALLEL, SignalBehavior.PAUSE),
    "targets": (SignalBehavior.BROADCAST,),
    "pause": (SignalBehavior.EXTERNAL,),
    "target_crew": (SignalBehavior.SUB_CREW,),
    "return_to": (SignalBehavior.SUB_CREW,),
    "input_template": (SignalBehavior.SUB_CREW,),
    "on_error": (SignalBehavior.SUB_CREW,),
    "context": (SignalBehavior.SUB_CREW,),
}

BEHAVIOR = Section(
    "agent behavior",
    (
        Key("wait_for_signal", Flag(), "Pause for a person when a reply carries no signal."),
        Key("auto_route", Flag(), "False holds a found route, group or sub-crew until a person approves it."),
        Key("is_terminal", Flag(), "A reply without a signal completes the run."),
        Key("description", ANY_TEXT, "For readers of the file and of the graph."),
        _legacy("parallel_execution", "groups say what runs side by side"),
    ),
)

GROUP = Section(
    "a parallel group",
    (
        Key("agents", ListOf(Text()), "The members, in the order their replies are merged.", required=True),
        Key("wait_for_all", Flag(), "False goes on at the first success and cancels the rest."),
        Key(
            "timeout_seconds",
            SECONDS,
            "How long members may work; `settings.parallel_timeout_seconds` unless given.",
        ),
        Key("next_agent", ANY_TEXT, "Who gets the merged replies; without one the members' marks decide."),
        Key("on_error", Text(options=("continue", "fail")), "Whether a failed member fails the group."),
        Key("description", ANY_TEXT, "For readers of the file and of the graph."),
    ),
)

ROUTING = Section(
    "routing",
    (
        Key("signals", MapOf(ListOf(ROUTE), "agent ids"), "Which marks of which agent lead where."),
        Key("defaults", MapOf(ANY_TEXT, "agent ids"), "Where control goes when a reply carries no signal."),
        Key("agent_behaviors", MapOf(BEHAVIOR, "agent ids"), "How single agents differ."),
        Key("parallel_groups", MapOf(GROUP, "group names"), "Agents that work side by side."),
    ),
)

CAPS = Section(
    "sub-crew settings",
    (
        Key("max_handoffs", COUNT, "Most handoffs of the child."),
        Key("timeout_seconds", SECONDS, "Most working time of the child."),
        Key("max_calls_per_run", COUNT, "Most model calls of the child."),
        Key("max_tokens_per_run", COUNT, "Most tokens of the child."),
        Key("max_cost_per_run", MONEY, "Most dollars of the child."),
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
        Key("description", ANY_TEXT, "What it is good for."),
        Key("settings", CAPS, "Bounds for it that are tighter than its own."),
    ),
)

DELEGATION = Section(
    "delegation",
    (
        Key("root", Text(), "Who delegates first; the entry point unless given."),
        Key("children", MapOf(ListOf(Text()), "agent ids"), "Who may delegate to whom: a tree.", required=True),
        Key("select", Text(options=("model", "all", "none")), "Who picks the children a task needs."),
        Key(
            "report_check",
            Text(options=("model", "rules", "none")),
            "What checks that a report addresses its task.",
        ),
        Key("ack_timeout_seconds", SECONDS, "How long a message may go unacknowledged."),
        Key("answer_timeout_seconds", SECONDS, "How long a question or task may go unanswered."),
        Key("min_report_chars", Number(least=1, most=ANSWER_CHARS_MAX, whole=True), "How long a report is at least."),
        Key("max_follow_ups", Number(most=100, whole=True), "How often a report is sent back."),
        Key("max_depth", Number(least=1, most=32, whole=True), "How deep delegation may go."),
    ),
)

SUBSCRIPTION = Section(
    "a subscription",
    (
        Key("pattern", Text(), "Broadcast types to hear; `*` is one segment.", required=True),
        Key("silent", Flag(), "False gives the agent a turn when it hears one."),
    ),
)

SETTINGS = Section(
    "settings",
    (
        Key("config_mode", Text(options=("permissive", "strict")), "Strict wants the bounds written out."),
        Key("signal_registration", Text(options=("required", "inferred")), "Whether signals must be declared."),
        Key(
            "signal_position",
            Text(options=("anywhere", "own_line", "last_line")),
            "Where in a reply marks count.",
        ),
        Key("signal_mode", Text(options=("text", "tool", "constrained")), "How agents emit signals."),
        Key("cut_on_signal", Flag(), "Stop the model after the first line that holds only steering marks."),
        Key(
            "on_no_signal",
            Text(options=("nudge", "fail", "complete")),
            "What a reply without a way on causes.",
        ),
        Key("on_conflict", Text(options=("priority", "nudge", "fail")), "What contradicting marks cause."),
        Key("language", Text(options=("en", "vi")), "The language of the text that Interlock adds to prompts."),
        Key("organization", ANY_TEXT, "Recorded with every run."),
        Key("model", Text(), "The model of every agent without its own, as `provider:name`."),
        Key("input_token_price_per_million", MONEY, "Dollars for a million tokens that it reads; 0 is free."),
        Key("output_token_price_per_million", MONEY, "Dollars for a million tokens that it writes; 0 is free."),
        Key("max_handoffs", COUNT, "Most departures of control in one run."),
        Key("max_rounds", COUNT, "Most model calls within one turn."),
        Key(
            "loop_window",
            Number(most=10_000, whole=True),
            "Handoffs within which equal replies are a loop; 0 is off.",
        ),
        Key("timeout_seconds", SECONDS, "Most working time of a run; waiting for people does not count."),
        Key("parallel_timeout_seconds", SECONDS, "Most working time of a group without its own."),
        Key(
            "timeout_warning_threshold_pct",
            Number(above=True, most=100),
            "Warn when this much of it is used.",
        ),
        Key("slow_call_threshold_seconds", SECONDS, "Warn when a model call takes longer."),
        Key("max_context_window", COUNT, "Most tokens of history an agent is shown."),
        Key("context_trim_percent", Number(above=True, most=99), "How much of a full window is cleared."),
        Key("max_input_size_kb", COUNT, "Largest input of a run."),
        Key("max_request_body_size_kb", COUNT, "Largest request the server takes."),
        Key("sse_keep_alive_seconds", SECONDS, "How often an idle event stream says it is alive."),
        Key("max_tool_output_chars", COUNT, "Longest output of one tool."),
        Key("max_total_tool_output_chars", COUNT, "Longest output of all tools of one reply."),
        Key("tool_execution_timeout_seconds", SECONDS, "Most time of one tool."),
        Key("tool_result_timeout_seconds", SECONDS, "Most time of all tools of one reply."),
        Key("retry_backoff_min_millis", COUNT, "First wait before a failed model call is tried again."),
        Key("retry_backoff_max_seconds", SECONDS, "Longest such wait."),
        Key("max_calls_per_minute", COUNT, "Most model calls of the crew in a minute."),
        Key("max_calls_per_hour", COUNT, "Most model calls of the crew in an hour."),
        Key("max_calls_per_day", COUNT, "Most model calls of the crew in a UTC day."),
        Key("max_calls_per_run", COUNT, "Most model calls of one run."),
        Key("max_tokens_per_call", COUNT, "Most tokens of one model call."),
        Key("max_tokens_per_minute", COUNT, "Most tokens of the crew in a minute."),
        Key("max_tokens_per_hour", COUNT, "Most tokens of the crew in an hour."),
        Key("max_tokens_per_day", COUNT, "Most tokens of the crew in a UTC day."),
        Key("max_tokens_per_run", COUNT, "Most tokens of one run."),
        Key("max_cost_per_call", MONEY, "Most dollars of one model call."),
        Key("max_cost_per_minute", MONEY, "Most dollars of the crew in a minute."),
        Key("max_cost_per_hour", MONEY, "Most dollars of the crew in an hour."),
        Key("max_cost_per_day", MONEY, "Most dollars of the crew in a UTC day."),
        Key("max_cost_per_run", MONEY, "Most dollars of one run."),
        Key("cost_alert_threshold", SHARE_OF_ONE, "Warn when this share of a cost budget is used."),
        Key("block_on_quota_exceed", Flag(), "True stops at a call quota, false waits for the next window."),
        Key("max_errors_per_hour", COUNT, "Most failed model calls of the crew in an hour."),
        Key("max_errors_per_day", COUNT, "Most failed model calls of the crew in a UTC day."),
        Key("max_consecutive_errors", COUNT, "Most failed model calls of the crew in a row."),
        *(
            _legacy(name, OLD_INNARDS)
            for name in (
                "max_memory_mb",
                "max_daily_memory_gb",
                "memory_alert_percent",
                "min_tool_timeout_millis",
                "stream_chunk_timeout_millis",
                "request_store_cleanup_minutes",
                "min_agent_id_length",
                "max_agent_id_length",
                "stream_buffer_size",
                "max_stored_requests",
                "client_cache_ttl_minutes",
                "graceful_shutdown_check_millis",
            )
        ),
    ),
)

# What `config_mode: strict` wants written out, and positive.
STRICT_SETTINGS = (
    "parallel_timeout_seconds",
    "tool_execution_timeout_seconds",
    "tool_result_timeout_seconds",
    "sse_keep_alive_seconds",
    "retry_backoff_min_millis",
    "retry_backoff_max_seconds",
    "max_input_size_kb",
    "max_request_body_size_kb",
    "max_tool_output_chars",
    "max_total_tool_output_chars",
    "max_tokens_per_call",
    "max_tokens_per_day",
    "max_context_window",
    "slow_call_threshold_seconds",
    "max_errors_per_hour",
    "max_errors_per_day",
    "max_consecutive_errors",
    "max_calls_per_minute",
    "max_calls_per_hour",
    "max_calls_per_day",
)

CREW = Section(
    "a crew",
    (
        Key("version", Text(loose=True, options=VERSIONS), "The form of the file.", required=True),
        Key("name", Text(), "What the crew is called; its folder's name unless given."),
        Key("description", ANY_TEXT, "What the crew is for."),
        Key("entry_point", Text(), "The agent that gets the input.", required=True),
        Key(
            "agents",
            ListOf(Either(Text(), AGENT)),
            "Ids of agents with files, or agents in place.",
            required=True,
        ),
        Key("signals", ListOf(SIGNAL), "Signals of this crew; they extend or override the built-in ones."),
        Key("routing", ROUTING, "Who gets control when."),
        Key("sub_crews", MapOf(SUB_CREW, "names"), "Crews that this crew can call."),
        Key("delegation", DELEGATION, "Who delegates to whom, with typed messages."),
        Key("subscriptions", MapOf(ListOf(SUBSCRIPTION), "agent ids"), "Which broadcasts an agent hears."),
        Key("settings", SETTINGS, "Bounds, budgets and manners."),
        _legacy("tasks", "a crew starts from its input"),
    ),
)
