from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

HELLO = Path(__file__).parents[2] / "src" / "interlock" / "templates" / "hello"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("INTERLOCK_DATA", "INTERLOCK_STORE"):
        monkeypatch.delenv(variable, raising=False)


def call(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(interlock, list(words), env=environment)


def start(*options: str, **environment: str) -> Result:
    script = str(HELLO / "script.yaml")
    return call("run", str(HELLO), "a harbour", "--script", script, "--json", *options, **environment)


def folders() -> list[str]:
    return sorted(file.parent.name for file in Path().glob("*/interlock.db"))


def test_a_store_url_names_a_folder_as_data_does() -> None:
    assert start("--store", "sqlite:one").exit_code == 0
    assert folders() == ["one"]
    assert call("runs", "list", "--data", "one").stdout == call("runs", "list", "--store", "sqlite:one").stdout != ""
    assert call("doctor", "--store", "sqlite:one").stdout.startswith("one is healthy: 1 run")


def test_the_settings_file_names_the_store_where_no_option_and_no_variable_does() -> None:
    Path("interlock.toml").write_text('[store]\nurl = "sqlite:settings"\n', "utf-8")
    assert start().exit_code == 0
    assert folders() == ["settings"]
    assert start(INTERLOCK_STORE="sqlite:variable").exit_code == 0
    assert folders() == ["settings", "variable"]
    assert start("--data", "option", INTERLOCK_STORE="sqlite:variable").exit_code == 0
    assert folders() == ["option", "settings", "variable"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--store", "data"), "--store is not the URL of a store; write sqlite:DIR"),
        (("--store", "mysql://db/runs"), "there is no kind of store 'mysql'"),
        (("--store", "sqlite:a", "--data", "b"), "--data and --store both name the store"),
        (("--store", "postgres://ada:word@db/runs"), "--store contains a password"),
        (("--data", "postgres://ada:word@db/runs"), "--data contains a password"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_with_the_reason(options: tuple[str, ...], message: str) -> None:
    refused = call("runs", "list", *options)
    assert (refused.exit_code, message in refused.stderr, "word" in refused.stderr.replace("password", "")) == (
        2,
        True,
        False,
    )
    assert folders() == []


def test_a_password_in_the_settings_file_is_refused_and_not_repeated() -> None:
    Path("interlock.toml").write_text('[store]\nurl = "postgres://ada:a-long-secret@db/runs"\n', "utf-8")
    refused = call("runs", "list")
    assert (refused.exit_code, "interlock.toml: store.url contains a password" in refused.stderr) == (2, True)
    assert "a-long-secret" not in refused.output


WRONG = [
    *("[store]\nurl = 3", '[store]\npath = "x"', "store = 3", "[limits]\nqueued_runs = 0"),
    *("worker = 3", "[worker]\nweight = 1", "[worker]\nweights = 3"),
    *("[worker]\nweights = {a = 0}", "[worker]\nweights = {a = 1.5}", "[worker]\nweights = {a = 1001}"),
]


@pytest.mark.parametrize("body", WRONG)
def test_wrong_settings_of_the_store_are_refused(body: str) -> None:
    Path("interlock.toml").write_text(f"{body}\n", "utf-8")
    refused = call("runs", "list")
    assert (refused.exit_code, "interlock.toml" in refused.stderr) == (2, True)
