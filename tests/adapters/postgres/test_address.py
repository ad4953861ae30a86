"""Addresses of PostgreSQL stores: what they mean, and that they keep their secrets."""

import pytest

from interlock.adapters.postgres.address import PostgresAddress, is_this_machine
from interlock.adapters.postgres.failures import as_postgres_failure, postgres_failure_of
from interlock.adapters.postgres.store import PostgresStore
from interlock.errors import StoreFailed, UsageError

SECRET = "pa ss/w%rd"
URL = "postgres://me:pa%20ss%2Fw%25rd@db.example:5433/data?schema=team_a"


def test_an_address_is_read_by_the_rules_of_libpq() -> None:
    address = PostgresAddress(URL)
    assert address.schema == "team_a"
    assert {name: str(address.parameters[name]) for name in ("user", "host", "port", "dbname", "password")} == {
        "user": "me",
        "host": "db.example",
        "port": "5433",
        "dbname": "data",
        "password": SECRET,
    }
    assert PostgresAddress("postgres://me@/data").schema == "interlock"


def test_several_hosts_are_kept() -> None:
    address = PostgresAddress("postgres://me@one:1,two:2/data")
    assert str(address) == "postgres://me@one:1,two:2/data?schema=interlock"


@pytest.mark.parametrize("shown", [str, repr, lambda address: f"{vars(address).keys()} {address}"])
def test_no_form_of_an_address_shows_the_password(shown: object) -> None:
    address = PostgresAddress(URL)
    assert callable(shown)
    text = shown(address)
    assert "ss" not in text.replace("address", "").replace("PostgresAddress", "").replace("class", "")
    assert "db.example:5433" in text or "parameters" in text


def test_a_password_of_the_environment_is_kept_as_secret() -> None:
    address = PostgresAddress("postgres://me@/data", secrets={"password": SECRET})
    assert address.parameters["password"] == SECRET
    assert SECRET not in repr(address)


def test_messages_of_the_driver_are_redacted() -> None:
    address = PostgresAddress(URL)
    error = postgres_failure_of("open it", OSError(f"cannot use {SECRET} or pa%20ss%2Fw%25rd"), address)
    assert "***" in str(error)
    assert SECRET not in str(error)
    assert "pa%20ss" not in str(error)
    with pytest.raises(StoreFailed) as caught, as_postgres_failure("open it", address):
        raise OSError(SECRET)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_server_that_is_away_is_a_failure_that_passes_and_shows_no_password() -> None:
    with pytest.raises(StoreFailed) as caught:
        PostgresStore(f"postgres://me:{'hunter2secret'}@127.0.0.1:1/data")
    assert caught.value.passes
    assert "hunter2secret" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:data",
        "postgres://me@[::1/data",
        "postgres://me@/data?schema=Team",
        "postgres://me@/data?schema=pg_x",
        "postgres://h/d?schema=",
        "postgres://h/d?schema=public",
        "postgres://h/d?schema=information_schema",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        PostgresAddress(url)


def test_an_unknown_parameter_is_refused_without_its_value() -> None:
    with pytest.raises(UsageError) as caught:
        PostgresAddress("postgres://me:hunter2@/data?no_such=hunter3")
    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgres://me@db.example/data", "verify-full"),
        ("postgres://me@127.0.0.1,db.example/data", "verify-full"),
        ("postgres://me@db.example/data?sslmode=require", "require"),
        ("postgres://me@127.0.0.1/data", None),
        ("postgres://me@localhost/data", None),
        ("postgres://me@[::1]/data", None),
        ("postgres://me@/data?host=/run/postgresql", None),
    ],
)
def test_another_machine_is_asked_for_its_certificate(url: str, mode: str | None) -> None:
    assert PostgresAddress(url).parameters.get("sslmode") == mode


def test_what_the_environment_says_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    assert PostgresAddress("postgres://me@/data").parameters["sslmode"] == "verify-full"
    monkeypatch.setenv("PGSSLMODE", "require")
    address = PostgresAddress("postgres://me@/data")
    assert (address.parameters["sslmode"], address.parameters.get("sslrootcert")) == ("require", None)
    assert PostgresAddress("postgres://me@/data?sslmode=prefer").parameters["sslmode"] == "prefer"


def test_this_machine_is_the_loopback_or_a_socket() -> None:
    assert [is_this_machine(host) for host in ("", "/tmp", "@x", "localhost", "127.1.2.3", "::1")] == [True] * 6
    assert [is_this_machine(host) for host in ("10.0.0.1", "db", "0.0.0.0")] == [False] * 3


@pytest.mark.parametrize(("name", "advice"), [("shema", "did you mean 'schema'"), ("zzzzzz", "it has those of libpq")])
def test_a_parameter_that_does_not_exist_is_named(name: str, advice: str) -> None:
    with pytest.raises(UsageError, match=f"has no parameter '{name}'; {advice}"):
        PostgresAddress(f"postgres://host/db?{name}=runs")
