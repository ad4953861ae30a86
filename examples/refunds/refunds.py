"""A refund as a typed value: the clerk hands a typed claim over, and the run completes with a refund or not at all."""

from interlock import END, Agent, Crew, Route

CLAIM = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["order", "sure"],
}
REFUND = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number", "minimum": 0}},
    "required": ["order", "amount"],
    "additionalProperties": False,
}

cashier = Agent("cashier", "Decide what is due.", on={"[PAID]": END})
clerk = Agent(
    "clerk",
    "Find out which order the customer writes about, and how sure you are.",
    output=CLAIM,
    on={"[CLAIM]": Route(cashier, takes={"type": "object", "required": ["order"]})},
)

crew = Crew("refunds", [clerk, cashier], output=REFUND)
