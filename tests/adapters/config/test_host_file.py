"""interlock.toml: what the host sets up, what is wrong with it, and that reading it executes nothing."""

import sys
from pathlib import Path

import msgspec
import pytest

from interlock.adapters.config.host_file import DURABILITIES, read_host_file, read_settings
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.models.openai.providers import ProviderSettings
from interlock.adapters.sqlite import store
from interlock.compose.crews import load_host
from interlock.crew.host import Host, ProviderFacts
from interlock.errors import UsageError


def host(folder: Path, toml: str | bytes, modules: dict[str, str] | None = None) -> Host:
    for name, source in (modules or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source, encoding="utf-8")
    file = folder / "interlock.toml"
    file.write_bytes(toml if isinstance(toml, bytes) else toml.encode())
    found = read_host_file(file)
    assert found.file == str(file)
    return msgspec.structs.replace(found, file="")


FULL = """\
durability = "full"

[tools]
modules = ["desk_tools", "more.tools"]

[mcp.files]
command = ["mcp-files"]

[mcp.search]
url = "https://example.org/mcp"

[providers.house]
url = "http://127.0.0.1:8080/v1"

[webhooks.build]
url = "https://example.org/hook"
secret_env = "BUILD_SECRET"

[server]
requests_per_second = 10

[retention]
days = 30
"""

MODULES = {
    "desk_tools.py": "def look_up(name): ...\nasync def file_case(): ...\ndef _own(): ...\nclass Desk: ...\nTOP = 3\n",
    "more/__init__.py": "",
    "more/tools/__init__.py": "def weigh(): ...\n",
}


def test_everything_a_host_can_set_up_is_read(tmp_path: Path) -> None:
    assert host(tmp_path, FULL, MODULES) == Host(
        tools=("look_up", "file_case", "weigh"),
        mcp_servers=("files", "search"),
        providers=("house",),
        provider_facts={"house": ProviderFacts(url="http://127.0.0.1:8080/v1")},
    )


def test_durability_and_retention_are_read_without_looking_at_modules(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text(
        'durability = "normal"\n[tools]\nmodules = ["nothing_like_this"]\n'
        "[retention]\ndays = 0.5\nbroadcast_days = 7\n",
        "utf-8",
    )
    settings = read_settings(file)
    assert (settings.durability, settings.retention_days, settings.modules) == ("normal", 0.5, ("nothing_like_this",))
    assert settings.broadcast_days == 7
    file.write_text("", "utf-8")
    assert (read_settings(file).durability, read_settings(file).retention_days) == ("full", None)


def test_the_durabilities_are_those_of_the_store() -> None:
    assert DURABILITIES == store.DURABILITIES


def test_an_empty_file_sets_up_nothing(tmp_path: Path) -> None:
    assert host(tmp_path, "") == Host()


def test_what_the_host_sets_up_is_known_to_crews(tmp_path: Path) -> None:
    crew = """\
version: "2.0"
entry_point: a
agents: [{id: a, model: "house:small", tools: [look_up, "mcp:files", "mcp:files/read", "mcp:mail", look_down]}]
"""
    (tmp_path / "crew.yaml").write_text(crew, encoding="utf-8")
    before = [problem.code for problem in read_crew(tmp_path).problems]
    after = read_crew(tmp_path, host(tmp_path, FULL, MODULES)).problems
    assert before == ["unknown-provider", *["unknown-tool"] * 5]
    assert [(problem.code, problem.path) for problem in after] == [
        ("unknown-tool", "agents[0].tools[3]"),
        ("unknown-tool", "agents[0].tools[4]"),
    ]


# Nothing executes


def test_tools_are_found_without_executing_their_module(tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    source = f"""\
from pathlib import Path
Path({str(trap)!r}).write_text("ran")
raise RuntimeError("imported")

def look_up(name): ...
"""
    found = host(tmp_path, '[tools]\nmodules = ["trap"]\n', {"trap.py": source})
    assert found.tools == ("look_up",)
    assert not trap.exists()
    assert "trap" not in sys.modules


def test_the_packages_around_a_module_are_not_executed_either(tmp_path: Path) -> None:
    modules = {"pack/__init__.py": "raise RuntimeError", "pack/inner.py": "import nothing_like_this\ndef f(): ...\n"}
    assert host(tmp_path, '[tools]\nmodules = ["pack.inner"]\n', modules).tools == ("f",)
    assert "pack" not in sys.modules


def test_a_decorator_is_not_called(tmp_path: Path) -> None:
    source = "def boom(f): raise RuntimeError\n@boom\ndef tool(x=1 / 0): ...\n"
    assert host(tmp_path, '[tools]\nmodules = ["decorated"]\n', {"decorated.py": source}).tools == ("boom", "tool")


def test_modules_beside_the_file_come_before_the_import_path(tmp_path: Path) -> None:
    assert host(tmp_path, '[tools]\nmodules = ["json"]\n', {"json.py": "def mine(): ...\n"}).tools == ("mine",)


def test_modules_on_the_import_path_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "far_tools.py").write_text("def far(): ...\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    assert host(tmp_path, '[tools]\nmodules = ["far_tools"]\n').tools == ("far",)


# What is wrong with it


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("[tools\n", "is not TOML"),
        ("a = 1\na = 2\n", "is not TOML"),
        (b"name = '\xff'\n", "is not TOML"),
        ("[tool]\nmodules = []\n", "did you mean 'tools'"),
        ("[databases]\n", "unknown key 'databases'"),
        ("tools = 3\n", "must be a section"),
        ("tools = ['a']\n", "must be a section"),
        ("[tools]\nmodule = ['a']\n", "unknown key 'tools.module'"),
        ("[tools]\nmodules = 'a'\n", "must be a list of module names"),
        ("[tools]\nmodules = [1]\n", "must be a list of module names"),
        ("[tools]\nmodules = ['nothing_like_this']\n", "no module 'nothing_like_this'"),
        ("[tools]\nmodules = ['']\n", "is not a module name"),
        ("[tools]\nmodules = ['.']\n", "is not a module name"),
        ("[tools]\nmodules = ['../outside']\n", "is not a module name"),
        ("[tools]\nmodules = ['/tmp/outside']\n", "is not a module name"),
        ('[tools]\nmodules = ["a\\u0000b"]\n', "is not a module name"),
        ("mcp = 1\n", "write \\[mcp.<id>\\]"),
        ("[mcp]\nfiles = 'x'\n", "write \\[mcp.<id>\\]"),
        ("providers = []\n", "write \\[providers.<id>\\]"),
        ("durability = 'fast'\n", "durability is 'fast'; it must be one of full, normal"),
        ("durability = 3\n", "durability is 3; it must be one of full, normal"),
        ("[durability]\n", "durability is {}; it must be one of"),
        ("retention = 30\n", "retention must be a section"),
        (
            "[retention]\nday = 30\n",
            "unknown key 'retention.day'; the keys of \\[retention\\] are broadcast_days, days",
        ),
        ("[retention]\nbroadcast_days = -1\n", "retention.broadcast_days is -1; it must be a number of days"),
        ("[retention]\ndays = -1\n", "retention.days is -1; it must be a number of days"),
        ("[retention]\ndays = true\n", "retention.days is True"),
        ("[retention]\ndays = nan\n", "retention.days is nan"),
        ("[retention]\ndays = '30'\n", "retention.days is '30'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, toml: str | bytes, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        host(tmp_path, toml)
    assert str(tmp_path / "interlock.toml") in str(refused.value)


@pytest.mark.parametrize(
    "source", ["def (:\n", "x = '\0'\n", "(" * 500, "x = " + "-" * 50_000 + "1\n", "def f():\nreturn\n"]
)
def test_a_module_that_is_no_python_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(UsageError, match="module 'bad' is not Python"):
        host(tmp_path, '[tools]\nmodules = ["bad"]\n', {"bad.py": source})


def test_a_module_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes = Path.read_bytes

    def refuse_modules(path: Path) -> bytes:
        if path.suffix == ".py":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse_modules)
    with pytest.raises(UsageError, match="Permission denied"):
        host(tmp_path, '[tools]\nmodules = ["shut"]\n', {"shut.py": ""})


def test_a_file_that_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_host_file(path)


# Which file


def without_keys(host: Host) -> Host:
    """Which keys are not set, and where it stands, is not the file's business."""
    return msgspec.structs.replace(host, unset_keys={}, file="", searched=(), needs_models=False)


def test_the_file_of_the_working_folder_is_taken_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert without_keys(load_host()) == Host()
    (tmp_path / "interlock.toml").write_text("[providers.house]\n", encoding="utf-8")
    assert without_keys(load_host()) == Host(providers=("house",), provider_facts={"house": ProviderFacts()})


def test_a_named_file_is_taken_instead_and_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interlock.toml").write_text("[providers.house]\n", encoding="utf-8")
    (tmp_path / "other.toml").write_text("[providers.other]\n", encoding="utf-8")
    assert without_keys(load_host("other.toml")) == Host(
        providers=("other",), provider_facts={"other": ProviderFacts()}
    )
    with pytest.raises(UsageError, match="cannot be read"):
        load_host("missing.toml")


def test_providers_have_addresses_hosts_and_limits(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text(
        "[providers.house]\n"
        'url = "https://house.example.org/v1"\nkey_env = "HOUSE"\nhosts = ["other.example.org"]\n'
        "idle_timeout_seconds = 5\nmax_reply_kb = 20\n",
        "utf-8",
    )
    assert read_settings(file).provider_settings == {
        "house": ProviderSettings(
            url="https://house.example.org/v1",
            key_env="HOUSE",
            hosts=("other.example.org",),
            idle_timeout_seconds=5,
            max_reply_kb=20,
        )
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('key = "sk-0123456789"', "providers.house.key: a file contains no keys; write key_env, the variable's name"),
        (
            'api_key = "sk-0123456789"',
            "providers.house: unknown key 'api_key'; (did you mean|the keys are)",
        ),
        ('hosst = ["x"]', "providers.house: unknown key 'hosst'; did you mean 'hosts'?"),
        ("url = 7", "providers.house.url must be text in quotes, got int"),
        ('hosts = "x"', "providers.house.hosts must be a list, such as .*, got str"),
        ('idle_timeout_seconds = "5"', "providers.house.idle_timeout_seconds must be a number, got str"),
        ("constrained_sentences = true", "providers.house.constrained_sentences must be a whole number, got bool"),
        ('url = "house.example.org/v1"', "providers.house.url: .* is not an address; write it as https://HOST/v1"),
        ('url = "https://me:sk-0123456789@house/v1"', "providers.house.url: .* keys come from the environment"),
        ('proxy = "http://me:sk-0123456789@proxy:1"', "providers.house.proxy: .* is not an address"),
        ('hosts = ["fine.example.org", "not one"]', "providers.house.hosts: .* is not an address"),
        ('key_env = "sk-0123456789"', "providers.house.key_env must be the name of an environment variable"),
        ('key_env = "gsk_0123456789abcdefgh"', "providers.house.key_env must be the name of"),
        ("idle_timeout_seconds = 0", "providers.house.idle_timeout_seconds is 0.0; it must be a number above 0"),
        ("total_timeout_seconds = inf", "providers.house.total_timeout_seconds is inf"),
        ("max_reply_kb = -1", "providers.house.max_reply_kb is -1"),
        ('api = "soap"', "providers.house.api is 'soap'; it must be one of chat, responses"),
    ],
)
def test_what_is_wrong_with_a_provider_is_said_and_a_key_is_not_repeated(
    tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refusal:
        host(tmp_path, f"[providers.house]\n{line}\n")
    assert "0123456789" not in str(refusal.value)


def test_how_a_provider_is_constrained_is_one_of_few_words(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text('[providers.here]\nurl = "http://127.0.0.1:9/v1"\nconstrains = "magic"\n', "utf-8")
    with pytest.raises(UsageError, match="must be one of grammar, guided_grammar, schema"):
        read_settings(file)
    file.write_text('[providers.here]\nurl = "http://127.0.0.1:9/v1"\nconstrains = "grammar"\n', "utf-8")
    assert read_settings(file).provider_settings["here"].constrains == "grammar"


def test_how_a_provider_is_asked_for_outputs_is_one_of_few_words(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    for way in ("schema", "json_object", "tool", "prompt"):
        file.write_text(f'[providers.here]\nurl = "http://127.0.0.1:9/v1"\noutputs = "{way}"\n', "utf-8")
        assert read_settings(file).provider_settings["here"].outputs == way
    file.write_text('[providers.here]\nurl = "http://127.0.0.1:9/v1"\noutputs = "magic"\n', "utf-8")
    with pytest.raises(UsageError, match=r"providers\.here\.outputs is 'magic'; it must be one of schema, json_object"):
        read_settings(file)


@pytest.mark.parametrize(
    ("toml", "why"),
    [
        ("server = 7", "must be a section"),
        ("[server]\nport = 8700", "port"),
        ("[server]\nrequests_per_second = 0", "above 0"),
        ("[server]\nstreams_max = -1", "above 0"),
        ("[server]\ndrain_timeout_seconds = nan", "above 0"),
        ('[server]\nhosts = ["http://x"]', "not a host name"),
        ('[server]\nhosts = [""]', "not a host name"),
        ('[server]\norigins = ["x.example"]', "not an origin"),
        ('[server]\norigins = ["https://x.example/"]', "not an origin"),
        ('[server.keys.ci]\nsha256 = ""\nscopes = ["read"]', "not a SHA-256"),
        ('[server.keys.ci]\nscopes = ["read"]', "sha256"),
        ('[server.keys.ci]\nsha256 = "{sha}"\nscopes = []', "scopes is empty"),
        ('[server.keys.ci]\nsha256 = "{sha}"\nscopes = ["write"]', "no scope 'write'"),
        ('[server.keys."a b"]\nsha256 = "{sha}"\nscopes = ["read"]', "an id is"),
    ],
)
def test_what_is_wrong_with_the_server_is_said(tmp_path: Path, toml: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        host(tmp_path, toml.replace("{sha}", "a" * 64))


def test_what_a_server_allows_is_read(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_text(
        '[server]\nhosts = ["crew.example"]\norigins = ["https://crew.example"]\nstreams_max = 7\n'
        f'[server.keys.ci]\nsha256 = "{"a" * 64}"\nscopes = ["read", "run"]\n',
        "utf-8",
    )
    server = read_settings(tmp_path / "interlock.toml").server
    assert (server.hosts, server.origins, server.streams_max) == (("crew.example",), ("https://crew.example",), 7)
    assert server.keys["ci"].scopes == ("read", "run")
