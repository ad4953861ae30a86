"""An MCP server of few manners, by hand: it chats on standard output, asks for models, and answers in odd ways."""

import json
import sys
from typing import Any

RESULTS: dict[str, Any] = {
    "big": {"content": [{"type": "text", "text": "x" * 10_000_000}]},
    "half": {"content": [{"type": "text", "text": "half a character: \ud800"}]},
    "garbage": {"content": 7},
    "structured": {"content": [], "structuredContent": {"a": [1, 2]}},
    "image": {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
    "error": {"content": [{"type": "text", "text": "out of paper"}], "isError": True},
    "silent_error": {"content": [], "isError": True},
}
ASK = {"jsonrpc": "2.0", "id": 99, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
INFO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "rude", "version": "1"},
}


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            return {"result": INFO}
        case "tools/list":
            if "--mute" in sys.argv:
                sys.stdin.read()
            names = (*RESULTS, "asks", "fails", "bytes")
            page = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
            return {"result": {**page, "nextCursor": "on"} if "--endless" in sys.argv else page}
        case "tools/call" if message["params"]["name"] == "asks":
            tell(json.dumps(ASK))
            return {
                "result": {"content": [{"type": "text", "text": json.loads(sys.stdin.readline())["error"]["message"]}]}
            }
        case "tools/call" if message["params"]["name"] == "fails":
            return {"error": {"code": -32000, "message": "out of ink"}}
        case "tools/call" if message["params"]["name"] == "bytes":
            sys.stdout.buffer.write(b"\xff\xfe\n")
            return {"result": RESULTS["structured"]}
        case "tools/call":
            return {"result": RESULTS[message["params"]["name"]]}
        case _:
            return {"error": {"code": -32601, "message": "never heard of it"}}


tell("hello, I am chatty")
for line in sys.stdin:
    told = json.loads(line)
    if "id" in told:
        tell(json.dumps({"jsonrpc": "2.0", "id": told["id"], **answer(told)}))
