"""Ids of broadcasts that no run makes: cuid2, as the protocol asks for."""

from functools import cache

from cuid2 import Cuid


@cache
def _maker() -> Cuid:
    return Cuid()


def new_broadcast_id() -> str:
    return _maker().generate()
