"""Addresses of model servers, and which of them interlock.toml lists.

Rule 1: an address is plain: scheme, host, port, path. An ambiguous address is refused.
Rule 2: an entry is an address, which means its scheme, host and port, or a host with or without a port.
Rule 3: this machine has three names, which mean the same.
"""

import re
from collections.abc import Iterable

import msgspec

from interlock.errors import ModelRefused

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?",
    re.IGNORECASE | re.ASCII,
)
_USERINFO = re.compile(r"//[^/]*@")
_LABEL_CHARS_MAX = 63
_PORTS = {"http": 80, "https": 443}
_THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")


class Address(msgspec.Struct, frozen=True):
    """A parsed address."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}" + (f":{self.port}" if self.port != _PORTS[self.scheme] else "")

    @property
    def is_private_to_send(self) -> bool:
        """True if the connection is encrypted or local."""
        return self.scheme == "https" or self.host in _THIS_MACHINE

    @property
    def server_identity(self) -> tuple[str, str, int]:
        """The identity of a server, the same for all names of this machine."""
        return self.scheme, _canonical_host(self.host), self.port


def address_of(url: str, model: str) -> Address:
    address = _parse(url)
    if address is None:
        raise ModelRefused(f"the address of '{model}': {fault_in_address(url)}")
    return address


def fault_in_address(url: str) -> str:
    """The fault of an address, without the names, passwords and keys in it; empty if it is valid."""
    if _parse(url) is not None:
        return ""
    shown = _USERINFO.sub("//…@", url.partition("?")[0])
    hint = ", without a name, a password or a query; keys come from the environment" if "@" in url or "?" in url else ""
    return f"{shown!r} is not an address; write it as https://HOST/v1{hint}"


def is_listed(address: Address, entries: Iterable[str]) -> bool:
    """True if one of the entries names the server."""
    return any(_is_entry_for(address, entry) for entry in entries)


def _is_entry_for(address: Address, entry: str) -> bool:
    if "://" in entry:
        listed = _parse(entry)
        return listed is not None and listed.server_identity == address.server_identity
    host, port = _host_and_port(entry)
    return _canonical_host(host) == _canonical_host(address.host) and port in ("", str(address.port))


def _host_and_port(entry: str) -> tuple[str, str]:
    """Host and port of an entry without a scheme."""
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]+))?", entry.lower())
    return (found[1], found[2] or "") if found is not None else (entry.lower(), "")


def _canonical_host(host: str) -> str:
    return "localhost" if host in _THIS_MACHINE else host


def _parse(url: str) -> Address | None:
    found = _URL.fullmatch(url)
    if found is None or any(len(label) > _LABEL_CHARS_MAX for label in found["host"].split(".")):
        return None
    scheme = found["scheme"].lower()
    port = int(found["port"] or _PORTS[scheme])
    return Address(scheme, found["host"].lower(), port, found["path"]) if port <= 65535 else None
