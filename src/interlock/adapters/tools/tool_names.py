"""Tool names that every provider accepts. A changed name ends in a digest, so that names stay unique."""

import hashlib
import re

NAME_CHARS_MAX = 64
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def fit_name(name: str) -> str:
    fit = _UNFIT.sub("_", name)
    if fit == name and 0 < len(fit) <= NAME_CHARS_MAX:
        return fit
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{fit[: NAME_CHARS_MAX - 9]}_{digest}"
