"""`interlock explain`: what a reply would do, and the prompt of an agent."""

import sys

import click
import msgspec

from interlock.cli.crew_argument import crew_argument, open_sound_crew, safe_line
from interlock.crew.definition import CrewDefinition
from interlock.crew.registry import registry_of
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.routing.candidates import Candidate, Verb
from interlock.engine.routing.decision import Decision, OwnReply, RoutingTable
from interlock.engine.to_plain import to_plain
from interlock.signals.reasoning_tags import split_reasoning
from interlock.signals.report import emission_line, routing_line

_OUTCOME_COLORS = {"won": "green", "joined": "green", "told": "cyan", "noted": "cyan", "lost": "yellow"}

_WITHOUT_SIGNAL = {
    "wait_for_signal": "it carries no signal, and wait_for_signal is set",
    "terminal_agent": "it carries no signal, and the agent is terminal",
    "default": "it carries no signal, and this is the agent's default",
    "handoff_target": "it carries no signal, and this is the agent's first handoff target",
    "no_signal_complete": "it carries no signal, and on_no_signal is complete",
    "no_signal": "it carries no signal, and the agent has no default and no handoff target",
    "conflict": "its signals contradict each other",
}


@click.command()
@crew_argument
@click.option("--agent", required=True, metavar="A", help="The agent that replies.")
@click.option("--reply", metavar="TEXT|-", help="The reply; - reads standard input.")
@click.option("--prompt", is_flag=True, help="Show the agent's instructions, with its signals.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(crew: str, config: str | None, agent: str, reply: str | None, prompt: bool, as_json: bool) -> None:
    """Show what a reply of agent A would do in CREW: every signal, which one wins, and why."""
    if (reply is None) is not prompt:
        raise click.UsageError("give either --reply TEXT or --prompt")
    definition = open_sound_crew(crew, config)
    table = RoutingTable(definition)
    text = _read_standard_input() if reply == "-" else reply or ""
    decision = table.decide(OwnReply(agent, split_reasoning(text).text))
    if prompt:
        _print_prompt(Conversation(definition, table), agent, as_json)
        return
    if as_json:
        click.echo(msgspec.json.encode(to_plain(decision)).decode())
    else:
        _print_decision(definition, decision)


def _print_prompt(conversation: Conversation, agent: str, as_json: bool) -> None:
    """Print the prompt of a normal turn, and of a turn in each group of the agent."""
    groups = [group.name for group in conversation.crew.groups.values() if agent in group.agents]
    members = {group: conversation.instructions(agent, group) for group in groups}
    instructions, ending = conversation.instructions(agent), conversation.ending(agent)
    if as_json:
        answer = {"agent": agent, "prompt": instructions, "as_member": members, "ending": ending}
        click.echo(msgspec.json.encode(answer).decode())
        return
    click.echo(_safe_lines(instructions))
    for group, text in members.items():
        click.echo(click.style(f"\nas a member of group {safe_line(group)}:", bold=True))
        click.echo(_safe_lines(text))


def _safe_lines(text: str) -> str:
    return "\n".join(map(safe_line, text.splitlines()))


def _read_standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8", errors="replace")


def _print_decision(crew: CrewDefinition, decision: Decision) -> None:
    _print_candidates(decision.candidates)
    if decision.rejected:
        click.echo("signals without effect:")
        for rejection in decision.rejected:
            click.echo(f"  {safe_line(rejection.mark)}  line {rejection.line}  {safe_line(rejection.reason)}")
    click.echo(
        click.style("decision: ", bold=True)
        + safe_line(f"{_decision_text(decision)}, because {_reason_text(decision)}")
    )
    _print_log_lines(crew, decision)


def _print_candidates(candidates: tuple[Candidate, ...]) -> None:
    if not candidates:
        click.echo("no signal of this agent's routes")
        return
    rows = [("signal", "line", "match", "priority", "action", "outcome")]
    rows += [
        (c.signal, str(c.line), c.method, str(c.priority), _effect(c.verb, c.target), c.outcome) for c in candidates
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row, candidate in zip(rows, (None, *candidates), strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if candidate is not None and candidate.conflicts:
            cells += " (contradicts the winner)"
        color = _OUTCOME_COLORS[candidate.outcome] if candidate is not None else None
        click.echo(click.style(f"  {safe_line(cells)}", fg=color, dim=candidate is None))


def _effect(verb: Verb, target: str) -> str:
    effects = {
        Verb.HAND_OVER: f"hand over to {target}" if target else "acknowledge",
        Verb.CALL: f"call crew {target}",
        Verb.FORK: f"start group {target}",
        Verb.AWAIT: f"wait, then continue at {target}" if target else "wait for an answer",
        Verb.TELL: "notify, and continue",
        Verb.END: "end the run",
    }
    return effects[verb]


def _decision_text(decision: Decision) -> str:
    if decision.verb is None:
        return "ask the agent again (nudge)" if decision.then == "nudge" else "fail the run"
    held = "hold until a person approves: " if decision.held else ""
    return held + _effect(decision.verb, decision.target)


def _reason_text(decision: Decision) -> str:
    if decision.because != "signal":
        return _WITHOUT_SIGNAL[decision.because]
    rivals = [c for c in decision.candidates if c.outcome == "lost"]
    winner = next(c for c in decision.candidates if c.outcome == "won")
    if not rivals:
        return f"{winner.signal} is the only signal"
    rival = rivals[0]
    if rival.priority != winner.priority:
        return f"{winner.signal} has priority {winner.priority}, {rival.signal} has {rival.priority}"
    if rival.method != winner.method:
        return f"{winner.signal} matches {winner.method}, {rival.signal} only {rival.method}"
    return f"{winner.signal} is before {rival.signal} in the file"


def _print_log_lines(crew: CrewDefinition, decision: Decision) -> None:
    """Print the log lines of this decision in a run."""
    registry = registry_of(crew)
    lines = []
    for candidate in decision.candidates:
        definition = registry.get(candidate.signal)
        assert definition is not None, "a crew's registry knows every signal the crew routes"
        lines.append(emission_line(decision.agent, definition, candidate.method))
    if decision.verb in (Verb.HAND_OVER, Verb.FORK) and decision.signal and not decision.held:
        lines.append(routing_line(decision.agent, decision.target, decision.signal))
    if lines:
        click.echo("log:")
        for line in lines:
            click.echo(click.style(f"  {safe_line(line)}", dim=True))
