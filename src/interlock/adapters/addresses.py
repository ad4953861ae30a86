"""Which addresses of the network a webhook may be sent to: those of the public internet, and no others.

Rule 1: what is not known to be public is refused. The library's `is_global` takes some ways back to this machine for
public ones: 6to4, NAT64 and IPv4 written as IPv6.
Rule 2: a name is resolved once, every address that it has must be allowed, and what was looked at is connected to.
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
# The only part of IPv6 that is given out to the public, and what of it is not.
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


class NotAllowed(Exception):
    """An address that nothing is sent to; the text says which, and why."""


class Resolved(NamedTuple):
    """An address that was looked at, to be connected to as it is."""

    address: str
    port: int


def is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # an address of a zone, such as fe80::1%eth0, is none of the public ones either
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


async def resolved(host: str, port: int, *, allow_private: bool) -> Resolved:
    """Where to connect to for a name; `NotAllowed` if any of its addresses is not public, `OSError` if it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    refused = [address for address in addresses if not is_public(address)]
    if refused and not allow_private:
        raise NotAllowed(f"'{host}' leads to {refused[0]}, which is not public; allow_private = true allows it")
    return Resolved(addresses[0], port)
