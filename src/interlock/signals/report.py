"""The registry as text, and the lines of the signal log in the exact words of the protocol."""

from interlock.signals.definition import SignalBehavior, SignalDefinition
from interlock.signals.registry import SignalRegistry


def registry_report(registry: SignalRegistry) -> str:
    """All registered signals, grouped by behaviour, names sorted."""
    lines = ["=== SIGNAL REGISTRY REPORT ===", f"Total Signals Registered: {len(registry.all())}"]
    for behavior in SignalBehavior:
        definitions = sorted(registry.by_behavior(behavior), key=lambda d: d.name)
        lines += ["", f"--- {behavior} Signals ({len(definitions)}) ---"]
        lines += [line for definition in definitions for line in _entry(definition)]
    return "\n".join(lines)


def _entry(definition: SignalDefinition) -> list[str]:
    head = f"{definition.name} priority {definition.rank}"
    lines = [f"{head} - {definition.description}" if definition.description else head]
    if definition.deprecated_msg:
        lines.append(f"    deprecated: {definition.deprecated_msg}")
    if not definition.allow_all_agents and definition.allowed_agents:
        lines.append(f"    emitted by: {', '.join(definition.allowed_agents)}")
    if definition.default_target:
        lines.append(f"    default target: {definition.default_target}")
    if definition.valid_targets:
        lines.append(f"    valid targets: {', '.join(definition.valid_targets)}")
    if definition.required:
        lines.append("    required: some agent must route it")
    if definition.max_occurs is not None:
        lines.append(f"    at most {definition.max_occurs} in one run")
    if definition.example:
        lines.append(f"    example: {definition.example}")
    return lines


def emission_line(agent: str, definition: SignalDefinition, method: str) -> str:
    line = f"[SIGNAL-EVENT] Agent '{agent}' emitted '{definition.name}' ({method})"
    return f"{line} - {definition.description}" if definition.description else line


def routing_line(agent: str, target: str, signal: str) -> str:
    return f"[SIGNAL-SUCCESS] Agent '{agent}' routed to '{target}' via signal {signal}"


def unknown_target_line(agent: str, signal: str, target: str) -> str:
    return f"[SIGNAL-ERROR] Agent '{agent}' emitted signal {signal} targeting unknown agent '{target}'"
