"""The file system of a folder. SQLite's log needs shared memory and locks, which network file systems lack."""

from pathlib import Path

from interlock.errors import StoreFailed

MOUNTS = Path("/proc/self/mountinfo")

NETWORKED = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
    "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs",
}  # fmt: skip


def require_local(folder: Path) -> None:
    """`StoreFailed` for a folder on a known network file system."""
    try:
        text = MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:  # not Linux: unknown
        return
    kind = file_system_of(str(folder.resolve()), text)
    if kind in NETWORKED:
        raise StoreFailed(
            f"the data folder '{folder}' is on a network file system ({kind}), where SQLite's log is not safe;"
            " name a folder on a local disk with --data"
        )


def file_system_of(path: str, mountinfo: str) -> str:
    """The type of the innermost mount that holds an absolute path; a later mount in one place hides an earlier one."""
    found, depth = "", -1
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = _unescape(fields[4]).rstrip("/")
        if len(point) >= depth and (path + "/").startswith(point + "/"):
            found, depth = right.split(" ")[0], len(point)
    return found


def _unescape(point: str) -> str:
    for escaped, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(escaped, plain)
    return point
