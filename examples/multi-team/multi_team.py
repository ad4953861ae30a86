"""A coordinator and two teams. Each team is a crew of its own; its last reply is the team's result."""

from interlock import END, Agent, Crew, Route, SubCrew

researcher = Agent(
    "researcher",
    "Write down what is known about the topic, one fact a line, each with where it comes from.\nEnd with [FINDINGS].\n",
    name="Researcher",
    on={"[FINDINGS]": Route("analyst", description="the notes are there")},
)
analyst = Agent(
    "analyst",
    "Weigh the researcher's notes. If a claim that matters has no source, name it and end with [MORE].\n"
    "Otherwise write what can be relied on, shortest form, and end with [DONE].\n",
    name="Analyst",
    on={
        "[MORE]": Route(researcher, description="a claim has no source"),
        "[DONE]": Route(END, description="the analysis is complete"),
    },
)
alpha = Crew(
    "team-alpha",
    [researcher, analyst],
    description="Finds out what is known about a topic, and says how far it can be trusted.",
    settings={"max_handoffs": 6},  # the two may go back and forth three times
)

outliner = Agent(
    "outliner",
    "Put the thoughts of the text in order, in at most four lines, using only the research you were given.\n"
    "End with [OUTLINE].\n",
    name="Outliner",
    on={"[OUTLINE]": Route("writer", description="the order of thoughts is set")},
)
writer = Agent(
    "writer",
    "Write the text along the outline, without a fact that the research does not have. End with [DRAFT].\n",
    name="Writer",
    on={"[DRAFT]": Route("editor", description="there is a text to read")},
)
editor = Agent(
    "editor",
    "Read the draft as a stranger would. If it cannot be published, say what is wrong and end with [REWRITE].\n"
    "Otherwise give the text, corrected, and end with [DONE].\n",
    name="Editor",
    on={
        "[REWRITE]": Route(writer, description="it cannot be published like this"),
        "[DONE]": Route(END, description="the text is good"),
    },
)
beta = Crew(
    "team-beta",
    [outliner, writer, editor],
    description="Turns what is known into a text that can be published.",
    settings={"max_handoffs": 8},
)

coordinator = Agent(
    "coordinator",
    "You are the {{role}}. Two teams work for you; answer in the language of the request.\n"
    "When facts are missing, say what to look for and end with [RESEARCH].\n"
    "When the facts are there and the text is not, end with [WRITE].\n"
    "When the text is there, hand it over as it is and end with [FINAL].\n",
    name="Coordinator",
    role="head of a small editorial office",
    on={
        "[RESEARCH]": SubCrew(alpha, return_to="coordinator"),
        "[WRITE]": SubCrew(
            beta,
            return_to="coordinator",
            input_template="Dựa trên kết quả nghiên cứu sau:\n{{.PreviousResult}}\n\n"
            "Hãy viết content về: {{.OriginalInput}}\n",
        ),
        "[FINAL]": END,
    },
)

crew = Crew(
    "multi-team-orchestrator",
    [coordinator],
    sub_crews={
        "team-alpha": {"crew": alpha, "config_path": "./team-alpha/config"},  # where crew.save() writes it
        "team-beta": {"crew": beta, "config_path": "./team-beta/config"},
    },
)
