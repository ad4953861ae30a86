"""A refund desk: tools that look up and pay, a person for large sums, and budgets for all runs together.

The functions are given to the agents that use them, so no interlock.toml names their module.
"""

from hashlib import sha256
from typing import Annotated, TypedDict

from interlock import END, Agent, Crew, Pause, Route, ToolContext, tool


class Order(TypedDict):
    order: str
    item: str
    dollars: float
    delivered: bool


ORDERS: dict[str, Order] = {
    "A-17": {"order": "A-17", "item": "a blue lamp", "dollars": 24.0, "delivered": False},
    "A-18": {"order": "A-18", "item": "a desk", "dollars": 310.0, "delivered": False},
}


def find_order(order: Annotated[str, "such as A-17"]) -> Order:
    """Finds an order by its number."""
    if order not in ORDERS:
        raise LookupError(f"there is no order {order!r}")
    return ORDERS[order]


@tool(idempotent=True)
def refund(order: str, dollars: float, context: ToolContext) -> str:
    """Pays money back, once for each key: a bank that takes such keys gives the same receipt when it is asked again."""
    if dollars > ORDERS[order]["dollars"]:
        raise ValueError(f"order {order} cost only {ORDERS[order]['dollars']:.2f} dollars")
    return f"paid {dollars:.2f} dollars for {order}, receipt {sha256(context.key.encode()).hexdigest()[:8]}"


PRICES = {"input_token_price_per_million": 3.00, "output_token_price_per_million": 15.00}

clerk = Agent(
    "clerk",
    "You answer customers. Look the order up before you say anything about it.\n"
    "If money is due, end with [REFUND] on a line of its own; when all is said, with [DONE].\n",
    name="Clerk",
    tools=[find_order],
    cost_limits={"max_tokens_per_day": 500_000, **PRICES},
    on={
        "[REFUND]": Route("cashier", description="the customer gets money back"),
        "[DONE]": Route(END, description="the customer has the answer"),
    },
)
cashier = Agent(
    "cashier",
    "You pay refunds with your tool. Above 50 dollars ask a person first: end with [WAIT].\n"
    "When it is paid, end with [PAID].\n",
    name="Cashier",
    tools=[refund],
    cost_limits={"max_cost_per_day_usd": 1.00, **PRICES},
    on={
        "[WAIT]": Pause("cashier", description="more than 50 dollars; a person decides"),
        "[PAID]": Route(clerk, description="the money is on its way"),
    },
)

crew = Crew(
    "desk",
    [clerk, cashier],
    description="Finds a customer's order, pays back what is due, and asks a person where much money is at stake.",
    settings={
        "max_handoffs": 8,
        "timeout_seconds": 600,
        "max_tokens_per_run": 20000,
        "max_cost_per_day": 5.00,
        "cost_alert_threshold": 0.8,
        "max_calls_per_minute": 60,
        "block_on_quota_exceed": False,  # at a limit of a window: wait for the next one
        "max_consecutive_errors": 5,  # then one trial a minute
    },
)
