"""How an agent is shown the words of others, written out once for all tests that look at prompts."""


def said(name: str, kind: str, text: str) -> str:
    return f'<said by="{name}" kind="{kind}">\n{text}\n</said>'


def by_user(text: str) -> str:
    return said("user", "input", text)
