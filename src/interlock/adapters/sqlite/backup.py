"""A copy of the whole database."""

import os
from contextlib import closing
from pathlib import Path

from interlock.adapters.files.private_files import make_private_file
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.migrations import Connect
from interlock.errors import StoreFailed

# Pages copied at a time; others can write between two steps.
BACKUP_PAGES = 1_000


def back_up(database: Path, mode: str, file: Path, connect: Connect) -> None:
    """Copies under another name first, so that an interrupted copy is never mistaken for a whole one."""
    if os.path.lexists(file):
        raise StoreFailed(f"'{file}' exists already; a backup overwrites nothing")
    draft = file.with_name(f"{file.name}.part")
    draft.unlink(missing_ok=True)
    make_private_file(draft)
    try:
        with closing(connect(database, mode)) as source, closing(connect(draft, "rwc")) as copy:
            copy.execute("pragma synchronous = extra")
            source.execute("begin")  # one state for the whole copy while others write
            source.backup(copy, pages=BACKUP_PAGES)
            copy.execute("pragma journal_mode = delete").fetchone()
            migrations.require_sound(copy, file)
        draft.rename(file)
        migrations.sync_folder(file.absolute().parent)
    finally:
        draft.unlink(missing_ok=True)
