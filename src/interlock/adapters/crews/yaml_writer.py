"""Writes a document as YAML that the reader of crew files reads back as it was."""

from typing import Any

import yaml

from interlock.adapters.crews.yaml_documents import is_text_without_quotes
from interlock.crew.nodes import Mapping, Node, Scalar

LINE_CHARS_MAX = 120
# Line breaks other than the usual one: YAML would fold or change them, unless they are escaped.
_LINE_BREAKS = "\r\x85\u2028\u2029"


class _Dumper(yaml.SafeDumper):
    """Quotes what the reader would take for a number or a word of YAML, and writes several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if any(char in text for char in _LINE_BREAKS):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
    style = "|" if "\n" in text.strip("\n") or text.endswith("\n") else None
    if style is None and not is_text_without_quotes(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def as_yaml(node: Node) -> str:
    return yaml.dump(_plain(node), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=LINE_CHARS_MAX)


def _plain(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {name: _plain(inner) for name, _, inner in node}
    if isinstance(node, Scalar):
        return node.value
    return [_plain(item) for item in node.items]
