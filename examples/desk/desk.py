"""A refund desk: tools that look up and pay, a person for large sums, and budgets for all runs together.

The same crew as crew.yaml. The functions are given to the agents that use them, so no host file has to name them.
"""

from desk_tools import find_order, refund

from interlock import END, Agent, Crew, Pause, Route

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
