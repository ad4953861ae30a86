"""Keys one level too high or too low: reported once, and read where they belong.

Rule: a misplaced key is one problem. Everything else is checked as if the key were in its place.
"""

from interlock.crew.keys import CREW, ROUTING
from interlock.crew.nodes import Mapping, Node, Path, Scalar
from interlock.crew.problem import Problems
from interlock.crew.shapes import Section

Entry = tuple[Scalar, Node]

# The sections that a key may have moved out of or into by mistake.
_SECTIONS = {key.name: key.shape for key in CREW.keys if isinstance(key.shape, Section)}
_CREW_KEYS = {key.name for key in CREW.keys}
_ROUTING_KEYS = {key.name for key in ROUTING.keys}


def move_misplaced_keys(root: Mapping, problems: Problems) -> Mapping:
    """Moves every misplaced key to its section; each is a problem."""
    moved: dict[str, list[Entry]] = {}
    kept: list[Entry] = []
    for key, node in root.entries:
        home = _section_for_key(key.text)
        if key.text not in _CREW_KEYS and home:
            _report("a crew", key, (key.text,), home, problems)
            moved.setdefault(home, []).append((key, node))
        elif key.text in _SECTIONS and isinstance(node, Mapping):
            kept.append((key, _without_strays(key.text, node, moved, problems)))
        else:
            kept.append((key, node))
    return _with_moved(root, kept, moved) if moved else root


def _without_strays(section: str, node: Mapping, moved: dict[str, list[Entry]], problems: Problems) -> Mapping:
    """The section without the keys that belong beside it, or in another one."""
    own = [key.name for key in _SECTIONS[section].keys]
    kept: list[Entry] = []
    for key, inner in node.entries:
        home = _section_for_key(key.text)
        if key.text in _CREW_KEYS and not isinstance(inner, Mapping):
            home = ""  # signals are a list in a crew, and a mapping in its routing
        if key.text not in own and (home or key.text in _CREW_KEYS):
            _report(section, key, (section, key.text), home, problems)
            moved.setdefault(home, []).append((key, inner))
        elif section == "routing" and key.text == "signals" and isinstance(inner, Mapping):
            kept.append((key, _without_routing_keys(inner, moved, problems)))
        else:
            kept.append((key, inner))
    return Mapping(tuple(kept), node.place)


def _without_routing_keys(signals: Mapping, moved: dict[str, list[Entry]], problems: Problems) -> Mapping:
    """`routing.signals` without other keys of `routing`: it has lists by agent, so a mapping there is misplaced."""
    kept: list[Entry] = []
    for key, inner in signals.entries:
        if key.text in _ROUTING_KEYS and isinstance(inner, Mapping):
            _report("routing.signals", key, ("routing", "signals", key.text), "routing", problems)
            moved.setdefault("routing", []).append((key, inner))
        else:
            kept.append((key, inner))
    return Mapping(tuple(kept), signals.place)


def _section_for_key(name: str) -> str:
    """The only section that has this key."""
    homes = [
        section
        for section, shape in _SECTIONS.items()
        if any(key.name == name and not key.legacy for key in shape.keys)
    ]
    return homes[0] if len(homes) == 1 else ""


def _report(where: str, key: Scalar, path: Path, home: str, problems: Problems) -> None:
    place = f"under '{home}'" if home else "at the top level"
    problems.add(
        "unknown-key",
        f"{where} has no key '{key.text}'; it belongs {place}",
        place=key.place,
        path=path,
        fix=f"move it under '{home}:'" if home else f"indent '{key.text}:' by 0, beside 'entry_point:'",
    )


def _with_moved(root: Mapping, kept: list[Entry], moved: dict[str, list[Entry]]) -> Mapping:
    entries = [(key, _merge_entries(node, moved.pop(key.text, []))) for key, node in kept]
    top = moved.pop("", [])
    new = [_new_section(home, found) for home, found in moved.items()]
    return Mapping((*entries, *top, *new), root.place)


def _new_section(home: str, found: list[Entry]) -> Entry:
    place = found[0][0].place
    return Scalar(home, home, place), Mapping(tuple(found), place)


def _merge_entries(node: Node, found: list[Entry]) -> Node:
    """The node with the moved entries after its own, so that its own win."""
    if not found:
        return node
    own = node.entries if isinstance(node, Mapping) else ()
    return Mapping((*own, *found), node.place)
