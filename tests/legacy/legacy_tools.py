"""The tools that the old crews name, by the names that they give them."""


def GetQuizStatus() -> str:  # noqa: N802
    """How many questions are left."""
    return "questions_remaining: 1"


def RecordAnswer(question: str, student_answer: str, is_correct: bool) -> str:  # noqa: N802
    """Note an answer and whether it was right."""
    return f"recorded {question!r}: {student_answer!r} is {'right' if is_correct else 'wrong'}"


def WriteExamReport(text: str) -> str:  # noqa: N802
    """Write the report of an exam."""
    return f"report of {len(text)} characters"


def GetDiskSpace(path: str) -> str:  # noqa: N802
    """How full a disk is."""
    return f"{path}: 97 % used"


def PingHost(host: str) -> str:  # noqa: N802
    """Whether a host answers."""
    return f"{host} answers"
