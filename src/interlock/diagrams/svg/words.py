"""The texts in boxes and at arrows, cut to a length that fits."""

from interlock.diagrams.model import DiagramNode, column_width, marks_of, plain_line, remark_on
from interlock.diagrams.svg.measures import LABEL_COLUMNS_MAX, NAME_COLUMN, SUBTITLE_COLUMN


def text_width(node: DiagramNode) -> float:
    name, subtitle = column_width(clip_label(node.label)), column_width(subtitle_of(node))
    return max(name * NAME_COLUMN, subtitle * SUBTITLE_COLUMN)


def subtitle_of(node: DiagramNode) -> str:
    name = plain_line(node.name)
    own = [clip_label(name)] if node.kind == "agent" and name != plain_line(node.label) else []
    if node.kind == "group":
        own += [clip_label(note) for note in node.notes[:1]]
    if node.kind == "sub_crew":
        own += [clip_label(remark) for remark in filter(None, [remark_on(node)])]
    return " · ".join([*own, *marks_of(node)])


def clip_label(text: str) -> str:
    kept, text = "", plain_line(text)
    for char in text:
        if column_width(kept + char) > LABEL_COLUMNS_MAX:
            return kept + "…"
        kept += char
    return kept
