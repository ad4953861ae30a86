"""A quiz on a small model that runs on this machine: `interlock model get smollm2`, and no key.

Such a model often forgets its signals, so its replies are constrained to them.
"""

from interlock import END, Agent, Crew, Group, Route

SMALL = "local:smollm2"

answering = Group(
    "student",
    "reporter",
    name="answering",
    timeout_seconds=300,
    description="The student answers while the reporter writes the question down",
)
teacher = Agent(
    "teacher",
    "Ask the student one short question about the sea.",
    name="Teacher",
    model=SMALL,
    on={"[QUESTION]": Route(answering, description="A question was asked")},
)
student = Agent(
    "student",
    "Answer the question in one short sentence.",
    name="Student",
    model=SMALL,
    on={"[ANSWER]": Route("examiner", description="The question was answered")},
)
reporter = Agent(
    "reporter",
    "Say in one short sentence what was asked.",
    name="Reporter",
    model=SMALL,
    on={"[OK]": Route("examiner", description="The entry was made")},
)
examiner = Agent(
    "examiner",
    "Say in one short sentence whether the answer was good.",
    name="Examiner",
    model=SMALL,
    on={
        "[PASSED]": Route(END, description="The answer was good"),
        "[FAILED]": Route(END, description="The answer was not good"),
    },
)

crew = Crew(
    "quiz-local",
    [teacher, student, reporter, examiner],
    description="A teacher asks, a student answers while a reporter keeps the record, an examiner decides.",
    settings={"signal_mode": "constrained", "max_handoffs": 6},
)
