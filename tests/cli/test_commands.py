"""The commands as a person or a script uses them: output, exit codes, what goes to which stream."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.commands.init import TEMPLATES
from interlock.cli.main import interlock

HELLO, BROKEN = "src/interlock/templates/hello", "src/interlock/templates/broken"


def run(*words: str, given: str | None = None) -> Result:
    result = CliRunner().invoke(interlock, list(words), input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_check_of_a_sound_crew_exits_0() -> None:
    result = run("check", HELLO)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:2] == ["    no model is set for 'writer', 'editor': a run would be refused"]
    assert result.stdout.endswith("\nhello is sound: 2 agents, 3 routes; 1 warning\n")


def test_check_of_a_broken_crew_exits_1_and_shows_place_path_and_fix() -> None:
    result = run("check", BROKEN)
    assert result.exit_code == 1
    assert f"{BROKEN}/crew.yaml:16:40: error: unknown-target" in result.stdout
    assert "    at  routing.signals.teacher[0].target\n    fix did you mean 'student'?" in result.stdout
    assert result.stdout.endswith(f"{BROKEN} has problems: 5 errors, 2 warnings\n")


def test_check_warns_of_a_key_that_is_not_set_and_still_exits_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crew is checked where it is built; its keys are where it runs."""
    crew = "examples/broken/missing-api-key.yaml"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = run("check", crew)
    assert result.exit_code == 0
    assert f"{crew}:4:" in result.stdout and ": warning: missing-api-key" in result.stdout
    assert "fix set the environment variable OPENAI_API_KEY where the crew runs" in result.stdout
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-4711-zzzz")
    assert run("check", crew).stdout == "missing-api-key is sound: 1 agent\n"


def test_check_writes_the_protocols_line_for_an_unknown_target_to_the_log() -> None:
    line = "[SIGNAL-ERROR] Agent 'teacher' emitted signal [QUESTION] targeting unknown agent 'studnet'\n"
    assert run("check", BROKEN).stderr == line
    assert run("check", BROKEN, "--json").stderr == line


def test_check_as_json_is_one_object_with_the_fields_of_the_contract() -> None:
    result = run("check", BROKEN, "--json")
    body = json.loads(result.stdout)
    assert result.exit_code == 1
    assert body["ok"] is False
    for problem in body["problems"]:
        assert set(problem) == {"code", "severity", "message", "file", "line", "column", "path", "fix"}
    assert json.loads(run("check", HELLO, "--json").stdout)["ok"] is True


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_what_cannot_be_read_exits_2(tmp_path: Path, flags: list[str]) -> None:
    (tmp_path / "crew.yaml").write_text("agents: [\n\tid: x\n")
    assert run("check", str(tmp_path), *flags).exit_code == 2
    assert run("check", str(tmp_path / "nothing"), *flags).exit_code == 2


def test_a_crew_cannot_draw_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: "x\\e[2J\\n[SIGNAL-EVENT] forged"\nentry_point: a\nagents: [{id: a}]\n'
    )
    said = run("check", str(tmp_path)).stdout.splitlines()[-1]
    assert said == "x\\x1b[2J\\n[SIGNAL-EVENT] forged is sound: 1 agent; 1 warning"


def test_explain_tells_the_marks_the_winner_the_losers_and_the_log() -> None:
    result = run("explain", HELLO, "--agent", "editor", "--reply", "So: [REWRITE] [done] [STOP]")
    assert result.exit_code == 0
    assert "[DONE]     1     case_insensitive  100       end the run          won" in result.stdout
    assert "lost (contradicts the winner)" in result.stdout
    assert "[STOP]  line 1  not routed: agent 'editor' has no route for [STOP]" in result.stdout
    assert "decision: end the run, because [DONE] has priority 100, [REWRITE] has 50" in result.stdout
    assert "[SIGNAL-EVENT] Agent 'editor' emitted '[DONE]' (case_insensitive) - Task completion" in result.stdout


def test_explain_shows_the_line_of_a_handoff_word_for_word() -> None:
    result = run("explain", HELLO, "--agent", "writer", "--reply", "[DRAFT]")
    assert "[SIGNAL-SUCCESS] Agent 'writer' routed to 'editor' via signal [DRAFT]" in result.stdout


def test_explain_does_not_read_reasoning() -> None:
    result = run("explain", HELLO, "--agent", "writer", "--reply", "<think>[STOP]</think>[DRAFT]")
    assert "[SIGNAL-SUCCESS] Agent 'writer' routed to 'editor' via signal [DRAFT]" in result.stdout
    assert "STOP" not in result.stdout


def test_explain_reads_standard_input_and_gives_json() -> None:
    result = run("explain", HELLO, "--agent", "editor", "--reply", "-", "--json", given="Fine.\n[DONE]\n")
    body = json.loads(result.stdout)
    assert (body["agent"], body["verb"], body["signal"], body["target"]) == ("editor", "end", "[DONE]", "")
    assert body["candidates"][0]["method"] == "exact"
    assert body["candidates"][0]["line"] == 2


def test_explain_shows_what_an_agent_is_told_of_its_marks() -> None:
    result = run("explain", HELLO, "--agent", "editor", "--prompt")
    assert result.exit_code == 0
    assert (
        "\n## Signals\nEnd your reply with one of these marks on its last line, written exactly so:\n" in result.stdout
    )
    assert "\n- [REWRITE]: hands over to" in result.stdout
    body = json.loads(run("explain", HELLO, "--agent", "editor", "--prompt", "--json").stdout)
    assert (body["agent"], body["prompt"] + "\n", body["as_member"], body["ending"]) == (
        "editor",
        result.stdout,
        {},
        None,
    )


def test_explain_wants_either_a_reply_or_the_prompt() -> None:
    for more in ([], ["--reply", "x", "--prompt"]):
        result = run("explain", HELLO, "--agent", "editor", *more)
        assert (result.exit_code, "either --reply TEXT" in result.stderr) == (2, True)


def test_explain_refuses_an_unsound_crew_and_an_unknown_agent() -> None:
    assert run("explain", BROKEN, "--agent", "teacher", "--reply", "x").exit_code == 1
    unknown = run("explain", HELLO, "--agent", "edtor", "--reply", "x")
    assert unknown.exit_code == 2
    assert unknown.stderr == "interlock: crew 'hello' has no agent 'edtor'; did you mean 'editor'?\n"


def test_graph_draws_crews_inside_crews_as_deep_as_it_is_told() -> None:
    whole, top = run("graph", "examples/multi-team"), run("graph", "examples/multi-team", "--depth", "0")
    assert (whole.exit_code, top.exit_code) == (0, 0)
    assert "│  ┌─ researcher · Researcher ── starts here\n" in whole.stdout
    assert "[RESEARCH] ──▶ team-alpha" in top.stdout
    assert "│  · 2 agents inside\n" in top.stdout
    assert "researcher" not in top.stdout
    assert run("graph", "examples/multi-team", "--depth", "-1").exit_code == 2


def test_signals_report_lists_the_registry() -> None:
    lines = run("signals", "report").stdout.splitlines()
    assert lines[:2] == ["=== SIGNAL REGISTRY REPORT ===", "Total Signals Registered: 11"]
    assert "--- terminate Signals (4) ---" in lines
    own = run("signals", "report", HELLO).stdout
    assert "Total Signals Registered: 13" in own
    assert "[DRAFT] priority 50 - the draft is ready to be read" in own


@pytest.mark.parametrize("form", ["text", "mermaid", "svg"])
def test_graph_draws_in_every_form(form: str) -> None:
    result = run("graph", HELLO, "--format", form)
    assert result.exit_code == 0
    assert "REWRITE" in result.stdout


def test_graph_draws_a_broken_crew_and_says_so() -> None:
    result = run("graph", BROKEN)
    assert result.exit_code == 1
    assert "teacher" in result.stdout
    assert "unknown-target" in result.stderr


def test_schema_prints_both_schemas() -> None:
    crew, agent = json.loads(run("schema").stdout), json.loads(run("schema", "agent").stdout)
    assert crew["$schema"] == agent["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "entry_point" in crew["properties"]
    assert "system_prompt" in agent["properties"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_init_writes_a_crew_that_is_sound_and_lacks_only_a_model(tmp_path: Path, template: str) -> None:
    folder = str(tmp_path / "mine")
    assert run("init", folder, "--template", template).exit_code == 0
    body = json.loads(run("check", folder, "--json").stdout)
    assert (body["ok"], [problem["code"] for problem in body["problems"]]) == (True, ["no-model"])


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text("mine")
    result = run("init", str(tmp_path))
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["crew.yaml"]
    assert (tmp_path / "crew.yaml").read_text() == "mine"


def test_the_hosts_file_is_found_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crew.yaml").write_text('version: "2.0"\nname: c\nentry_point: a\nagents: [{id: a, tools: [search]}]\n')
    (tmp_path / "shelf.py").write_text("raise SystemExit('executed')\ndef search(q: str) -> str: return q\n")
    assert run("check", str(tmp_path)).exit_code == 1
    (tmp_path / "interlock.toml").write_text('[tools]\nmodules = ["shelf"]\n')
    assert run("check", str(tmp_path)).exit_code == 0
    assert run("check", str(tmp_path), "--config", str(tmp_path / "interlock.toml")).exit_code == 0
    monkeypatch.chdir(tmp_path)
    assert run("check", ".").exit_code == 0


def test_the_demo_shows_a_sound_crew_a_broken_crew_and_an_explained_reply() -> None:
    result = run("demo")
    assert result.exit_code == 0
    for expected in (
        "hello is sound",
        "5 errors, 2 warnings",
        "decision: end the run",
        "(exit code 1)",
        "Nobody told the gulls.",
        "completed: signal:[DONE]",
        "editor ended the run on [DONE]",
        "cashier asks: 24 dollars are due, and the fault is ours. Shall I pay?",
        "sub-crew letters finished: completed",
        "Your turn:",
    ):
        assert expected in result.stdout


def test_help_lists_every_command_and_wrong_use_exits_2() -> None:
    listed = run("--help").stdout
    for command in ("check", "demo", "explain", "graph", "init", "schema", "signals"):
        assert f"  {command} " in listed
    assert run("chekc", HELLO).exit_code == 2
    assert run("explain", HELLO).exit_code == 2


def test_the_installed_command_runs() -> None:
    done = subprocess.run([Path(sys.executable).parent / "interlock", "check", HELLO], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


SCRIPT = """\
replies:
  writer: ["Draft one. [DRAFT]", "Draft two. [DRAFT]"]
  editor: ["Not yet. [REWRITE]", {text: "Draft two it is. [DONE]", usage: {input_tokens: 12, output_tokens: 5}}]
"""


def test_run_gives_one_json_object_a_line_and_the_log_on_the_other_stream(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    data = str(tmp_path / "data")
    result = run("run", HELLO, "two sentences", "--script", str(tmp_path / "script.yaml"), "--data", data, "--verbose")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    journalled = [event for event in events if "seq" in event]
    assert result.exit_code == 0
    assert [event["seq"] for event in journalled] == list(range(1, len(journalled) + 1))
    assert {event["type"] for event in events} >= {
        "run.started",
        "turn.started",
        "model.replied",
        "decision",
        "handoff",
    }
    last = journalled[-1]
    assert (last["type"], last["status"], last["reason"]) == ("run.finished", "completed", "signal:[DONE]")
    assert (last["output"], last["text"]) == ("Draft two it is. [DONE]", "Draft two it is.")
    assert last["usage"]["output_tokens"] == 5
    lines = result.stderr.splitlines()
    assert "[ROUTING] writer -> editor (signal: [DRAFT])" in lines
    assert "[SIGNAL-SUCCESS] Agent 'writer' routed to 'editor' via signal [DRAFT]" in lines
    assert lines[-1] == "[TERMINATE] Workflow ended by signal: [DONE]"


def test_a_run_pauses_with_3_is_resumed_and_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: c\nentry_point: a\nagents: [{id: a, model: "scripted:s.yaml"}]\n'
        'routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[END]"}]}}\n'
    )
    (tmp_path / "s.yaml").write_text('replies: {a: ["Which city? [WAIT]", "Rome it is. [END]"]}\n')
    data = str(tmp_path / "data")
    paused = run("run", str(tmp_path), "go", "--data", data, "--verbose")
    assert paused.exit_code == 3
    assert paused.stderr.splitlines()[-1] == "[PAUSE:a] Waiting for user input"
    last = json.loads(paused.stdout.splitlines()[-1])
    assert (last["type"], last["reason"]) == ("run.paused", "signal:[WAIT]")
    done = run("resume", last["run"], "--token", last["token"], "--input", "Rome", "--data", data)
    assert done.exit_code == 0
    again = run("resume", last["run"], "--token", last["token"], "--input", "Paris", "--data", data)
    assert again.exit_code == 1
    assert "answered before" in again.stderr
    assert last["run"] in run("runs", "list", "--data", data).stdout
    assert "Rome it is. [END]" in run("runs", "show", last["run"], "--data", data).stdout
    assert "a ended the run on [END]" in run("runs", "explain", last["run"], "--data", data).stdout
    assert "the same decisions" in run("runs", "replay", last["run"], "--data", data).stdout


def test_an_unknown_run_exits_2(tmp_path: Path) -> None:
    result = run("resume", "nobody", "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert "there is no run 'nobody'" in result.stderr


def test_a_signal_to_stop_parks_the_run_and_it_goes_on_later(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text('replies: {writer: [{text: "x [DRAFT]", delay_seconds: 60}]}\n')
    words = ["run", HELLO, "go", "--script", str(tmp_path / "script.yaml"), "--data", str(tmp_path / "data")]
    child = subprocess.Popen(
        [Path(sys.executable).parent / "interlock", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if json.loads(line)["type"] == "model.called":
            break
    child.terminate()
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 3
    assert "progress is saved" in errors
    (tmp_path / "script.yaml").write_text(SCRIPT)
    parked = run("runs", "list", "--data", str(tmp_path / "data")).stdout.split()[0]
    done = run("resume", parked, "--script", str(tmp_path / "script.yaml"), "--data", str(tmp_path / "data"))
    assert done.exit_code == 0
