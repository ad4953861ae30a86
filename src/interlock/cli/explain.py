"""`interlock explain`: what would this reply do, and why; and what an agent is told of its marks."""

import sys

import click
import msgspec

from interlock.cli.crews import crew_argument, open_sound_crew, shown
from interlock.crew.definition import Crew
from interlock.crew.registry import registry_of
from interlock.engine.conversation import Conversation
from interlock.engine.in_full import in_full
from interlock.engine.routing import Candidate, Decision, OwnReply, RoutingTable, Verb
from interlock.signals.report import emitted_line, routed_line

_OUTCOME_COLORS = {"won": "green", "joined": "green", "told": "cyan", "noted": "cyan", "lost": "yellow"}

_WITHOUT_SIGNAL = {
    "wait_for_signal": "it carries no signal, and wait_for_signal is set",
    "terminal_agent": "it carries no signal, and the agent is terminal",
    "default": "it carries no signal, and this is the agent's default",
    "handoff_target": "it carries no signal, and this is the agent's first handoff target",
    "no_signal_complete": "it carries no signal, and on_no_signal is complete",
    "no_signal": "it carries no signal, and the agent has no default and no handoff target",
    "conflict": "its marks contradict each other",
}


@click.command()
@crew_argument
@click.option("--agent", required=True, metavar="A", help="Whose reply it is.")
@click.option("--reply", metavar="TEXT|-", help="What the agent said; - reads standard input.")
@click.option("--prompt", is_flag=True, help="Show the agent's instructions, with what it is told of its marks.")
@click.option("--json", "as_json", is_flag=True, help="The answer as one object.")
def explain(crew: str, config: str | None, agent: str, reply: str | None, prompt: bool, as_json: bool) -> None:
    """Show what a reply of agent A would do in CREW: every mark, who won, who lost, and why."""
    if (reply is None) is not prompt:
        raise click.UsageError("give either --reply TEXT, for what it would do, or --prompt, for what A is told")
    definition = open_sound_crew(crew, config)
    table = RoutingTable(definition)
    text = _standard_input() if reply == "-" else reply or ""
    decision = table.decide(OwnReply(agent, text))
    if prompt:
        _tell_prompt(Conversation(definition, table), agent, as_json)
        return
    if as_json:
        click.echo(msgspec.json.encode(in_full(decision)).decode())
    else:
        _tell(definition, decision)


def _tell_prompt(conversation: Conversation, agent: str, as_json: bool) -> None:
    """With the floor, and as a member of each group it is in."""
    groups = [group.name for group in conversation.crew.groups.values() if agent in group.agents]
    members = {group: conversation.instructions(agent, group) for group in groups}
    instructions, ending = conversation.instructions(agent), conversation.ending(agent)
    if as_json:
        answer = {"agent": agent, "prompt": instructions, "as_member": members, "ending": ending}
        click.echo(msgspec.json.encode(answer).decode())
        return
    click.echo(_shown_lines(instructions))
    for group, text in members.items():
        click.echo(click.style(f"\nas a member of group {shown(group)}:", bold=True))
        click.echo(_shown_lines(text))


def _shown_lines(text: str) -> str:
    return "\n".join(map(shown, text.splitlines()))


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8", errors="replace")


def _tell(crew: Crew, decision: Decision) -> None:
    _tell_candidates(decision.candidates)
    if decision.rejected:
        click.echo("marks that do not steer:")
        for rejection in decision.rejected:
            click.echo(f"  {shown(rejection.mark)}  line {rejection.line}  {shown(rejection.reason)}")
    click.echo(click.style("decision: ", bold=True) + shown(f"{_what(decision)}, because {_why(decision)}"))
    _tell_log(crew, decision)


def _tell_candidates(candidates: tuple[Candidate, ...]) -> None:
    if not candidates:
        click.echo("no mark of this agent's routes")
        return
    rows = [("mark", "line", "recognised", "priority", "it would", "outcome")]
    rows += [
        (c.signal, str(c.line), c.method, str(c.priority), _effect(c.verb, c.target), c.outcome) for c in candidates
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row, candidate in zip(rows, (None, *candidates), strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if candidate is not None and candidate.conflicts:
            cells += " (contradicts the winner)"
        color = _OUTCOME_COLORS[candidate.outcome] if candidate is not None else None
        click.echo(click.style(f"  {shown(cells)}", fg=color, dim=candidate is None))


def _effect(verb: Verb, target: str) -> str:
    effects = {
        Verb.HAND_OVER: f"hand over to {target}" if target else "acknowledge",
        Verb.CALL: f"call crew {target}",
        Verb.FORK: f"start group {target}",
        Verb.AWAIT: f"wait, then go on at {target}" if target else "wait for an answer",
        Verb.TELL: "tell others, and go on",
        Verb.END: "end the run",
    }
    return effects[verb]


def _what(decision: Decision) -> str:
    if decision.verb is None:
        return "ask the agent again (nudge)" if decision.then == "nudge" else "fail the run"
    held = "hold until a person approves: " if decision.held else ""
    return held + _effect(decision.verb, decision.target)


def _why(decision: Decision) -> str:
    if decision.because != "signal":
        return _WITHOUT_SIGNAL[decision.because]
    rivals = [c for c in decision.candidates if c.outcome == "lost"]
    winner = next(c for c in decision.candidates if c.outcome == "won")
    if not rivals:
        return f"{winner.signal} is the only mark that steers"
    rival = rivals[0]
    if rival.priority != winner.priority:
        return f"{winner.signal} has priority {winner.priority}, before {rival.signal} with {rival.priority}"
    if rival.method != winner.method:
        return f"{winner.signal} is {winner.method}, {rival.signal} only {rival.method}"
    return f"{winner.signal} stands before {rival.signal} in the file"


def _tell_log(crew: Crew, decision: Decision) -> None:
    """The lines a run would write for this."""
    registry = registry_of(crew)
    lines = []
    for candidate in decision.candidates:
        definition = registry.get(candidate.signal)
        assert definition is not None, "a crew's registry knows every signal the crew routes"
        lines.append(emitted_line(decision.agent, definition, candidate.method))
    if decision.verb in (Verb.HAND_OVER, Verb.FORK) and decision.signal and not decision.held:
        lines.append(routed_line(decision.agent, decision.target, decision.signal))
    if lines:
        click.echo("log:")
        for line in lines:
            click.echo(click.style(f"  {shown(line)}", dim=True))
