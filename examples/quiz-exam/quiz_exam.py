"""The three-agent quiz of the routing analysis, with the rules of version 1.0: two groups, an ending, limits."""

from interlock import END, Agent, Crew, Group, Route

teacher = Agent(
    "teacher",
    "You are {{name}}, the {{role}}. Ask one question at a time and end with [QUESTION].\n"
    "After three questions say how it went and end with [END_EXAM].\n",
    name="Teacher",
    role="examiner",
    temperature=0,
    on={
        "[QUESTION]": Route(
            Group(
                "student",
                "reporter",
                name="parallel_question",
                timeout_seconds=30,
                description="The student answers while the reporter writes the question down",
            ),
            description="A question was asked",
        ),
        "[END_EXAM]": Route(END, description="The exam is over"),
    },
)
student = Agent(
    "student",
    "Answer the question in one sentence and end with [ANSWER].",
    name="Student",
    on={
        "[ANSWER]": Route(
            Group(
                teacher,
                "reporter",
                name="parallel_answer",
                then=teacher,
                timeout_seconds=30,
                description="The teacher marks while the reporter writes the answer down",
            ),
            description="The question was answered",
        )
    },
)
reporter = Agent(
    "reporter",
    "Write down in one line what was just said and end with [OK].",
    name="Reporter",
    on={"[OK]": Route(description="The entry was made")},  # without a target it is recorded, and leads nowhere
)

crew = Crew(
    "quiz-exam",
    [teacher, student, reporter],
    version="1.0",
    description="A teacher asks, a student answers, a reporter keeps the record.",
    settings={"max_handoffs": 30},
)
