"""Addresses that nothing may be sent to, as they are and as names lead to them."""

import asyncio
import socket
from typing import Any

import pytest

from interlock.adapters.webhooks.public_addresses import AddressNotAllowed, is_public, resolve_address

REFUSED = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:10::1",
    "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1",
    "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1", "not an address", "",
]  # fmt: skip
ALLOWED = ["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "172.15.255.255",
           "172.32.0.1", "192.167.0.1", "223.255.255.255", "2600::1", "2a00:1450::1", "2606:4700::1111"]  # fmt: skip

LOOPBACK_NAMES = [
    "localhost",
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "2130706433",
    "0177.0.0.1",
    "0",
    "::1",
    "::ffff:127.0.0.1",
]


@pytest.mark.parametrize("address", REFUSED)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ALLOWED)
def test_what_is_public_is_allowed(address: str) -> None:
    assert is_public(address)


def test_there_are_vectors_enough() -> None:
    assert len(REFUSED) >= 40


@pytest.mark.parametrize("name", LOOPBACK_NAMES)
async def test_a_name_of_this_machine_is_refused_however_it_is_written(name: str) -> None:
    with pytest.raises(AddressNotAllowed, match="not public"):
        await resolve_address(name, 443, allow_private=False)
    assert (await resolve_address(name, 443, allow_private=True)).port == 443


def asked_with(answers: list[list[str]]) -> Any:
    """The loop's way to names, with answers that change from one time to the next."""

    async def getaddrinfo(_host: str, port: int, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers.pop(0)]

    return getaddrinfo


async def test_every_address_of_a_name_must_be_public_and_a_name_is_asked_for_once() -> None:
    loop: Any = asyncio.get_running_loop()
    answers = [["8.8.8.8", "10.0.0.1"], ["8.8.8.8"], ["127.0.0.1"]]
    loop.getaddrinfo = asked_with(answers)
    with pytest.raises(AddressNotAllowed, match=r"10\.0\.0\.1"):
        await resolve_address("two.example", 443, allow_private=False)
    found = await resolve_address("rebinding.example", 443, allow_private=False)
    assert found.address == "8.8.8.8"  # and it is connected to as it is: nobody asks again
    assert answers == [["127.0.0.1"]]
