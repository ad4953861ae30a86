"""The OpenAPI document, and schemathesis against a real server: nothing undocumented, no 5xx."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from interlock.server.http.problems import CODES, PROBLEM_JSON
from interlock.server.shapes.crews import CrewProblems
from interlock.server.shapes.service import ProblemBody
from interlock.server.shapes.signals import ScheduleSignal
from tests.server.http.test_problems import BELOW
from tests.server.office import open_office
from tests.server.process import serving

SCHEMATHESIS = str(Path(sys.executable).parent / "schemathesis")
CONFIG = """\
max-stream-events = 3
request-timeout = 10.0
[checks.positive_data_acceptance]
# 422 also for types and patterns of broadcasts that cannot be printed: no schema can say that.
expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "422", "429", "5xx"]
# 400 for patterns with a wildcard within a segment, and for crews and agents that are not known here.
[[operations]]
include-path-regex = "/v1/engine/signals/(subscriptions|events)"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409", "422", "429", "5xx"]
"""
SCRIPT = "replies: {clerk: ['Who? [WAIT]', 'Fine. [DONE]']}\n"


@pytest.mark.timeout(900)
def test_schemathesis_finds_no_failure_of_ours_and_no_answer_that_is_not_documented(tmp_path: Path) -> None:
    with serving(tmp_path, script=SCRIPT) as server:
        (tmp_path / "schemathesis.toml").write_text(CONFIG, "utf-8")
        command = [SCHEMATHESIS, "--config-file", "schemathesis.toml", "run", f"{server.address}/openapi.json"]
        options = ["--checks", "all", "--max-examples", "8", "--seed", "1", "-H", f"Authorization: Bearer {server.key}"]
        found = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=800)
        assert found.returncode == 0, found.stdout[-10_000:]
        assert "Tested: 45" in found.stdout, found.stdout[-3_000:]
        assert server.stopped() == 0


async def test_every_route_tells_its_refusals_with_an_example_of_each_code(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        document = (await office.get("/openapi.json")).json()
        told: set[str] = set()
        for operations in document["paths"].values():
            for operation in operations.values():
                assert operation["operationId"]
                assert operation["summary"]
                for status, answer in operation["responses"].items():
                    for code, example in answer.get("content", {}).get(PROBLEM_JSON, {}).get("examples", {}).items():
                        told.add(code)
                        assert (str(CODES[code][0]), example["value"]["code"]) == (status, code)
        assert set(CODES) - told == {"not-found", "method-not-allowed", *BELOW}


async def test_every_post_takes_an_idempotency_key_but_for_the_one_that_opens_a_session(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        document = (await office.get("/openapi.json")).json()
        posts = {path: each["post"] for path, each in document["paths"].items() if "post" in each}
        without = [
            path
            for path, operation in posts.items()
            if "Idempotency-Key" not in [parameter["name"] for parameter in operation["parameters"]]
        ]
        assert without == ["/v1/webhooks/{hook}", "/v1/session"]
        assert len(posts) > 5


async def test_the_document_names_every_scope_and_where_no_key_is_needed(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        document = (await office.get("/openapi.json")).json()
        free = [
            f"{method} {path}"
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if "security" not in operation
        ]
        assert sorted(free) == ["get /healthz", "get /readyz", "post /v1/session", "post /v1/webhooks/{hook}"]
        for scope in ("read", "run", "answer", "admin"):
            assert f"Needs the scope `{scope}`" in msgspec.json.encode(document).decode()


async def test_bodies_keep_their_names_in_the_document_whatever_their_classes_are_called(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        document = (await office.get("/openapi.json")).json()
        schemas = document["components"]["schemas"]
        for name in ("Problem", "Problems", "Schedule"):
            assert schemas[name]["title"] == name
        for body in (ProblemBody, CrewProblems, ScheduleSignal):
            assert body.__name__ not in schemas
        scheduled = document["paths"]["/v1/engine/signals/delayed"]["post"]["requestBody"]["content"]
        assert scheduled["application/json"]["schema"] == {"$ref": "#/components/schemas/Schedule"}
