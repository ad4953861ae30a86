"""Secrets of the host in what a tool returns, shows and keeps."""

from interlock import ToolContext
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.adapters.tools.redacting_tools import RedactingToolbox
from interlock.testing import Answer, MemoryStore, ScriptedModel, ToolCall
from tests.adapters.tools.tool_runs import crew_with, runner_with

KEY = "sk-abcdefghijklmnop"


async def test_progress_results_and_keys_of_the_memory_hold_no_secret() -> None:
    def leak(context: ToolContext) -> str:
        context.progress(f"with {KEY}")
        context.memory[f"the {KEY}"] = 1
        return KEY

    model, store = ScriptedModel({"clerk": [Answer(tool_calls=(ToolCall("leak"),)), "done [END]"]}), MemoryStore()
    toolbox = RedactingToolbox(PythonToolbox([leak]), KnownSecrets([KEY]))
    async with runner_with(toolbox, model, store) as runner:
        await runner.start(crew_with("leak"), "sha", "go", run_id="r")
        events = [event async for event in runner.follow("r")]
    (shown,) = [event["text"] for event in events if event["type"] == "tool.progress"]
    assert shown == "with [redacted]"
    assert KEY not in str(events)
    assert "the [redacted]" in str(events)
