"""Files replaced as a whole: all of the old bytes or all of the new, and nothing left lying about."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.adapters.files.atomic_write import Replacement, replace_files
from interlock.errors import UsageError


def held(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def files(folder: Path, **contents: bytes) -> list[Replacement]:
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return [(folder / name, data, data.upper()) for name, data in contents.items()]


def test_every_file_holds_its_new_bytes_and_nothing_else_is_there(tmp_path: Path) -> None:
    replace_files(files(tmp_path, a=b"one", b=b"two"))
    assert held(tmp_path) == {"a": b"ONE", "b": b"TWO"}


def test_the_rights_of_a_file_stay(tmp_path: Path) -> None:
    replacements = files(tmp_path, a=b"one")
    (tmp_path / "a").chmod(0o640)
    replace_files(replacements)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_reader_that_has_the_file_open_reads_the_old_one_to_its_end(tmp_path: Path) -> None:
    replacements = files(tmp_path, a=b"one")
    with (tmp_path / "a").open("rb") as reader:
        replace_files(replacements)
        assert reader.read() == b"one"


def test_a_file_that_has_changed_since_it_was_read_stays_and_so_do_the_others(tmp_path: Path) -> None:
    replacements = files(tmp_path, a=b"one", b=b"two")
    (tmp_path / "b").write_bytes(b"edited")
    with pytest.raises(UsageError, match="b has changed meanwhile; nothing was changed"):
        replace_files(replacements)
    assert held(tmp_path) == {"a": b"one", "b": b"edited"}


def test_a_file_that_is_gone_keeps_the_others_as_they_were(tmp_path: Path) -> None:
    replacements = files(tmp_path, a=b"one", b=b"two")
    (tmp_path / "b").unlink()
    with pytest.raises(UsageError, match="b may not be written; nothing was changed"):
        replace_files(replacements)
    assert held(tmp_path) == {"a": b"one"}


def test_where_there_is_no_room_the_file_stays_as_it_was(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the write fails half-way."""
    files(tmp_path, a=b"one")
    code = f"""
import resource, signal
from pathlib import Path
from interlock.adapters.files.atomic_write import replace_files
from interlock.errors import UsageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    replace_files([(Path({str(tmp_path / "a")!r}), b"one", b"x" * 100_000)])
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/a cannot be written: File too large; it was not changed\n"
    assert held(tmp_path) == {"a": b"one"}
