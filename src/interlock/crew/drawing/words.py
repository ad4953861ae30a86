"""What is written in boxes and at arrows, cut to a length that can be drawn."""

from interlock.crew.diagram import Node, columns, marks_of, plain, remark_on
from interlock.crew.drawing.measures import LABEL_COLUMNS_MAX, NAME_COLUMN, SUBTITLE_COLUMN


def text_width(node: Node) -> float:
    name, subtitle = columns(clipped(node.label)), columns(subtitle_of(node))
    return max(name * NAME_COLUMN, subtitle * SUBTITLE_COLUMN)


def subtitle_of(node: Node) -> str:
    name = plain(node.name)
    own = [clipped(name)] if node.kind == "agent" and name != plain(node.label) else []
    if node.kind == "group":
        own += [clipped(note) for note in node.notes[:1]]
    if node.kind == "sub_crew":
        own += [clipped(remark) for remark in filter(None, [remark_on(node)])]
    return " · ".join([*own, *marks_of(node)])


def clipped(text: str) -> str:
    kept, text = "", plain(text)
    for char in text:
        if columns(kept + char) > LABEL_COLUMNS_MAX:
            return kept + "…"
        kept += char
    return kept
