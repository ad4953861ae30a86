"""The prompt cache of Anthropic, by its rules.

Rule 1: a prompt is read as tools, system, messages. A mark ends a prefix; what is equal up to it is one entry.
Rule 2: only marks write entries. From each mark the cache looks back over at most 20 blocks for an entry of an earlier
        request; a run of tool calls, or of their results, counts as one.
Rule 3: another thinking setting or tool choice makes other entries of messages, not of tools and system.
Rule 4: a prefix below the smallest size is neither written nor read.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.dialects.server import Tokens

LOOK_BACK_MAX = 20
TOKENS_MIN = 1_024
CHARS_PER_TOKEN = 4
_RUNS = ("tool_use", "tool_result")


class PromptCache:
    """What earlier requests have written. Nothing expires: tests take no five minutes."""

    def __init__(self) -> None:
        self._entries: set[str] = set()

    def count(self, raw: dict[str, Any], output: int) -> Tokens:
        """The tokens of a prompt by bucket; it is written to the cache up to its last mark."""
        blocks = list(_blocks(raw))
        sizes, digests, marks, runs = _prefixes(blocks)
        usable = [n for n in marks if sizes[n] >= TOKENS_MIN]
        read = max((sizes[found] for n in usable if (found := self._entry_before(n, digests, runs)) >= 0), default=0)
        self._entries |= {digests[n] for n in usable}
        written = max((sizes[n] for n in usable), default=0) - read
        return Tokens(input=sizes[-1], cache_read=read, cache_write=max(written, 0), output=output)

    def _entry_before(self, mark: int, digests: list[str], runs: list[int]) -> int:
        """The nearest entry that the look back from a mark finds; -1 if there is none."""
        for n in range(mark, -1, -1):
            if runs[mark] - runs[n] > LOOK_BACK_MAX:
                return -1
            if digests[n] in self._entries:
                return n
        return -1


def _blocks(raw: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each block, with what its entry depends on beside the text before it."""
    for tool in raw.get("tools", ()):
        yield raw["model"], tool
    system = raw.get("system", [])
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield "", block
    setting = json.dumps([raw.get("thinking"), raw.get("tool_choice")], sort_keys=True)
    for message in raw["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield f"{setting} {message['role']}", block


def _prefixes(blocks: list[tuple[str, dict[str, Any]]]) -> tuple[list[int], list[str], list[int], list[int]]:
    """Of the prefix that ends with each block: its tokens, its digest, and the runs in it; beside them, the marks."""
    sizes, digests, marks, runs = list[int](), list[str](), list[int](), list[int]()
    size, digest, run, last = 0, hashlib.sha256(), 0, ""
    for n, (setting, block) in enumerate(blocks):
        text = json.dumps({name: value for name, value in block.items() if name != "cache_control"}, sort_keys=True)
        size += len(text) // CHARS_PER_TOKEN + 1
        digest.update(f"{setting} {text}\n".encode())
        kind = block.get("type", "tool")
        run, last = run + (kind != last or kind not in _RUNS), kind
        sizes.append(size)
        digests.append(digest.hexdigest())
        runs.append(run)
        if block.get("cache_control"):
            marks.append(n)
    return sizes, digests, marks, runs
