"""The keys of signals, routes and parallel groups."""

from interlock.crew.keys.values import ANY_TEXT, BEHAVIORS, COUNT, PRIORITY, SECONDS, legacy_key
from interlock.crew.shapes import Flag, Key, ListOf, MapOf, SchemaText, Section, Share, SignalText, Text
from interlock.signals.definition import SignalBehavior

SIGNAL = Section(
    "a signal definition",
    (
        Key("name", SignalText(), "The signal, in brackets.", required=True),
        Key("description", ANY_TEXT, "Its meaning; agents see it."),
        Key("behavior", BEHAVIORS, "Its effect; `route` unless given."),
        Key("default_target", ANY_TEXT, "The target of routes without one."),
        Key("valid_targets", ListOf(Text()), "The only targets it may have, if given."),
        Key(
            "allow_all_agents",
            Flag(),
            "True if every agent may emit it; the default unless `allowed_agents` is given.",
        ),
        Key("allowed_agents", ListOf(Text()), "The agents that may emit it."),
        Key("priority", PRIORITY, "If a reply has several signals, the one with the highest priority wins."),
        Key("example", ANY_TEXT, "An example reply with the signal; agents see it."),
        Key("deprecated_msg", ANY_TEXT, "Marks it as deprecated; names the replacement."),
        Key("required", Flag(), "At least one agent must route it."),
        Key("max_occurs", COUNT, "How often it may be used in one run; the next use stops the run."),
    ),
)

CONTEXT = Section(
    "context",
    (
        Key(
            "history",
            Share(),
            "The part of the caller's history that the sub-crew sees: none, all, or the last N.",
        ),
        Key(
            "return_history",
            Share(all_allowed=False),
            "The part of the sub-crew's history that it returns: none or the last N.",
        ),
    ),
)

ROUTE = Section(
    "a route",
    (
        Key("signal", SignalText(), "The signal of this route.", required=True),
        Key("target", ANY_TEXT, "An agent or a group; empty ends the run (or pauses it, for `[WAIT]`)."),
        Key("type", BEHAVIORS, "The effect of the signal on this route; overrides the definition."),
        Key("priority", PRIORITY, "Overrides the priority of the definition."),
        Key("description", ANY_TEXT, "When to use it; the agent sees this."),
        Key("targets", ListOf(Text()), "The agents to notify, for `type: broadcast`."),
        Key("parallel_targets", ListOf(Text()), "Agents to run in parallel; control returns to the emitter."),
        Key("pause", Flag(), "Wait for the answer, for `type: external`."),
        Key("target_crew", Text(), "The sub-crew to call, for `type: sub_crew`."),
        Key("return_to", Text(), "The agent that gets control after the sub-crew; the emitter unless given."),
        Key("input_template", ANY_TEXT, "The sub-crew's input, with fields such as `{{.Input}}`."),
        Key("on_error", Text(), "What happens if the sub-crew fails: `fail`, `return`, or an agent's id."),
        Key("context", CONTEXT, "The history that the sub-crew sees and returns."),
        Key("takes", SchemaText(), "What the target takes: each `output` of the agent must be a value of this schema."),
    ),
)

# Keys that have an effect only on routes of these types.
KEYS_OF_BEHAVIOR = {
    "target": (SignalBehavior.TERMINATE, SignalBehavior.ROUTE, SignalBehavior.PARALLEL, SignalBehavior.PAUSE),
    "targets": (SignalBehavior.BROADCAST,),
    "pause": (SignalBehavior.EXTERNAL,),
    "target_crew": (SignalBehavior.SUB_CREW,),
    "return_to": (SignalBehavior.SUB_CREW,),
    "input_template": (SignalBehavior.SUB_CREW,),
    "on_error": (SignalBehavior.SUB_CREW,),
    "context": (SignalBehavior.SUB_CREW,),
    "takes": (SignalBehavior.ROUTE, SignalBehavior.PARALLEL, SignalBehavior.SUB_CREW),
}

BEHAVIOR = Section(
    "agent behavior",
    (
        Key("wait_for_signal", Flag(), "Wait for a person if a reply has no signal."),
        Key("auto_route", Flag(), "False waits for a person's approval before a route, group or sub-crew starts."),
        Key("is_terminal", Flag(), "A reply without a signal completes the run."),
        Key("description", ANY_TEXT, "For readers of the file and of the graph."),
        legacy_key("parallel_execution", "groups define what runs in parallel"),
    ),
)

GROUP = Section(
    "a parallel group",
    (
        Key("agents", ListOf(Text()), "The members, in the order in which their replies are merged.", required=True),
        Key("wait_for_all", Flag(), "False continues at the first success and cancels the rest."),
        Key(
            "timeout_seconds",
            SECONDS,
            "Time limit of the members; `settings.parallel_timeout_seconds` unless given.",
        ),
        Key("next_agent", ANY_TEXT, "The agent that gets the merged replies; without one the members' signals decide."),
        Key("on_error", Text(options=("continue", "fail")), "`fail` if a failed member fails the group."),
        Key("description", ANY_TEXT, "For readers of the file and of the graph."),
    ),
)

ROUTING = Section(
    "routing",
    (
        Key("signals", MapOf(ListOf(ROUTE), "agent ids"), "The routes of each agent: which signal leads where."),
        Key("defaults", MapOf(ANY_TEXT, "agent ids"), "The next agent if a reply has no signal."),
        Key("agent_behaviors", MapOf(BEHAVIOR, "agent ids"), "Settings of single agents."),
        Key("parallel_groups", MapOf(GROUP, "group names"), "Agents that work in parallel."),
    ),
)
