"""`provider_url` of a crew works only for addresses that the provider has anyway or interlock.toml lists."""

import asyncio
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.adapters.models.openai.providers import ProviderSettings, endpoint_of
from interlock.cli.main import interlock
from interlock.crew.definition import ModelRef
from interlock.errors import ModelRefused
from tests.adapters.hostile_server import HostileServer, hostile_server, replies, said

CREW = """\
version: "{version}"
name: desk
entry_point: clerk
agents: [{{id: clerk, model: "{model}", provider_url: "{url}"}}]
routing: {{signals: {{clerk: [{{signal: "[DONE]"}}]}}}}
"""


@contextmanager
def served() -> Iterator[HostileServer]:
    """A server in a thread of its own: the command wants the main one."""
    found: queue.Queue[HostileServer] = queue.Queue()
    over = threading.Event()

    async def serve() -> None:
        async with hostile_server(replies(said("Fine.\n[DONE]"))) as server:
            found.put(server)
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield found.get(timeout=60)
    finally:
        over.set()
        thread.join()


def written(folder: Path, url: str, model: str = "openai-compatible:m", toml: str = "", version: str = "2.0") -> Path:
    (folder / "crew.yaml").write_text(CREW.format(model=model, url=url, version=version), "utf-8")
    (folder / "interlock.toml").write_text(toml, "utf-8")
    (folder / "script.yaml").write_text("replies: {clerk: ['Fine.\\n[DONE]']}\n", "utf-8")
    return folder


def invoked(folder: Path, command: str, *words: str) -> Result:
    config = ("--config", str(folder / "interlock.toml"))
    return CliRunner().invoke(interlock, [command, str(folder), *words, *config])


def run(folder: Path, *words: str) -> Result:
    return invoked(folder, "run", "Hello", "--data", str(folder / "data"), "--plain", *words)


def codes(folder: Path) -> list[tuple[str, str]]:
    found = json.loads(invoked(folder, "check", "--json").stdout)["problems"]
    return [(each["code"], each["severity"]) for each in found if each["code"] == "unlisted-host"]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("model", ["openai-compatible:m", "ollama:m", "vllm:m", "local:m"])
def test_an_unlisted_address_is_a_warning_at_check_and_refused_before_a_connection(
    tmp_path: Path, model: str, version: str
) -> None:
    with served() as server:
        refused = run(written(tmp_path, server.url, model, version=version))
    assert (refused.exit_code, server.asked) == (2, [])
    assert f"would be called at {server.origin}, which interlock.toml does not list" in refused.stderr
    assert f'add hosts = ["{server.origin}"] under [providers.' in refused.stderr
    assert codes(tmp_path) == [("unlisted-host", "warning")]


@pytest.mark.parametrize("toml", ['hosts = ["{origin}"]', 'hosts = ["127.0.0.1"]', 'hosts = ["localhost:{port}"]'])
def test_what_the_message_says_makes_it_work(tmp_path: Path, toml: str) -> None:
    with served() as server:
        entry = toml.format(origin=server.origin, port=server.origin.rpartition(":")[2])
        written(tmp_path, server.url, toml=f"[providers.openai-compatible]\n{entry}\n")
        assert run(tmp_path).exit_code == 0
    assert len(server.asked) == 1
    assert codes(tmp_path) == []


def test_with_a_script_or_a_model_it_plays_no_part(tmp_path: Path) -> None:
    written(tmp_path, "https://evil.example.org/v1")
    script = str(tmp_path / "script.yaml")
    assert run(tmp_path, "--script", script).exit_code == 0
    assert run(tmp_path, "--model", f"scripted:{script}").exit_code == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
@pytest.mark.parametrize("provider", ["ollama", "local"])
@pytest.mark.parametrize("path", ["", "/", "/v1"])
def test_a_providers_own_address_counts_as_listed(tmp_path: Path, provider: str, host: str, path: str) -> None:
    """And Ollama's is asked under the path at which it speaks this protocol, which old files leave out."""
    url = f"http://{host}:11434{path}"
    assert codes(written(tmp_path, url, f"{provider}:llama3", version="1.0")) == []
    assert (
        endpoint_of(ModelRef(provider="ollama", model="m", provider_url=url), {}, {}).url == f"http://{host}:11434/v1"
    )


@pytest.mark.parametrize(
    "url",
    ["http://localhost:11435/v1", "https://localhost:11434/v1", "http://127.0.0.2:11434/v1", "http://box:11434/v1"],
)
def test_another_port_scheme_or_machine_does_not(url: str) -> None:
    with pytest.raises(ModelRefused, match="does not list"):
        endpoint_of(ModelRef(provider="ollama", model="m", provider_url=url), {}, {})


def test_a_host_that_is_listed_for_another_provider_gets_no_key() -> None:
    settings = {"house": ProviderSettings(url="https://house.example.org/v1")}
    free = ModelRef(provider="openai-compatible", model="m", provider_url="https://house.example.org/v1")
    assert endpoint_of(free, settings, {}).key == ""
    keyed = ModelRef(provider="openai", model="m", provider_url="https://house.example.org/v1")
    with pytest.raises(ModelRefused, match="would send OPENAI_API_KEY"):
        endpoint_of(keyed, settings, {"OPENAI_API_KEY": "sk-0123456789"})


def test_a_client_of_its_own_goes_nowhere_else(tmp_path: Path) -> None:
    assert codes(written(tmp_path, "https://evil.example.org", "anthropic:m")) == [("unlisted-host", "warning")]
