"""[mcp.<id>] sections: what they may say, and what `check` and crews make of them."""

from pathlib import Path

import pytest

from interlock.adapters.config.host_file import host_of, read_settings
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.tools.mcp_tools import name_for_models
from interlock.errors import UsageError


def settings_of(folder: Path, text: str) -> Path:
    file = folder / "interlock.toml"
    file.write_text(text, "utf-8")
    return file


def test_a_server_is_a_command_beside_the_file_or_an_address(tmp_path: Path) -> None:
    text = '[mcp.a]\ncommand = ["x", "y"]\ncwd = "sub"\n[mcp.b]\nurl = "https://example.org/mcp"\nkey_env = "K"\n'
    servers = read_settings(settings_of(tmp_path, text)).mcp
    assert servers["a"].command == ("x", "y")
    assert servers["a"].cwd == str(tmp_path.resolve() / "sub")
    assert (servers["b"].url, servers["b"].key_env, servers["b"].cwd) == ("https://example.org/mcp", "K", "")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ('[mcp."a.b"]\ncommand = ["x"]', "an id is up to 32"),
        ("[mcp.a]", "either command"),
        ('[mcp.a]\ncommand = ["x"]\nurl = "https://h/"', "either command"),
        ('[mcp.a]\nurl = "https://h/"\nkey = "s3cret"', "a file contains no keys"),
        ('[mcp.a]\nurl = "https://user:s3cret@h/"', "a file contains no keys"),
        ('[mcp.a]\nurl = "http://h.example/"\nkey_env = "K"', "sent unencrypted"),
        ('[mcp.a]\nurl = "ftp://h/"', "is not an address"),
        ('[mcp.a]\nurl = "https://h/"\ncwd = "x"', "go with command"),
        ('[mcp.a]\ncommand = ["x"]\nkey_env = "K"', "goes with url"),
        ('[mcp.a]\ncommand = ["x"]\ntimeout_seconds = 0', "a number above 0"),
        ('[mcp.a]\ncommand = ["x"]\nstart_timeout_seconds = inf', "a number above 0"),
        ('[mcp.a]\ncommand = "x"', "mcp.a.command must be a list"),
        ('[mcp.a]\ncommand = ["x"]\ntool = ["y"]', "unknown key 'tool'; did you mean 'tools'"),
        ('[mcp.a]\nurl = "https://h/"\nkey_env = "sk-s3cret"', "key_env must be the name of an environment variable"),
        ('[mcp.a]\ncommand = ["x"]\nenv = ["TOKEN=s3cret"]', "env must be the name of an environment variable"),
    ],
)
def test_what_is_wrong_with_a_section_is_said_without_its_secrets(tmp_path: Path, section: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_settings(settings_of(tmp_path, section))
    assert "s3cret" not in str(refused.value)


def test_check_names_tools_outside_of_the_allow_list(tmp_path: Path) -> None:
    host = host_of(read_settings(settings_of(tmp_path, '[mcp.files]\ncommand = ["x"]\ntools = ["read"]\n')))
    crew = tmp_path / "crew.yaml"
    crew.write_text(
        'version: "2.0"\nname: c\nentry_point: a\n'
        'agents: [{id: a, tools: ["mcp:files", "mcp:files/read", "mcp:files/raed", "mcp:mail/send"]}]\n',
        "utf-8",
    )
    problems = [(p.message, p.fix) for p in read_crew(crew, host).problems if p.code == "unknown-tool"]
    assert problems == [
        ("crews may not use 'raed' of MCP server 'files'", "did you mean 'read'?"),
        ("there is no MCP server 'mail'", f"add [mcp.mail] to {tmp_path / 'interlock.toml'}"),
    ]


def test_names_that_models_see_fit_every_provider_and_stay_distinct() -> None:
    long = "x" * 80
    names = [name_for_models("s", tool) for tool in ("read", "a.b", "a_b", "a/b", "đọc", long, long + "y")]
    assert names[0] == "s_read"
    assert names[2] == "s_a_b"
    assert len(set(names)) == len(names)
    assert all(
        len(name) <= 64 and name.isascii() and set(name) <= set(map(chr, range(128))) - set("./ ") for name in names
    )
