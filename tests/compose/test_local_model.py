"""Whole runs on a real small model on this machine: with no key, and no network once it is here."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import jsonschema
import msgspec

from interlock import Interlock
from interlock.adapters.models.local import local_files
from interlock.compose.crews import load_definition
from interlock.engine.events import Decided, ModelFailed, ModelReplied, Nudged, Warned
from interlock.errors import ModelRefused
from tests.tools import needs

PATIENCE_SECONDS = 100
RUNS = 3


def missing() -> str:
    """What is not here, and the command that brings it."""
    try:
        local_files.require_ready("smollm2", os.environ)
    except ModelRefused as refusal:
        return str(refusal)
    return ""


pytestmark = needs(not missing(), missing())


async def test_every_reply_of_a_constrained_crew_steers_and_every_run_ends_as_the_crew_says(tmp_path: Path) -> None:
    crew = load_definition("examples/quiz-local")

    ends = []
    async with Interlock(tmp_path) as box, asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(RUNS):
            run = await box.start(crew, "Begin the exam")
            result = await run.result()
            records = await box.journal.records(run.id)
            ends.append((result.status, result.reason, [event for record in records for event in record.events]))
    assert len(ends) == RUNS
    marks = {agent: tuple(route.signal for route in routes) for agent, routes in crew.routes.items()}
    for status, reason, events in ends:
        assert (status, reason) in (("completed", "signal:[PASSED]"), ("completed", "signal:[FAILED]"))
        assert not [event for event in events if isinstance(event, Nudged | Warned | ModelFailed)]
        replies = [event for event in events if isinstance(event, ModelReplied)]
        decided = [event for event in events if isinstance(event, Decided)]
        assert len(replies) == len(crew.agents) and not any(reply.unconstrained for reply in replies)
        assert all(reply.text.splitlines()[-1] in {mark for own in marks.values() for mark in own} for reply in replies)
        assert decided and all(event.signal in marks[event.agent] for event in decided)


SORTER = """\
version: "2.0"
entry_point: sorter
output:
  type: object
  properties:
    kind: {enum: [refund, question, praise]}
    urgent: {type: boolean}
    stars: {type: integer, minimum: 1, maximum: 5}
    summary: {type: string, maxLength: 60}
    tags: {type: array, items: {type: string, maxLength: 12}, maxItems: 2}
    order: {type: string, maxLength: 12}
  required: [kind, urgent, stars, summary, tags]
  additionalProperties: false
agents: [{id: sorter, model: "local:smollm2", system_prompt: "Sort the letter of a customer."}]
routing: {signals: {sorter: [{signal: "[DONE]"}, {signal: "[ESCALATE]", type: terminate}]}}
"""
LETTERS = 20


async def test_every_value_of_a_constrained_model_is_valid(tmp_path: Path) -> None:
    """A model that cannot follow instructions gives 20 of 20 valid values, each at the first try."""
    (tmp_path / "crew.yaml").write_text(SORTER, encoding="utf-8")
    crew = load_definition(tmp_path)
    assert crew.output is not msgspec.UNSET
    oracle = jsonschema.Draft202012Validator(crew.output)

    valid = 0
    async with Interlock(tmp_path / "data") as box, asyncio.timeout(PATIENCE_SECONDS):
        for number in range(LETTERS):
            run = await box.start(crew, f"Letter {number}: my lamp never came, and I want my money back")
            result = await run.result()
            assert result.status == "completed" and result.reason in ("signal:[DONE]", "signal:[ESCALATE]")
            records = await box.journal.records(run.id)
            assert not [event for record in records for event in record.events if isinstance(event, Nudged)]
            valid += oracle.is_valid(result.value)
    assert valid == LETTERS


OWNER = """\
import asyncio, os, sys
from interlock.adapters.models.local.local_files import require_ready
from interlock.adapters.models.local.local_model import LocalModel

async def own():
    client = await LocalModel("smollm2", require_ready("smollm2", os.environ))._ensure_client()
    print(client.endpoint.url, flush=True)
    await asyncio.sleep(60)

asyncio.run(own())
"""


def answers(url: str) -> bool:
    try:
        with urlopen(url.replace("/v1", "/health"), timeout=10) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def test_the_server_dies_with_an_owner_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        assert answers(url)
        owner.kill()
    assert any(not answers(url) for _ in range(1000))
