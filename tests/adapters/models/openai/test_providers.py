"""Where models are asked, and where keys may go."""

import pytest

from interlock.adapters.models.openai.endpoint import CHAT, RESPONSES, CallLimits
from interlock.adapters.models.openai.providers import (
    Environment,
    ProviderSettings,
    endpoint_of,
    is_served,
    key_variables,
    missing_key_variables,
)
from interlock.crew.definition import ModelRef
from interlock.errors import ModelRefused

KEYS = {"OPENAI_API_KEY": "sk-openai-0123456789", "OPENROUTER_API_KEY": "sk-or-0123456789", "HOUSE": "house-0123456789"}


def place(named: str, url: str = "", environment: Environment = KEYS, **settings: ProviderSettings) -> tuple[str, str]:
    provider, _, model = named.partition(":")
    renamed = {name.replace("_", "-"): value for name, value in settings.items()}
    endpoint = endpoint_of(ModelRef(provider=provider, model=model, provider_url=url), renamed, environment)
    return endpoint.url, endpoint.key


def test_providers_have_addresses_and_keys_of_their_own() -> None:
    assert place("openai:x") == ("https://api.openai.com/v1", KEYS["OPENAI_API_KEY"])
    assert place("openrouter:x/y") == ("https://openrouter.ai/api/v1", KEYS["OPENROUTER_API_KEY"])
    assert place("ollama:x") == ("http://127.0.0.1:11434/v1", "")
    assert place("vllm:x") == ("http://127.0.0.1:8000/v1", "")
    assert place("llama.cpp:x") == ("http://127.0.0.1:8080/v1", "")
    for provider, url in (
        ("deepseek", "https://api.deepseek.com/v1"),
        ("fireworks", "https://api.fireworks.ai/inference/v1"),
        ("together", "https://api.together.xyz/v1"),
    ):
        variable = f"{provider.upper()}_API_KEY"
        assert place(f"{provider}:x", environment={variable: "sk-0123456789"}) == (url, "sk-0123456789")
        with pytest.raises(ModelRefused, match=f"set the environment variable {variable}"):
            place(f"{provider}:x")
    listed = ProviderSettings(hosts=("models.example.org",))
    there = place("openai-compatible:x", "https://models.example.org/v1/", openai_compatible=listed)
    assert there == ("https://models.example.org/v1", "")


@pytest.mark.parametrize(
    ("named", "settings", "api"),
    [
        ("openai:gpt-5", ProviderSettings(), CHAT),
        ("openai:gpt-5-pro", ProviderSettings(), RESPONSES),
        ("openai:gpt-5.1-codex-max", ProviderSettings(), RESPONSES),
        ("openai:gpt-5", ProviderSettings(api="responses"), RESPONSES),
        ("openai:gpt-5-pro", ProviderSettings(api="chat"), CHAT),
        # Another server may speak only the one or the other.
        ("openai:gpt-5-pro", ProviderSettings(url="https://proxy.example.org/v1"), CHAT),
        ("openai:gpt-5", ProviderSettings(url="https://proxy.example.org/v1", api="responses"), RESPONSES),
        ("openrouter:openai/gpt-5-pro", ProviderSettings(), CHAT),
    ],
)
def test_responses_are_for_models_that_have_nothing_else_and_where_the_file_says_so(
    named: str, settings: ProviderSettings, api: str
) -> None:
    provider, _, model = named.partition(":")
    endpoint = endpoint_of(ModelRef(provider=provider, model=model), {provider: settings}, KEYS)
    assert (endpoint.api, endpoint.provider, endpoint.source) == (api, provider, provider)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        (":9000", "http://127.0.0.1:9000/v1"),
        ("box", "http://box:11434/v1"),
        ("box:9000", "http://box:9000/v1"),
        ("http://box:80/", "http://box/v1"),
        ("https://box:9000", "https://box:9000/v1"),
        ("[::1]:9000", "http://[::1]:9000/v1"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert place("ollama:x", environment={"OLLAMA_HOST": host}) == (url, "")


HOUSE = ProviderSettings(
    url="https://house.example.org/v1", key_env="HOUSE", hosts=("other.example.org", "http://10.0.0.7:8000")
)


def test_a_host_sets_up_providers_and_changes_those_there_are() -> None:
    assert place("house:x", house=HOUSE) == ("https://house.example.org/v1", KEYS["HOUSE"])
    slow = ProviderSettings(total_timeout_seconds=5, max_reply_kb=2)
    model = ModelRef(provider="openai", model="x")
    endpoint = endpoint_of(model, {"openai": slow}, KEYS)
    assert (endpoint.url, endpoint.key) == ("https://api.openai.com/v1", KEYS["OPENAI_API_KEY"])
    assert endpoint.limits == CallLimits(total_seconds=5, reply_bytes_max=2_000)


@pytest.mark.parametrize(
    "url",
    [
        "https://house.example.org/other/path",
        "https://HOUSE.example.org:443/v1",
        "https://other.example.org/v1",
        "https://other.example.org:8443/v1",
        "http://10.0.0.7:8000/v1",
    ],
)
def test_a_key_goes_to_its_own_host_and_to_those_that_are_listed(url: str) -> None:
    assert place("house:x", url, house=HOUSE)[1] == KEYS["HOUSE"]


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.org/v1",
        "http://house.example.org/v1",
        "https://house.example.org:8443/v1",
        "http://other.example.org/v1",
        "https://10.0.0.7:8000/v1",
        "http://10.0.0.7:8001/v1",
        "https://house.example.org.evil.org/v1",
        "https://evilhouse.example.org/v1",
        "https://xother.example.org/v1",
        "http://127.0.0.1:8000/v1",
    ],
)
def test_a_key_goes_nowhere_else_whatever_the_crew_says(url: str) -> None:
    with pytest.raises(ModelRefused, match=r"would send HOUSE to .*\[providers.house\] in interlock.toml") as refusal:
        place("house:x", url, house=HOUSE)
    assert KEYS["HOUSE"] not in str(refusal.value)
    with pytest.raises(ModelRefused, match="would send OPENAI_API_KEY"):
        place("openai:x", url)


@pytest.mark.parametrize(
    "url",
    [
        "https://house.example.org@evil.org/v1",
        "https://evil.org\\@house.example.org/v1",
        "https://house.example.org/v1?x=1",
        "https://house.example.org/v1#x",
        "https://house.example.org:99999/v1",
        "https://house .example.org",
        "https://hoüse.example.org/v1",
        "ftp://house.example.org",
        "house.example.org/v1",
        "https://" + "a" * 64 + ".org",
        "https:///v1",
        "https://house.example.org/../v1\n",
    ],
)
def test_an_address_that_two_could_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(ModelRefused, match="is not an address"):
        place("house:x", url, house=HOUSE)


@pytest.mark.parametrize(
    "url",
    ["https://bob:hunter2@house.example.org/v1", "https://hunter2@x", "https://x?key=hunter2", "x//a@hunter2@b"],
)
def test_what_is_wrong_with_an_address_is_said_without_what_it_hides(url: str) -> None:
    for refused in ({"url": url}, {"house": ProviderSettings(url="https://house.example.org/v1", proxy=url)}):
        with pytest.raises(ModelRefused, match="keys come from the environment") as refusal:
            place("house:x", **{"house": HOUSE, **refused})  # type: ignore[arg-type]
        assert "hunter2" not in str(refusal.value)


def test_an_odd_ollama_host_is_named() -> None:
    with pytest.raises(ModelRefused, match=r"variable OLLAMA_HOST: .* is not an address"):
        place("ollama:x", environment={"OLLAMA_HOST": "http://[bad"})


@pytest.mark.parametrize("value", ["", " ", "two words", "line\nbreak-in-it", "chìa-khóa-0123"])
def test_a_variable_without_a_key_is_named_and_not_shown(value: str) -> None:
    with pytest.raises(ModelRefused, match="environment variable OPENAI_API_KEY") as refusal:
        place("openai:x", environment={"OPENAI_API_KEY": value})
    assert not value.strip() or value not in str(refusal.value)


def test_without_an_address_it_says_where_to_write_one() -> None:
    with pytest.raises(ModelRefused, match=r"give its provider_url, or url under \[providers.openai-compatible\]"):
        place("openai-compatible:x")


def test_a_proxy_that_is_no_address_is_refused_before_it_is_used() -> None:
    with pytest.raises(ModelRefused, match=r"the address of 'the proxy of ollama': .* is not an address"):
        place("ollama:x", ollama=ProviderSettings(proxy="socks9:what"))


def test_providers_with_clients_of_their_own_are_left_to_them() -> None:
    assert not is_served("anthropic", {})
    assert not is_served("anthropic", {"anthropic": ProviderSettings(key_env="X")})
    assert is_served("groq", {"groq": ProviderSettings(url="https://api.groq.com/openai/v1")})
    assert is_served("house", {"house": ProviderSettings()})
    assert not is_served("house", {})


def test_every_key_there_is_is_known() -> None:
    environment = {**KEYS, "ANTHROPIC_API_KEY": "sk-ant-0123456789", "SHORT_API_KEY": "none", "HOME": "/home/somebody"}
    found = key_variables({"house": HOUSE}, environment)
    assert set(found) == {*KEYS, "ANTHROPIC_API_KEY", "SHORT_API_KEY"}


def test_keys_that_are_not_set_are_named_by_their_variable() -> None:
    unset = missing_key_variables({}, {})
    assert (unset["openai"], unset["google"], unset["huggingface"]) == ("OPENAI_API_KEY", "GOOGLE_API_KEY", "HF_TOKEN")
    assert not {"ollama", "vllm", "llama.cpp", "openai-compatible", "bedrock", "scripted"} & set(unset)
    there = {"OPENAI_API_KEY": "sk-1", "GEMINI_API_KEY": "g", "HF_TOKEN": " "}
    assert set(unset) - set(missing_key_variables({}, there)) == {"openai", "google", "gemini"}


def test_the_hosts_file_says_which_variable_a_provider_needs() -> None:
    own = {
        "house": ProviderSettings(url="https://house.example/v1", key_env="HOUSE_KEY"),
        "open": ProviderSettings(url="https://open.example/v1"),
        "anthropic": ProviderSettings(url="https://proxy.example/v1"),
    }
    unset = missing_key_variables(own, {})
    assert unset["house"] == "HOUSE_KEY"
    assert not {"open", "anthropic"} & set(unset)
