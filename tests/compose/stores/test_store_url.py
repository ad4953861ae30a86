from pathlib import Path

import pytest

from interlock.adapters.config.store_settings import StoreSettings
from interlock.compose.stores.postgres_server import PostgresServer
from interlock.compose.stores.store_url import (
    FolderAddress,
    PostgresUrl,
    parse_store,
    require_no_password,
    require_url,
    store_of_environment,
    url_of,
)
from interlock.errors import UsageError


@pytest.mark.parametrize(
    ("named", "folder"),
    [
        ("data", "data"),
        ("sqlite:data", "data"),
        ("sqlite:/var/data", "/var/data"),
        ("sqlite:///var/data", "/var/data"),
        (Path("sqlite:data"), "sqlite:data"),
        ("c:data", "c:data"),
    ],
)
def test_a_folder_is_named_by_its_path_or_by_a_url(named: str, folder: str) -> None:
    assert parse_store(named) == FolderAddress(Path(folder))


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("postgres://ada@db/runs", "postgres://ada@db/runs"),
        ("postgresql://ada@db:5432,db2:5432/runs?schema=team", "postgres://ada@db:5432,db2:5432/runs?schema=team"),
        ("postgres:///runs?host=/run/pg", "postgres:///runs?host=%2Frun%2Fpg"),
    ],
)
def test_a_postgres_url_is_kept_with_its_hosts_and_options(url: str, clean: str) -> None:
    assert parse_store(url, {}) == PostgresUrl(clean, "")


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ada:se%40cret@db/runs",
        "postgres://ada@db/runs?password=se%40cret",
        "postgres://ada@db/runs?password_env=DB_PASSWORD",
        "postgres://ada:other@db/runs?password_env=DB_PASSWORD",
    ],
)
def test_a_password_is_taken_out_of_the_address(url: str) -> None:
    address = parse_store(url, {"DB_PASSWORD": "se@cret"})
    assert address[:2] == ("postgres://ada@db/runs", "se@cret")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://db/runs", "there is no kind of store 'mysql'"),
        ("postgrs://db/runs", "did you mean 'postgres'"),
        ("sqlite:", "names no folder"),
        ("postgres://db/runs?password_env=DB_PASSWORD", "DB_PASSWORD is not set"),
        ("postgres://db/runs?password_env=a-secret", "must be the name of an environment variable"),
    ],
)
def test_a_bad_url_is_refused_with_the_reason(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_store(url, {})


def test_other_secrets_are_taken_out_too() -> None:
    address = parse_store("postgres://ada@db/runs?sslcert=c&sslpassword=se%40cret", {})
    assert isinstance(address, PostgresUrl)
    assert (address.url, address.secrets) == ("postgres://ada@db/runs?sslcert=c", {"sslpassword": "se@cret"})
    assert "cret" not in repr(address)
    home = PostgresServer(address)
    assert "cret" not in home.option
    assert home.secrets() == ["se@cret"]
    assert home._address.parameters["sslpassword"] == "se@cret"


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ada:secret@db/runs",
        "postgres://ada@db/runs?password=secret",
        "postgres://ada@db/runs?sslpassword=secret",
    ],
)
def test_a_password_where_others_read_it_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="--store contains a password") as refused:
        require_no_password(url, "--store")
    assert "secret" not in str(refused.value)
    with pytest.raises(UsageError, match="url contains a password"):
        url_of(StoreSettings(url=url), "url")


def test_addresses_without_a_password_pass() -> None:
    for url in ("sqlite:C:/a@b", "postgres://ada@db:5432,db2:5432/runs?password_env=X", "data:x@y"):
        require_no_password(url, "--store")


def test_a_url_needs_a_scheme() -> None:
    with pytest.raises(UsageError, match="--store is not the URL of a store"):
        require_url("data", "--store")


def test_the_settings_name_the_variable_of_the_password() -> None:
    assert url_of(StoreSettings(), "url") == ""
    settings = StoreSettings(url="postgres://ada@db/runs", password_env="DB_PASSWORD")
    assert url_of(settings, "url") == "postgres://ada@db/runs?password_env=DB_PASSWORD"
    more = StoreSettings(url="postgres://ada@db/runs?schema=team", password_env="DB_PASSWORD")
    assert parse_store(url_of(more, "url"), {"DB_PASSWORD": "it"}) == PostgresUrl(
        "postgres://ada@db/runs?schema=team", "it", password_env="DB_PASSWORD"
    )


def test_a_variable_counts_before_the_settings_and_these_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_STORE", raising=False)
    monkeypatch.delenv("INTERLOCK_DATA", raising=False)
    assert store_of_environment(StoreSettings(), "url") == ".interlock"
    settings = StoreSettings(url="sqlite:settings")
    assert store_of_environment(settings, "url") == "sqlite:settings"
    monkeypatch.setenv("INTERLOCK_DATA", "data")
    assert store_of_environment(settings, "url") == "data"
    monkeypatch.setenv("INTERLOCK_STORE", "sqlite:store")
    assert store_of_environment(settings, "url") == "sqlite:store"
