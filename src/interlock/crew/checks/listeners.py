"""Rules about delegation and subscriptions."""

from interlock.broadcast.pattern import pattern_fault, wildcard_fault
from interlock.crew.checks.subject import CheckSubject
from interlock.crew.definition import CrewDefinition
from interlock.crew.nodes import Mapping, Path


def delegation_is_a_tree(s: CheckSubject) -> None:
    delegation = s.crew.delegation
    if delegation is None:
        return
    if delegation.root and delegation.root not in s.ids:
        s.report_unknown_agent(("delegation", "root"), "root", delegation.root)
    parent_of: dict[str, str] = {}
    for parent, children in delegation.children.items():
        if parent in s.crew.sub_crews:
            _report_crew_as_parent(s, parent)
        elif parent not in s.ids:
            s.report_unknown_agent(("delegation", "children", parent), "parent", parent)
        for n, child in enumerate(children):
            path: Path = ("delegation", "children", parent, n)
            if child not in s.ids and child not in s.crew.sub_crews:
                s.report_unknown_agent(path, "child", child, also=tuple(s.crew.sub_crews))
            elif child == delegation.root:
                _report_no_tree(s, path, f"'{child}' is the root and a child of '{parent}'")
            elif child in parent_of:
                _report_no_tree(s, path, f"'{child}' is a child of '{parent_of[child]}' and of '{parent}'")
            else:
                parent_of[child] = parent
    _check_tree_from_root(s, parent_of)


def _report_crew_as_parent(s: CheckSubject, name: str) -> None:
    s.add_at(
        ("delegation", "children", name),
        "unknown-agent",
        f"parent '{name}' is a sub-crew; only agents can delegate here",
        f"write the delegation of its agents in the crew file of '{name}'",
    )


def reports_that_are_measured_are_checked(s: CheckSubject) -> None:
    delegation = s.crew.delegation
    if (
        delegation is not None
        and delegation.report_check == "none"
        and s.is_written(("delegation",), "min_report_chars")
    ):
        s.add_at(
            ("delegation", "min_report_chars"),
            "bad-value",
            "'min_report_chars' has no effect: with report_check: none every report is accepted",
            "remove it, or set report_check to rules or model",
        )


def _check_tree_from_root(s: CheckSubject, parent_of: dict[str, str]) -> None:
    delegation = s.crew.delegation
    assert delegation is not None, "delegation_is_a_tree asks only where there is one"
    root_is_a_child = any(delegation.root in children for children in delegation.children.values())  # and reported so
    for parent in delegation.children:
        line = [parent]
        while line[-1] in parent_of and parent_of[line[-1]] not in line:
            line.append(parent_of[line[-1]])
        if line[-1] in parent_of:
            cycle = [*line, parent_of[line[-1]]]
            _report_no_tree(s, ("delegation", "children", parent), f"delegation is circular: {' <- '.join(cycle)}")
            return
        if line[-1] != delegation.root and parent in s.ids and delegation.root in s.ids and not root_is_a_child:
            _report_no_tree(
                s,
                ("delegation", "children", parent),
                f"'{parent}' is not below the root '{delegation.root}'",
            )
    known: dict[int, int] = {}
    depth = max((_depth(child, parent_of) + _depth_inside(s.crew, child, known) for child in parent_of), default=0)
    if depth > delegation.max_depth:
        s.add_at(
            ("delegation", "children"),
            "delegation-tree",
            f"delegation is {depth} deep, max_depth is {delegation.max_depth}",
            "raise max_depth, or make the tree flatter",
        )


def _depth(child: str, parent_of: dict[str, str]) -> int:
    depth = 0
    while child in parent_of and depth <= len(parent_of):  # a circle is reported elsewhere
        child, depth = parent_of[child], depth + 1
    return depth


def _depth_inside(crew: CrewDefinition, child: str, known: dict[int, int]) -> int:
    """The depth of delegation in a sub-crew that gets a task. A crew that is used often is read once."""
    inner = crew.sub_crews[child].crew if child in crew.sub_crews else None
    if inner is None or inner.delegation is None:
        return 0
    if id(inner) not in known:
        parent_of = {below: parent for parent, children in inner.delegation.children.items() for below in children}
        known[id(inner)] = max(
            (_depth(each, parent_of) + _depth_inside(inner, each, known) for each in parent_of), default=0
        )
    return known[id(inner)]


def _report_no_tree(s: CheckSubject, path: Path, message: str) -> None:
    s.add_at(path, "delegation-tree", message, "make it a tree: one root, one parent per child")


def subscriptions_can_match(s: CheckSubject) -> None:
    node = s.source.root.get("subscriptions")
    for agent, _, _ in node if isinstance(node, Mapping) else ():
        if agent not in s.ids:
            s.report_unknown_agent(("subscriptions", agent), "subscriber", agent)
    counts: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for subscription in s.crew.subscriptions:
        n = counts.get(subscription.agent, 0)
        counts[subscription.agent] = n + 1
        path: Path = ("subscriptions", subscription.agent, n, "pattern")
        fault = pattern_fault(subscription.pattern)
        if fault:
            s.add_at(
                path,
                "bad-format" if wildcard_fault(subscription.pattern) else "bad-value",
                f"pattern '{subscription.pattern}' {fault}",
                "separate segments by ':', such as build:*:done",
            )
        key = (subscription.agent, subscription.pattern.strip())
        if key in seen:
            s.add_at(path, "bad-value", f"'{key[0]}' subscribes to '{key[1]}' twice", "remove one")
        seen.add(key)
