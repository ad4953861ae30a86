"""The mistakes of a newcomer, through the real command line: each message says what, where and what now.

The messages stand in docs/guide/troubleshooting.md: whoever searches for one finds the page. `…` is what differs.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "troubleshooting.md").read_text("utf-8")
INTERLOCK = [sys.executable, "-c", "from interlock.cli.main import interlock; interlock()"]


@pytest.fixture(autouse=True)
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the crew that `interlock init` makes."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    assert says("init", "hello").exit_code == 0
    return tmp_path


def says(*words: str) -> Result:
    return CliRunner().invoke(interlock, words)


def run(crew: str = "hello", *more: str) -> Result:
    return says("run", crew, "a harbour", "--plain", *more)


def change(old: str, new: str, file: str = "hello/crew.yaml") -> None:
    text = Path(file).read_text("utf-8")
    assert old in text
    Path(file).write_text(text.replace(old, new), "utf-8")


def tools(source: str) -> None:
    Path("interlock.toml").write_text('[tools]\nmodules = ["mistaken_tools"]\n')
    Path("mistaken_tools.py").write_text(source)
    sys.modules.pop("mistaken_tools", None)
    change("  - id: writer\n", "  - id: writer\n    tools: [look]\n")


def paused(more: str = "") -> str:
    """A run that waits for a person."""
    Path("hello/crew.yaml").write_text(WAITING.replace("is_terminal", f"{more}is_terminal"))
    Path("wait.yaml").write_text('replies:\n  a: [{text: "Well? [WAIT]"}, {text: Done.}]\n')
    found = re.search(r"run (\w{20}) paused", run("hello", "--script", "wait.yaml").stdout)
    assert found is not None
    return found[1]


WAITING = """version: "2.0"
entry_point: a
agents: [{id: a, is_terminal: true}]
routing: {signals: {a: [{signal: "[WAIT]"}]}}
"""


# What people write into a crew


def typo_in_a_target() -> Result:
    change("target: editor", "target: editr")
    return run()


def wrong_indentation() -> Result:
    change("  max_handoffs: 6", "  max_handoffs: 6\n   max_rounds: 3")
    return says("check", "hello")


def a_tab() -> Result:
    change("  max_handoffs", "\tmax_handoffs")
    return says("check", "hello")


def a_colon_without_quotes() -> Result:
    change("system_prompt: |\n      Write", "system_prompt: Task: Write")
    change("\n      End with [DRAFT] on a line of its own.", "")
    return says("check", "hello")


def a_missing_key() -> Result:
    change("entry_point: writer\n", "")
    return says("check", "hello")


def a_misspelled_key() -> Result:
    change("system_prompt: |\n      Write", "sytem_prompt: |\n      Write")
    return says("check", "hello")


def a_key_in_the_wrong_place() -> Result:
    change("settings:\n  max_handoffs: 6", "max_handoffs: 6")
    return says("check", "hello")


def a_signal_nobody_declared() -> Result:
    change('"[DONE]"', '"[FINISHED]"')
    return says("check", "hello")


def a_dead_end() -> Result:
    change('      - {signal: "[REWRITE]"', '#     - {signal: "[REWRITE]"')
    change('      - {signal: "[DONE]"', '#     - {signal: "[DONE]"')
    return says("check", "hello")


def a_key_written_twice() -> Result:
    change("name: hello\n", "name: hello\nname: goodbye\n")
    return says("check", "hello")


def a_model_without_provider() -> Result:
    change("settings:\n", "settings:\n  model: gpt-4o-mini\n")
    return says("check", "hello")


def an_unknown_provider() -> Result:
    change("settings:\n", "settings:\n  model: acme:large\n")
    return says("check", "hello")


# Models and keys


def no_model() -> Result:
    return run()


def no_key() -> Result:
    return run("hello", "--model", "openai:gpt-4o-mini")


def a_refused_key() -> Result:
    """The provider answers 401, as it does to a wrong key."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        Path("interlock.toml").write_text(f'[providers.acme]\nurl = "{url}"\nkey_env = "ACME_API_KEY"\n')
        command = [*INTERLOCK, "run", "hello", "x", "--plain", "--model", "acme:large"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"ACME_API_KEY": "x" * 20},
        )
        peer, _ = server.accept()
        with peer:
            peer.recv(65_536)
            peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        out, err = process.communicate(timeout=60)
    return _result(process.returncode, out, err)


def a_model_that_is_not_named_with_its_provider() -> Result:
    return run("hello", "--model", "gpt-4o")


def a_typo_in_a_provider() -> Result:
    return run("hello", "--model", "opnai:gpt-4o")


def script_and_model() -> Result:
    return run("hello", "--script", "hello/script.yaml", "--model", "openai:gpt-4o")


def a_script_that_is_not_there() -> Result:
    return run("hello", "--script", "scirpt.yaml")


def a_crew_as_the_script() -> Result:
    return run("hello", "--script", "hello/crew.yaml")


def a_script_that_is_too_short() -> Result:
    Path("short.yaml").write_text('replies:\n  writer: [{text: "A harbour. [DRAFT]"}]\n')
    return run("hello", "--script", "short.yaml")


# Commands and folders


def a_misspelled_command() -> Result:
    return says("chekc", "hello")


def a_misspelled_option() -> Result:
    return run("hello", "--sript", "x.yaml")


def no_input() -> Result:
    return says("run", "hello", "--script", "hello/script.yaml")


def an_input_without_quotes() -> Result:
    return says("run", "hello", "a", "harbour", "at", "dawn")


def a_blank_input() -> Result:
    return says("run", "hello", "", "--script", "hello/script.yaml")


def the_wrong_folder() -> Result:
    return says("check", "helo")


def a_folder_without_a_crew() -> Result:
    return says("check", ".")


def init_where_a_crew_is() -> Result:
    return says("init", "hello")


def a_config_that_is_not_there() -> Result:
    return says("check", "hello", "--config", "interlok.toml")


def a_host_file_that_is_not_toml() -> Result:
    Path("interlock.toml").write_text("[tools\n")
    return says("check", "hello")


def a_section_that_is_misspelled() -> Result:
    Path("interlock.toml").write_text("[tool]\nmodules = []\n")
    return says("check", "hello")


# Tools


def a_tool_nobody_has() -> Result:
    change("  - id: writer\n", "  - id: writer\n    tools: [look]\n")
    return says("check", "hello")


def a_module_that_is_not_there() -> Result:
    Path("interlock.toml").write_text('[tools]\nmodules = ["mistaken_tool"]\n')
    return says("check", "hello")


def a_tool_that_cannot_be_called() -> Result:
    tools("def look(*args): ...\n")
    return says("check", "hello")


def a_module_that_fails() -> Result:
    tools("import nothing_of_this_name\n\n\ndef look(text: str) -> str: ...\n")
    return run("hello", "--script", "hello/script.yaml")


def a_tool_that_raises() -> Result:
    tools('def look(text: str) -> str:\n    raise ValueError("no such lamp")\n')
    Path("tool.yaml").write_text(
        "replies:\n  writer: [{tool_calls: [{name: look, arguments: {text: x}}]}, {text: '[DRAFT]'}]\n"
        "  editor: [{text: '[DONE]'}]\n"
    )
    return run("hello", "--script", "tool.yaml")


# Runs


def a_run_that_is_not_there() -> Result:
    return says("runs", "show", "01a1ec60cca3")


def an_id_that_is_too_short() -> Result:
    return says("runs", "show", "a1e")


def resumed_without_the_script() -> Result:
    return says("resume", paused(), "--input", "yes")


def resumed_without_the_host_file() -> Result:
    tools("def look(text: str) -> str: ...\n")
    waiting = paused("tools: [look], ")
    Path("interlock.toml").rename("hello/interlock.toml")
    return says("resume", waiting, "--input", "yes", "--script", "wait.yaml")


def a_run_that_is_over() -> Result:
    started = run("hello", "--script", "hello/script.yaml").stdout
    found = re.search(r"run (\w{20}) completed", started)
    assert found is not None
    return says("resume", found[1], "--input", "yes")


def resumed_twice() -> Result:
    waiting = paused()
    token = re.search(rf"({waiting}:\S+)", says("runs", "questions").stdout)
    assert token is not None
    assert says("resume", waiting, "--token", token[1], "--input", "yes", "--script", "wait.yaml").exit_code == 0
    return says("resume", waiting, "--token", token[1], "--input", "no", "--script", "wait.yaml")


def the_data_folder_deleted() -> Result:
    waiting = paused()
    shutil.rmtree(".interlock")
    return says("resume", waiting, "--input", "yes", "--script", "wait.yaml")


def _result(code: int, out: str, err: str) -> Result:
    return Result(CliRunner(), out.encode(), err.encode(), (out + err).encode(), None, code, None)


def two_terminals() -> Result:
    """The same run is answered while another process works on it."""
    waiting = paused()
    Path("slow.yaml").write_text('replies:\n  a: [{text: "Well? [WAIT]"}, {text: Done., delay_seconds: 30}]\n')
    command = [*INTERLOCK, "resume", waiting, "--input", "yes", "--script", "slow.yaml", "--json"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    try:
        while '"run.resumed"' not in first.stdout.readline():
            assert first.poll() is None
        return says("resume", waiting, "--input", "no", "--script", "slow.yaml")
    finally:
        first.kill()
        first.wait(60)
        first.stdout.close()


def ctrl_c() -> Result:
    Path("slow.yaml").write_text("replies:\n  writer: [{text: '[DRAFT]', delay_seconds: 60}]\n")
    command = [*INTERLOCK, "run", "hello", "x", "--script", "slow.yaml", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while '"model.called"' not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return _result(process.returncode, out, err)


def the_crew_edited_while_a_run_is_paused() -> Result:
    """Runs keep the crew that they started with; the broken file of today plays no part."""
    waiting = paused()
    Path("hello/crew.yaml").write_text("version: [")
    return says("resume", waiting, "--input", "yes", "--script", "wait.yaml", "--plain")


# Servers


def a_port_in_use() -> Result:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        return _served("--port", str(taken.getsockname()[1]))


def _served(*more: str) -> Result:
    command = [*INTERLOCK, "serve", "hello", "--script", "hello/script.yaml", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return _result(done.returncode, done.stdout, done.stderr)


def started_twice() -> Result:
    command = [*INTERLOCK, "serve", "hello", "--script", "hello/script.yaml", "--port", "0"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert first.stdout is not None
    try:
        while "http://" not in first.stdout.readline():
            assert first.poll() is None
        return _served("--port", "0")
    finally:
        first.terminate()
        first.wait(60)
        first.stdout.close()


def no_keys_for_everybody() -> Result:
    return _served("--host", "0.0.0.0", "--no-auth")


# By the heading of the page.
MISTAKES: dict[str, Callable[[], Result]] = {
    "A route leads to an agent that does not exist": typo_in_a_target,
    "A line is indented differently from its neighbours": wrong_indentation,
    "A tab indents a line": a_tab,
    "A text with a colon has no quotes": a_colon_without_quotes,
    "A key is missing that a crew needs": a_missing_key,
    "A key is misspelled": a_misspelled_key,
    "A key is one level too high or too low": a_key_in_the_wrong_place,
    "A signal is routed and not declared": a_signal_nobody_declared,
    "An agent cannot hand over, and does not end the run": a_dead_end,
    "A key is written twice": a_key_written_twice,
    "A model without its provider": a_model_without_provider,
    "A provider that Interlock does not know": an_unknown_provider,
    "No model is set": no_model,
    "The provider's key is not set": no_key,
    "The provider refuses the key": a_refused_key,
    "`--model` without a provider": a_model_that_is_not_named_with_its_provider,
    "`--model` with a misspelled provider": a_typo_in_a_provider,
    "`--script` and `--model` together": script_and_model,
    "The script does not exist": a_script_that_is_not_there,
    "A crew is given as the script": a_crew_as_the_script,
    "The script has no answer left": a_script_that_is_too_short,
    "A command is misspelled": a_misspelled_command,
    "An option is misspelled": a_misspelled_option,
    "`run` without an input": no_input,
    "An input without quotes": an_input_without_quotes,
    "An input that is blank": a_blank_input,
    "The crew's folder does not exist": the_wrong_folder,
    "The folder holds no crew": a_folder_without_a_crew,
    "`init` where a crew is already": init_where_a_crew_is,
    "`--config` names a file that does not exist": a_config_that_is_not_there,
    "`interlock.toml` is not TOML": a_host_file_that_is_not_toml,
    "A section of `interlock.toml` is misspelled": a_section_that_is_misspelled,
    "An agent lists a tool that is not there": a_tool_nobody_has,
    "A module of tools is not there": a_module_that_is_not_there,
    "A tool takes `*args`, `**kwargs` or positional-only parameters": a_tool_that_cannot_be_called,
    "A module of tools cannot be imported": a_module_that_fails,
    "A tool raises an error": a_tool_that_raises,
    "There is no such run": a_run_that_is_not_there,
    "An id is shortened too much": an_id_that_is_too_short,
    "`resume` without the script that the run began with": resumed_without_the_script,
    "`resume` where the host file is not found": resumed_without_the_host_file,
    "`resume` of a run that is over": a_run_that_is_over,
    "Two different answers to one question": resumed_twice,
    "The data folder was deleted": the_data_folder_deleted,
    "The run is already being worked on, in another terminal": two_terminals,
    "Ctrl-C": ctrl_c,
    "The crew was edited while a run is paused": the_crew_edited_while_a_run_is_paused,
    "The port is in use": a_port_in_use,
    "`serve` twice for one data folder": started_twice,
    "`--no-auth` on an address that others reach": no_keys_for_everybody,
}

_SECTION = re.compile(r"^### (.+?)\n\n```text\n(.+?)```\n\n(.+?) Exit code (\d)\.$", re.MULTILINE | re.DOTALL)
SECTIONS = {found[1]: (found[2].strip(), int(found[4])) for found in _SECTION.finditer(PAGE)}


def test_the_page_has_thirty_mistakes_and_each_is_made_here() -> None:
    assert len(SECTIONS) >= 30
    assert list(SECTIONS) == list(MISTAKES) == re.findall(r"^### (.+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("heading", MISTAKES)
def test_each_mistake_gets_the_message_of_the_page(heading: str) -> None:
    said, code = SECTIONS[heading]
    result = MISTAKES[heading]()
    assert "Traceback" not in result.output
    pattern = ".*?".join(re.escape(part.strip()) for part in said.split("…"))
    assert re.search(pattern, result.output, re.DOTALL), result.output
    assert result.exit_code == code, result.output
