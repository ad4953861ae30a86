"""What may be on a disk after the power went: images of files, made from a log of writes and syncs.

Rule 1: what was synced is there. Of anything else there may be nothing, the first part, some of it, or torn pieces.
Rule 2: an image is drawn from the random source it is given, and from nothing else.
Rule 3: two kinds of file system. `ext4` keeps the order of names, and writes every name with any sync; a file grows by
what was written into it, and a page in its middle is of some moment since the last sync, for each page another one.
`posix` promises what the standard does and no more: any subset of writes, cuts and names, and a file may have grown
without what was written into it, with zeros or with what the disk held before in its place.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

from tests.campaign.powerloss_disk import (
    Cut,
    Entry,
    FolderSynced,
    Made,
    Naming,
    Removed,
    Renamed,
    Synced,
    SyncFailed,
    Wrote,
)

MODELS = ("ext4", "posix")
STYLES = ("none", "prefix", "subset", "torn")

SECTOR = 512  # written whole or not at all
PAGE = 4_096  # of the system's cache

T = TypeVar("T")
Change = Wrote | Cut
Image = dict[str, bytes]


class File:
    """What is surely on the disk, and what may be. After a sync that failed nobody knows, whatever is synced later."""

    def __init__(self) -> None:
        self.sure = bytearray()
        self.pending: list[Change] = []
        self.doomed = 0

    def sync(self) -> None:
        apply(self.sure, self.pending[self.doomed :])
        self.pending, self.doomed = [], 0


class Platter:
    """The disk at one moment of its log after the other."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.files: dict[int, File] = {}
        self.names: dict[str, int] = {}
        self.namings: list[Naming] = []

    def take(self, entry: Entry) -> None:
        match entry:
            case Wrote() | Cut():
                self.files[entry.inode].pending.append(entry)
            case Synced():
                self.files[entry.inode].sync()
                if self.model == "ext4":
                    self._sync_names()
            case SyncFailed():
                self.files[entry.inode].doomed = len(self.files[entry.inode].pending)
            case FolderSynced():
                self._sync_names()
            case Made() | Removed() | Renamed():
                self.namings.append(entry)
                if isinstance(entry, Made):
                    self.files[entry.inode] = File()

    def image(self, random: Random) -> Image:
        """The files of the folder, as they may be found."""
        chosen = some(self.namings, "prefix" if self.model == "ext4" else random.choice(STYLES), random)
        drawn = ext4_contents if self.model == "ext4" else posix_contents
        names = named(self.names, chosen)
        return {name: bytes(drawn(self.files[inode], random)) for name, inode in names.items()}

    def _sync_names(self) -> None:
        self.names, self.namings = named(self.names, self.namings), []


def named(names: dict[str, int], namings: Sequence[Naming]) -> dict[str, int]:
    names = dict(names)
    for naming in namings:
        match naming:
            case Made(inode, name):
                names[name] = inode
            case Removed(name):
                names.pop(name, None)
            case Renamed(old, new):
                if old in names:
                    names[new] = names.pop(old)
    return names


def apply(content: bytearray, changes: Sequence[Change]) -> None:
    for change in changes:
        if isinstance(change, Cut):
            del content[change.size :]
            content.extend(bytes(change.size - len(content)))
        else:
            content.extend(bytes(max(0, change.offset - len(content))))
            content[change.offset : change.offset + len(change.data)] = change.data


def some(things: Sequence[T], style: str, random: Random) -> list[T]:
    if style == "none":
        return []
    if style == "prefix":
        return list(things[: random.randint(0, len(things))])
    share = random.choice((0.1, 0.5, 0.9))
    return [thing for thing in things if random.random() < share]


def pieces(change: Change, size: int) -> Iterator[Change]:
    """A write cut at every multiple of a size."""
    if isinstance(change, Cut):
        yield change
        return
    start, end = change.offset, change.offset + len(change.data)
    for at in range(start - start % size, end, size):
        low, high = max(at, start), min(at + size, end)
        yield Wrote(change.inode, low, change.data[low - start : high - start])


def posix_contents(file: File, random: Random) -> bytearray:
    content, style = bytearray(file.sure), random.choice(STYLES)
    changes = file.pending
    if style == "torn":
        changes = [piece for change in changes for piece in pieces(change, SECTOR)]
    if style in ("subset", "torn") and random.random() < 0.5:
        _grow(content, file.pending, random)
    apply(content, some(changes, style, random))
    return content


def _grow(content: bytearray, changes: Sequence[Change], random: Random) -> None:
    end = max((change.offset + len(change.data) for change in changes if isinstance(change, Wrote)), default=0)
    if end > len(content):
        filling = bytes(SECTOR) if random.random() < 0.5 else random.randbytes(SECTOR)
        missing = end - len(content)
        content.extend((filling * (missing // SECTOR + 1))[:missing])


def ext4_contents(file: File, random: Random) -> bytearray:
    content, style = bytearray(file.sure), random.choice(STYLES)
    if style in ("none", "prefix") or any(isinstance(change, Cut) for change in file.pending):
        apply(content, some(file.pending, "none" if style == "none" else "prefix", random))
        return content
    by_page: dict[int, list[Wrote]] = {}
    for change in file.pending:
        for piece in pieces(change, PAGE):
            assert isinstance(piece, Wrote), "there is no cut among them"
            by_page.setdefault(piece.offset // PAGE, []).append(piece)
    inside = [page for page in by_page if page * PAGE < len(content)]
    grown = sorted(by_page.keys() - set(inside))
    for page in inside:
        apply(content, _versions(by_page[page], style, random))
    for page in grown[: random.randint(0, len(grown))]:
        apply(content, by_page[page])
    return content


def _versions(writes: list[Wrote], style: str, random: Random) -> list[Change]:
    """A page as it was after some of its writes; torn, its first sectors are one write ahead."""
    number = random.randint(0, len(writes))
    chosen: list[Change] = list(writes[:number])
    if style == "torn" and number < len(writes):
        chosen += some(list(pieces(writes[number], SECTOR)), "prefix", random)
    return chosen
