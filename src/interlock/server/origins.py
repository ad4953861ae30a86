"""By which names a server may be called, and whose pages may ask: a name that leads back to this machine is not ours
because of that, and a page that a browser shows is not ours because it runs on this machine."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

# An address in brackets or a name, and perhaps a port.
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^:@/\[\]]+))(?::[0-9]*)?")

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Origins:
    """The allow-lists of one server."""

    def __init__(
        self, host: str, port: int, hosts: Sequence[str], origins: Sequence[str], public_url: str = ""
    ) -> None:
        public = urlsplit(public_url)
        self.public_url = public_url.rstrip("/")
        self.prefix = public.path.rstrip("/")
        if public_url:
            origins = [*origins, f"{public.scheme}://{public.netloc}".lower()]
        named = [*LOOPBACK, *hosts, *([host] if host not in ("", "0.0.0.0", "::") else [])]  # noqa: S104 - compared
        self.origins = frozenset([*(f"http://{_in_address(name)}:{port}" for name in named), *origins])
        behind = [urlsplit(origin).hostname or "" for origin in origins]
        self.hosts = frozenset(name.lower() for name in [*named, *behind])

    def path_without_prefix(self, path: str) -> str:
        """A proxy may leave the prefix of the public address in a path, or take it away."""
        if self.prefix and (path == self.prefix or path.startswith(f"{self.prefix}/")):
            return path[len(self.prefix) :] or "/"
        return path

    def knows_host(self, header: str | None) -> bool:
        """The name alone counts: a port cannot be chosen by whoever leads a name here."""
        return header is not None and _name_of(header) in self.hosts

    def knows(self, origin: str) -> bool:
        return origin.lower() in self.origins

    def is_ours(self, headers: Mapping[str, str]) -> bool:
        """Whether a page of ours sent the request. Browsers leave `Origin` out where they fetch from their own."""
        if "origin" in headers:
            return self.knows(headers["origin"])
        if "sec-fetch-site" in headers:
            return headers["sec-fetch-site"] == "same-origin"
        return self.knows("/".join(headers.get("referer", "").split("/", 3)[:3]))


def _in_address(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _name_of(header: str) -> str:
    """The name in a Host header; empty if there is none, or something else."""
    found = _HOST.fullmatch(header.strip().lower())
    return (found[1] or found[2]) if found is not None else ""
