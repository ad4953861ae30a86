"""Allowed hosts and origins. A name that resolves to this machine is not allowed because of that, nor is a page
because it runs on this machine."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

# An address in brackets or a name, and an optional port.
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
        self.origins = frozenset([*(f"http://{_host_in_url(name)}:{port}" for name in named), *origins])
        behind = [urlsplit(origin).hostname or "" for origin in origins]
        self.hosts = frozenset(name.lower() for name in [*named, *behind])

    def path_without_prefix(self, path: str) -> str:
        """Removes the prefix of the public address, which a proxy may leave in a path."""
        if self.prefix and (path == self.prefix or path.startswith(f"{self.prefix}/")):
            return path[len(self.prefix) :] or "/"
        return path

    def is_allowed_host(self, header: str | None) -> bool:
        """True for an allowed name. The port is not compared: DNS rebinding cannot choose it."""
        return header is not None and _hostname_of(header) in self.hosts

    def is_allowed_origin(self, origin: str) -> bool:
        return origin.lower() in self.origins

    def is_from_own_page(self, headers: Mapping[str, str]) -> bool:
        """True if an allowed page sent the request. Browsers omit `Origin` for same-origin GET requests."""
        if "origin" in headers:
            return self.is_allowed_origin(headers["origin"])
        if "sec-fetch-site" in headers:
            return headers["sec-fetch-site"] == "same-origin"
        return self.is_allowed_origin("/".join(headers.get("referer", "").split("/", 3)[:3]))


def _host_in_url(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _hostname_of(header: str) -> str:
    """The name in a Host header; empty if it is missing or malformed."""
    found = _HOST.fullmatch(header.strip().lower())
    return (found[1] or found[2]) if found is not None else ""
