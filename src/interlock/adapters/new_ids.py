"""Ids of broadcasts that are not made by a run: cuid2, as the protocol requires."""

from functools import cache

from cuid2 import Cuid


@cache
def _maker() -> Cuid:
    return Cuid()


def new_broadcast_id() -> str:
    return _maker().generate()
