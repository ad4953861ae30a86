"""The folders of the original program load, and run the same way before and after `interlock migrate`."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

HERE = Path(__file__).parent
CONFIG = str(HERE / "interlock.toml")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the check finds nothing that hangs on this machine."""
    monkeypatch.setenv("OPENAI_API_KEY", "for the check alone")


def asked(*args: str) -> Result:
    return CliRunner().invoke(interlock, [*args, "--config", CONFIG])


Found = list[tuple[str, str, str]]

# Keys of the old program that mean nothing here.
OF_SETTINGS = {
    f"crew.yaml settings.{name}"
    for name in (
        "client_cache_ttl_minutes",
        "graceful_shutdown_check_millis",
        "max_agent_id_length",
        "max_daily_memory_gb",
        "max_memory_mb",
        "max_stored_requests",
        "memory_alert_percent",
        "min_agent_id_length",
        "min_tool_timeout_millis",
        "request_store_cleanup_minutes",
        "stream_buffer_size",
        "stream_chunk_timeout_millis",
    )
}


def of_agents(*agents: str, keys: tuple[str, ...] = ("logging", "memory_limits")) -> set[str]:
    return {f"{agent}.yaml {key}" for agent in agents for key in keys}


class Legacy(NamedTuple):
    """A folder, what is said of it beside its legacy keys, those, a script, and how the run ends."""

    folder: str
    problems: Found
    keys: set[str]
    replies: dict[str, list[Any]]
    ending: tuple[str, str, str]


OLDEST = ("cost_alert_threshold", "enforce_cost_limits", "enforce_quotas", "max_cost_per_day", "max_tokens_per_call")
QUIZ: dict[str, list[Any]] = {
    "teacher": [
        {"tool_calls": [{"name": "GetQuizStatus", "arguments": {}}]},
        "What is 2+2? [QUESTION] I wait.",
        {
            "tool_calls": [
                {
                    "name": "RecordAnswer",
                    "arguments": {"question": "2+2", "student_answer": "4", "is_correct": True},
                }
            ]
        },
        "Right, that was your [ANSWER]. The exam is over. [END_EXAM]",
    ],
    "student": ["It is 4. [ANSWER]"],
    "reporter": [
        "The [QUESTION] is noted. [OK]",
        {"tool_calls": [{"name": "WriteExamReport", "arguments": {"text": "1 of 1"}}]},
        "Filed. [end_exam]",
    ],
}

FOLDERS = [
    Legacy(
        "hello",
        [],
        OF_SETTINGS | {"crew.yaml tasks"} | of_agents("hello-agent", keys=(*OLDEST, "max_tokens_per_day")),
        {"hello-agent": ["Hello!"]},
        ("completed", "terminal_agent", "hello-agent"),
    ),
    Legacy(
        "quiz",
        [
            ("warning", "wrong-target", "routing.signals.teacher[1].signal"),
            ("note", "wrong-target", "routing.signals.teacher[2].signal"),
            ("warning", "wrong-target", "routing.signals.reporter[0].signal"),
            ("warning", "wrong-target", "routing.signals.reporter[1].signal"),
            ("note", "wrong-target", "routing.signals.reporter[2].signal"),
        ],
        OF_SETTINGS
        | of_agents("teacher", "student", "reporter")
        | {
            f"crew.yaml routing.agent_behaviors.{agent}.parallel_execution"
            for agent in ("teacher", "student", "reporter")
        },
        QUIZ,
        ("completed", "signal:[END_EXAM]", "reporter"),
    ),
    Legacy(
        "it-support",
        [
            ("note", "unregistered-signal", "routing.signals.orchestrator[0].signal"),
            ("note", "unregistered-signal", "routing.signals.orchestrator[1].signal"),
            ("note", "unregistered-signal", "routing.signals.orchestrator[2].signal"),
            ("note", "unregistered-signal", "routing.signals.clarifier[0].signal"),
            ("note", "unregistered-signal", "routing.signals.executor[0].signal"),
        ],
        OF_SETTINGS | of_agents("orchestrator", "clarifier", "executor"),
        {
            "orchestrator": ["Kiểm tra cả hai. [CHECK_BOTH]"],
            "clarifier": ["Máy nào cũng vậy. [KẾT THÚC]"],
            "executor": [
                {"tool_calls": [{"name": "GetDiskSpace", "arguments": {"path": "/"}}]},
                "Đĩa đã đầy.",
                {"tool_calls": [{"name": "PingHost", "arguments": {"host": "router"}}]},
                "Đĩa đầy, mạng tốt. [COMPLETE]",
            ],
        },
        ("completed", "signal:[COMPLETE]", "executor"),
    ),
    Legacy(
        "it-support",
        [],
        set(),
        {
            "orchestrator": ["Chưa rõ."],
            "clarifier": ["Đủ rồi. [ kết thúc ] Cảm ơn."],
            "executor": ["Không có gì lạ."],
        },
        ("completed", "terminal_agent", "executor"),
    ),
    Legacy(
        "multi-team/master-team",
        [
            ("warning", "unknown-mark-in-prompt", "system_prompt"),
            ("warning", "unknown-mark-in-prompt", "system_prompt"),
        ],
        of_agents("coordinator"),
        {"coordinator": ["Alpha is to look it up. [DELEGATE_ALPHA]"]},
        ("completed", "terminal_agent", "coordinator"),
    ),
    Legacy(
        "multi-team/team-alpha",
        [
            ("note", "unregistered-signal", "routing.signals.researcher[0].signal"),
            ("note", "unregistered-signal", "routing.signals.analyst[0].signal"),
        ],
        of_agents("researcher", "analyst"),
        {"researcher": ["Tea is a leaf. [RESEARCH_DONE]"], "analyst": ["So it is. [alpha complete]"]},
        ("completed", "signal:[ALPHA_COMPLETE]", "analyst"),
    ),
    Legacy(
        "multi-team/team-beta",
        [("note", "unregistered-signal", "routing.signals.writer[0].signal"), ("warning", "no-way-on", "")],
        set(),
        {"writer": ["A draft, without a mark."], "reviewer": ["Good."]},
        ("completed", "terminal_agent", "reviewer"),
    ),
]
ONCE = [legacy for legacy in FOLDERS if legacy.problems or legacy.keys]


@pytest.mark.parametrize("legacy", ONCE, ids=lambda legacy: legacy.folder)
def test_the_folder_loads_and_everything_that_is_said_of_it_is_meant(legacy: Legacy) -> None:
    said = asked("check", str(HERE / legacy.folder), "--json")
    assert said.exit_code == 0
    problems = json.loads(said.stdout)["problems"]
    keys = [p for p in problems if p["code"] == "legacy-key"]
    assert {f"{Path(p['file']).name} {p['path']}" for p in keys} == legacy.keys
    assert {p["severity"] for p in keys} <= {"note"}
    others = [(p["severity"], p["code"], p["path"]) for p in problems if p["code"] != "legacy-key"]
    assert sorted(others) == sorted(legacy.problems)


def run(folder: Path, crew: Path, replies: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """What is journalled of a run, but for what differs from run to run, and by the crew that it names."""
    script = folder / "script.yaml"
    script.write_text(json.dumps({"replies": replies}), "utf-8")
    said = asked("run", str(crew), "go", "--script", str(script), "--json", "--data", str(folder / "data"))
    assert said.exit_code == 0, said.output
    name = json.loads(said.stdout.splitlines()[0])["run"]
    events = [json.loads(line) for line in said.stdout.replace(name, "RUN").splitlines()]
    facts = [event for event in events if event["type"] != "model.delta"]
    return [{key: value for key, value in event.items() if key not in ("at", "crew_sha")} for event in facts]


@pytest.mark.parametrize("legacy", FOLDERS, ids=lambda legacy: f"{legacy.folder} {legacy.ending[1]}")
def test_a_run_goes_the_same_way_before_and_after_migration(tmp_path: Path, legacy: Legacy) -> None:
    crew = Path(shutil.copytree(HERE / legacy.folder, tmp_path / "crew"))
    before = run(tmp_path, crew, legacy.replies)
    assert (before[-1]["type"], before[-1]["status"], before[-1]["reason"], before[-1]["agent"]) == (
        "run.finished",
        *legacy.ending,
    )
    written = asked("migrate", str(crew), "--write")
    assert written.exit_code == 0, written.output
    checked = json.loads(asked("check", str(crew), "--json").stdout)
    assert checked["ok"]
    assert "no-way-on" not in {p["code"] for p in checked["problems"]}
    assert 'version: "2.0"' in (crew / "crew.yaml").read_text("utf-8")
    after = run(tmp_path, crew, legacy.replies)
    assert after == before
