"""Two agents that subscribe to builds. The herald acts immediately, the chronicler in its next turn."""

from interlock import END, Agent, Broadcast, Crew

herald = Agent(
    "herald",
    "A build is done. Say so in one sentence, for people who wait for it. End with [TOLD] and [DONE].",
    role="Tells people of builds",
    on={"[TOLD]": Broadcast(), "[DONE]": END},
)
chronicler = Agent(
    "chronicler",
    "Write down in one sentence which builds you have heard of. End with [DONE].",
    role="Keeps the chronicle",
    on={"[DONE]": END},
)

crew = Crew(
    "build-watch",
    [herald, chronicler],
    entry=chronicler,
    description="Tells people of builds that are done, and keeps a chronicle.",
    signals=[{"name": "[TOLD]", "behavior": "broadcast", "description": "Announces that there was a reaction"}],
    subscriptions={
        herald: [{"pattern": "build:*:done", "silent": False}],
        chronicler: [{"pattern": "build:*:done"}, {"pattern": "build:*:unheard"}],
    },
)
