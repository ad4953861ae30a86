import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.adapters.clock import SystemClock
from interlock.compose.stores.homes import home_of
from interlock.compose.stores.sqlite_folder import SqliteFolder
from interlock.errors import StoreFailed, UsageError
from tests.postgres import shared_schemas


def test_a_folder_and_its_url_have_one_home(tmp_path: Path) -> None:
    homes = [home_of(each) for each in (tmp_path, str(tmp_path), f"sqlite:{tmp_path}", f"sqlite://{tmp_path}")]
    assert {home.key for home in homes} == {str(tmp_path)}
    assert {type(home) for home in homes} == {SqliteFolder}
    assert homes[0].option == f" --data {tmp_path}"


def test_a_missing_driver_is_told_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("interlock.compose.stores.postgres", "psycopg"))]:
        monkeypatch.delitem(sys.modules, module)
    for module in [name for name in sys.modules if name.startswith("interlock.adapters.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        UsageError, match=r"a PostgreSQL store needs the extra 'postgres'.*install it with: .*\[postgres\]"
    ):
        home_of("postgres://ada@127.0.0.1/runs")


def test_data_and_store_name_one_store_only(tmp_path: Path) -> None:
    assert Interlock(store=f"sqlite:{tmp_path}").data == tmp_path
    with pytest.raises(UsageError, match="data and store both name the store"):
        Interlock(tmp_path, store=f"sqlite:{tmp_path}")
    with pytest.raises(UsageError, match="store must be the URL of a store, such as 'sqlite:DIR', not int"):
        Interlock(store=3)  # type: ignore[arg-type]


async def test_a_postgres_store_is_made_opened_and_never_shows_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with shared_schemas().borrow() as url:
        secret = url.replace("interlock@", "interlock:a-long-password@")
        monkeypatch.delenv("INTERLOCK_STORE", raising=False)
        home = home_of(secret)
        assert "a-long-password" not in f"{home.name} {home.key} {home.option} {home.identity()}"
        assert home.option.startswith(" --store 'postgres://interlock@") and home_of(url).option == home.option
        assert "a-long-password" in home.secrets()
        await home.initialize("full")
        opened = await home.open("full", SystemClock())
        assert (opened.views, opened.is_read_only, await opened.store.newest_position()) == (None, False, 0)
        await opened.close()
        for refused in (home.backup(Path("copy"), "full"), home.compact("full"), home.accept_loss("full")):
            with pytest.raises(UsageError):
                await refused
        with pytest.raises(UsageError, match="INTERLOCK_SERVER_KEY is not set"):
            home.ensure_server_key()
        monkeypatch.setenv("INTERLOCK_SERVER_KEY", "ilk_" + "k" * 43)
        assert home.ensure_server_key().value == "ilk_" + "k" * 43
        box = Interlock(store=url)
        with pytest.raises(UsageError, match="is not a data folder"):
            _ = box.data


async def test_a_schema_without_a_store_is_told_how_to_make_one() -> None:
    with shared_schemas().borrow() as url, pytest.raises(StoreFailed, match="interlock store init"):
        await home_of(url.replace("schema=", "schema=no_")).open("full", SystemClock())


def test_a_hint_names_the_store_unless_the_variables_lead_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = "postgres://ada@127.0.0.1/one", "postgres://ada@127.0.0.1/other"
    monkeypatch.delenv("INTERLOCK_DATA", raising=False)
    monkeypatch.setenv("INTERLOCK_STORE", one)
    assert home_of(one).option == ""
    assert home_of(other).option == f" --store {other}"
    assert home_of(".interlock").option == " --data .interlock"
    monkeypatch.setenv("INTERLOCK_STORE", "sqlite:folder")
    assert home_of(one).option == f" --store {one}"
    monkeypatch.delenv("INTERLOCK_STORE")
    assert home_of(".interlock").option == ""
    monkeypatch.setenv("DB_PASSWORD", "a-long-password")
    assert home_of(f"{one}?password_env=DB_PASSWORD").option == f" --store '{one}?password_env=DB_PASSWORD'"


def test_the_key_of_the_servers_that_is_missing_or_wrong_says_how_to_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_of("postgres://ada@127.0.0.1/runs")
    monkeypatch.delenv("INTERLOCK_SERVER_KEY", raising=False)
    with pytest.raises(UsageError, match=r"INTERLOCK_SERVER_KEY is not set; .*'ilk_' and 43 letters"):
        home.ensure_server_key()
    monkeypatch.setenv("INTERLOCK_SERVER_KEY", "something")
    with pytest.raises(UsageError, match="INTERLOCK_SERVER_KEY does not hold a key") as refused:
        home.ensure_server_key()
    program = re.search(r'python3 -c "(.*)"$', str(refused.value))
    assert program is not None
    made = subprocess.run([sys.executable, "-c", program[1]], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv("INTERLOCK_SERVER_KEY", made)
    assert home.ensure_server_key().value == made
