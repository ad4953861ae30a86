"""The system user that runs the command."""

import getpass


def system_user() -> str:
    """`user:NAME`, or empty if the system has no name for the user."""
    try:
        return f"user:{getpass.getuser()}"
    except (OSError, KeyError):  # no entry for this user id, as in some containers
        return ""
