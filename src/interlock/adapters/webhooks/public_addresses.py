"""Addresses that a webhook may be sent to: those of the public internet only.

Rule 1: an address that is not known to be public is refused. The library's `is_global` accepts some that lead back to
this machine: 6to4, NAT64 and IPv4 written as IPv6.
Rule 2: a name is resolved once, all its addresses must be allowed, and the connection uses a checked address.
"""

import asyncio
import ipaddress
import socket
from typing import NamedTuple

_NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# The only part of IPv6 that is assigned to the public, and its exceptions.
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # Teredo, ORCHID and other protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4: any IPv4 address is inside
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)


class AddressNotAllowed(Exception):
    """The address is refused; the text tells which, and why."""


class ResolvedAddress(NamedTuple):
    """A checked address, to connect to directly."""

    address: str
    port: int


def is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # an address with a zone, such as fe80::1%eth0, is not public either
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


async def resolve_address(host: str, port: int, *, allow_private: bool) -> ResolvedAddress:
    """Resolves a name; raises `NotAllowed` if one of its addresses is not public, `OSError` if it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    refused = [address for address in addresses if not is_public(address)]
    if refused and not allow_private:
        raise AddressNotAllowed(f"'{host}' leads to {refused[0]}, which is not public; allow_private = true allows it")
    return ResolvedAddress(addresses[0], port)
