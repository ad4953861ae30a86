"""The user of the system that types a command."""

import getpass


def system_user() -> str:
    """`user:NAME`, or empty where the system has no name for it."""
    try:
        return f"user:{getpass.getuser()}"
    except (OSError, KeyError):  # no entry for this number, as in some containers
        return ""
