"""A trip to Italy: a planner delegates tasks to the agents it needs, answers their questions, and checks their reports.

There are no signals here: agents talk to each other, and to a person, with messages.
"""

from interlock import Agent, Crew

planner = Agent(
    "planner",
    "You plan trips. Give every part of the work to the one who knows it, and tell them all they need.\n"
    "When their reports are there, write one plan with prices.\n",
    name="Planner",
    role="plans trips",
    is_terminal=True,
)
flights = Agent(
    "flights",
    "You find flights. If you do not know what matters more, ask whoever gave you the task.\n",
    name="Flights",
    role="finds flights",
    description="Knows airlines, airports and what they cost.",
)
hotels = Agent(
    "hotels",
    "You find hotels. Only the traveller knows how long they stay: ask them.\n",
    name="Hotels",
    role="finds hotels",
    description="Knows hotels in Europe.",
    tools=["ask_user"],
)
museums = Agent(
    "museums",
    "You book museums.",
    name="Museums",
    role="books museums",
    description="Gets tickets for museums and sights.",
)

crew = Crew(
    "travel",
    [planner, flights, hotels, museums],
    description="Plans a trip with specialists for flights, hotels and museums.",
    delegation={
        "children": {planner: [flights, hotels, museums]},
        "select": "model",  # the planner's model selects the agents; no other agent gets a task
        "report_check": "model",  # rules first; then the planner's model says whether a report completes its task
        "ack_timeout_seconds": 30,
        "answer_timeout_seconds": 300,
        "max_follow_ups": 2,
    },
    settings={"timeout_seconds": 1800, "max_rounds": 8},
)
