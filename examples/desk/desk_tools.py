"""The tools of the refund desk. Every top-level function without a leading underscore is a tool."""

from hashlib import sha256
from typing import Annotated, TypedDict

from interlock import ToolContext, tool


class Order(TypedDict):
    order: str
    item: str
    dollars: float
    delivered: bool


_ORDERS: dict[str, Order] = {
    "A-17": {"order": "A-17", "item": "a blue lamp", "dollars": 24.0, "delivered": False},
    "A-18": {"order": "A-18", "item": "a desk", "dollars": 310.0, "delivered": False},
}


def find_order(order: Annotated[str, "such as A-17"]) -> Order:
    """Finds an order by its number."""
    if order not in _ORDERS:
        raise LookupError(f"there is no order {order!r}")
    return _ORDERS[order]


@tool(idempotent=True)
def refund(order: str, dollars: float, context: ToolContext) -> str:
    """Pays money back, once for each key: a bank that takes such keys gives the same receipt when it is asked again."""
    if dollars > _ORDERS[order]["dollars"]:
        raise ValueError(f"order {order} cost only {_ORDERS[order]['dollars']:.2f} dollars")
    return f"paid {dollars:.2f} dollars for {order}, receipt {sha256(context.key.encode()).hexdigest()[:8]}"
