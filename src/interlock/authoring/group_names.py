"""Names of groups that the user did not name: made of the agent and the mark that start the group."""

import hashlib
import re

from interlock.ids import is_id
from interlock.limits import ID_CHARS_MAX


def name_of_group(agent: str, mark: str) -> str:
    """`clerk-INSPECT` for `[INSPECT]` of the clerk. A name that is too long ends in a digest."""
    name = f"{agent}-{re.sub(r'[ ]+', '_', mark.removeprefix('[').removesuffix(']'))}"
    if is_id(name) or len(name) <= ID_CHARS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: ID_CHARS_MAX - 9]}-{digest}"
