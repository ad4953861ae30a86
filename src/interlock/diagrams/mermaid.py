"""A diagram as a Mermaid flowchart."""

from collections.abc import Iterator, Mapping

from interlock.diagrams.model import (
    Diagram,
    DiagramEdge,
    DiagramNode,
    EdgeKind,
    NodeKind,
    label_of,
    plain_line,
    remark_on,
)

_SHAPE: Mapping[NodeKind, tuple[str, str]] = {
    "agent": ("[", "]"),
    "group": ("{{", "}}"),
    "sub_crew": ("[[", "]]"),
    "end": ("([", "])"),
    "unknown": (">", "]"),
}
_DASHED: tuple[EdgeKind, ...] = ("member", "default", "handoff", "broadcast", "external", "return", "error")
_THICK: tuple[EdgeKind, ...] = ("parallel", "sub_crew", "delegate")
_STYLES = (
    "classDef entry stroke-width:3px",
    "classDef waits stroke-dasharray:6 3",
    "classDef terminal stroke-width:2px",
    "classDef unknown stroke:#c00,stroke-dasharray:2 2",
)


def as_mermaid(diagram: Diagram) -> str:
    """A Mermaid flowchart; sub-crews that could be read are subgraphs."""
    lines = ["flowchart TD", *_body(diagram, "  "), *(f"  {style}" for style in _STYLES)]
    return "\n".join(lines) + "\n"


def _body(diagram: Diagram, indent: str) -> Iterator[str]:
    for node in diagram.nodes:
        yield from _node(node, indent)
    for edge in diagram.edges:
        yield f"{indent}{edge.source} {_arrow(edge)} {edge.target}"


def _node(node: DiagramNode, indent: str) -> Iterator[str]:
    label = f'"{_label(", ".join(filter(None, [node.label, remark_on(node)])))}"'
    if node.inside is not None and node.inside.nodes:
        yield f"{indent}subgraph {node.id}[{label}]"
        yield from _body(node.inside, indent + "  ")
        yield f"{indent}end"
        return
    left, right = _SHAPE[node.kind]
    yield f"{indent}{node.id}{left}{label}{right}"
    for mark in _classes(node):
        yield f"{indent}class {node.id} {mark}"


def _classes(node: DiagramNode) -> Iterator[str]:
    flags = {"entry": node.entry, "waits": node.waits, "terminal": node.terminal}
    yield from (name for name, is_set in flags.items() if is_set)
    if node.kind == "unknown":
        yield "unknown"


def _arrow(edge: DiagramEdge) -> str:
    line = "-.->" if edge.kind in _DASHED else "==>" if edge.kind in _THICK else "-->"
    return f'{line}|"{_label(label_of(edge))}"|'


def _label(text: str) -> str:
    return "".join(map(_char, plain_line(text))) or "#32;"


def _char(char: str) -> str:
    # Every other ASCII sign has a meaning in Mermaid, Markdown or HTML.
    return char if not char.isascii() or char.isalnum() or char in " _-," else f"#{ord(char)};"
