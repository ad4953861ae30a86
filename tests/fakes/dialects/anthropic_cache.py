"""The prompt cache of Anthropic, by its rules.

Rule 1: a prompt is read as tools, system, messages. A mark ends a prefix; what is equal up to it is one entry.
Rule 2: only marks write entries. From each mark the cache looks back over at most 20 blocks for an entry of an earlier
        request; each tool call, and each result, is a block.
Rule 3: another thinking setting or tool choice makes other entries of messages, not of tools and system.
Rule 4: a prefix below the smallest size is neither written nor read.
Rule 5: an entry lives for five minutes, or an hour if its mark says so. Each read gives it that time again.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.fakes.dialects.server import Tokens

LOOK_BACK_MAX = 20
TOKENS_MIN = 1_024
CHARS_PER_TOKEN = 4
LIFE_MS = {"5m": 300_000, "1h": 3_600_000}


class PromptCache:
    """What earlier requests have written. Without a clock nothing expires: tests take no five minutes."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._entries: dict[str, tuple[int, int]] = {}  # until when it lives, and for how long at a time

    def count(self, raw: dict[str, Any], output: int) -> Tokens:
        """The tokens of a prompt by bucket; it is written to the cache up to its last mark."""
        blocks = list(_blocks(raw))
        sizes, digests, marks = _prefixes(blocks)
        usable = {n: life_ms for n, life_ms in marks.items() if sizes[n] >= TOKENS_MIN}
        read = max((sizes[found] for n in usable if (found := self._entry_before(n, digests)) >= 0), default=0)
        for n, life_ms in usable.items():
            self._entries.setdefault(digests[n], (self._now_ms() + life_ms, life_ms))
        written = max((sizes[n] for n in usable), default=0) - read
        return Tokens(input=sizes[-1], cache_read=read, cache_write=max(written, 0), output=output)

    def _entry_before(self, mark: int, digests: list[str]) -> int:
        """The nearest entry that the look back from a mark finds, which lives on; -1 if there is none."""
        now = self._now_ms()
        for n in range(mark, max(mark - LOOK_BACK_MAX, 0) - 1, -1):
            until, life_ms = self._entries.get(digests[n], (now - 1, 0))
            if until >= now:
                self._entries[digests[n]] = (now + life_ms, life_ms)
                return n
            self._entries.pop(digests[n], None)
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


def _prefixes(blocks: list[tuple[str, dict[str, Any]]]) -> tuple[list[int], list[str], dict[int, int]]:
    """Of the prefix that ends with each block: its tokens and its digest; beside them, the marks with their time."""
    sizes, digests, marks = list[int](), list[str](), dict[int, int]()
    size, digest = 0, hashlib.sha256()
    for n, (setting, block) in enumerate(blocks):
        text = json.dumps({name: value for name, value in block.items() if name != "cache_control"}, sort_keys=True)
        size += len(text) // CHARS_PER_TOKEN + 1
        digest.update(f"{setting} {text}\n".encode())
        sizes.append(size)
        digests.append(digest.hexdigest())
        if mark := block.get("cache_control"):
            marks[n] = LIFE_MS[mark.get("ttl", "5m")]
    return sizes, digests, marks
