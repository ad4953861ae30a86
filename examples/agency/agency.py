"""A travel agency: the planner delegates to an agent and to a team, which is a crew with a person in the loop."""

from interlock import END, Agent, Crew

finder = Agent(
    "finder",
    "You find places to stay. Only the traveller knows their budget: ask them.\n",
    tools=["ask_user"],
    on={"[NEXT]": "checker"},
)
checker = Agent(
    "checker", "You check what was found, and say it in one sentence.\n", on={"[RETRY]": finder, "[END]": END}
)
stays = Crew("stays", [finder, checker], description="Finds a place to stay, and has it checked.")

planner = Agent(
    "planner",
    "You plan trips. Give tasks that are complete in themselves, and put the reports together into one plan.\n",
    is_terminal=True,
)
flights = Agent("flights", "You find flights, the cheapest first.\n", role="finds flights")

crew = Crew(
    "agency",
    [planner, flights],
    description="Plans trips with an agent for flights and a team for places to stay.",
    sub_crews={"stays": {"crew": stays, "description": "finds places to stay and checks them"}},
    delegation={
        "children": {planner: [flights, stays]},
        "select": "all",
        "report_check": "model",  # a report that is not accepted is a new run of the team, told what is missing
        "answer_timeout_seconds": 300,  # a team that works longer is stopped, with everything below it
        "max_follow_ups": 1,
    },
)
