"""The part of the instructions about an agent's output, and what it is told about a bad one."""

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.crew.outputs.asked import AskedOutput

_WORDS = {
    "en": {
        "title": "## Output",
        "always": "Your reply is one JSON value of this schema and nothing else; the mark of a signal, if you use one, "
        "stands after it on a line of its own. Marks inside the value do nothing.",
        "at_end": "A reply that ends the run is one JSON value of this schema and nothing else; the mark of a signal "
        "stands after it on a line of its own. Marks inside the value do nothing. Other replies are plain text.",
        "tool": "Your reply is one JSON value of this schema and nothing else.",
        "nudge": "Your output was not taken: {fault}. Reply again with one JSON value of the schema and nothing else "
        "but the mark after it.",
    },
    "vi": {
        "title": "## Kết quả",
        "always": "Câu trả lời là đúng một giá trị JSON theo lược đồ sau, không có gì khác; dấu tín hiệu, nếu dùng, "
        "đứng sau nó trên một dòng riêng. Dấu bên trong giá trị không có tác dụng.",
        "at_end": "Câu trả lời kết thúc phiên chạy là đúng một giá trị JSON theo lược đồ sau, không có gì khác; dấu "
        "tín hiệu đứng sau nó trên một dòng riêng. Dấu bên trong giá trị không có tác dụng. Các câu khác "
        "là văn bản.",
        "tool": "Câu trả lời là đúng một giá trị JSON theo lược đồ sau, không có gì khác.",
        "nudge": "Kết quả không được nhận: {fault}. Hãy trả lời lại bằng đúng một giá trị JSON theo lược đồ, không có "
        "gì khác ngoài dấu đứng sau nó.",
    },
}


def output_contract(crew: CrewDefinition, asked: AskedOutput | None) -> str:
    """What the agent is asked for, with the schema; empty if it is asked for nothing."""
    if asked is None:
        return ""
    words, kind = _WORDS[crew.settings.language], "always" if asked.always else "at_end"
    if crew.settings.signal_mode == "tool" and asked.always:
        kind = "tool"
    schema = msgspec.json.encode(asked.schema, order="deterministic").decode()
    return f"{words['title']}\n{words[kind]}\n{schema}"


def output_nudge(crew: CrewDefinition, fault: str) -> str:
    return _WORDS[crew.settings.language]["nudge"].format(fault=fault)
