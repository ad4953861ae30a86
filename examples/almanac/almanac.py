"""Two providers, a Python tool and an MCP server in one crew. Its host file has the providers and the server.

The scout looks things up on a small model nearby, the author writes on a large one, and a backup answers when that one
cannot.
"""

from almanac_tools import weekday

from interlock import END, Agent, Crew, Route

scout = Agent(
    "scout",
    "You are {{name}}. Look up the weekday and the notes for the date, and list the facts.",
    name="Scout",
    role="finds facts",
    model="nearby:small",
    tools=[weekday, "mcp:notes/read_notes"],
    on={"[FACTS]": Route("author", description="when the facts are complete")},
)
author = Agent(
    "author",
    "You are {{name}}. Write the page in three sentences from the facts alone.",
    name="Author",
    role="writes the page",
    primary={"model": "large:writer"},
    backup={"model": "nearby:small"},
    on={
        "[MORE]": Route(scout, description="when a fact is missing"),
        "[PRINT]": Route(END, description="when the page can be printed"),
    },
)

crew = Crew(
    "almanac",
    [scout, author],
    description="A page for tomorrow, from notes and the calendar",
    settings={"max_handoffs": 6, "max_calls_per_run": 12, "retry_backoff_min_millis": 100},
)
