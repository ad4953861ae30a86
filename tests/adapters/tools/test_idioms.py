"""Tools as the documents of other frameworks have them: each file loads as it is, is described, and is called."""

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.adapters.tools.python_tools import PythonToolbox, as_python_tool
from tests.adapters.tools.tool_runs import play

IDIOMS = Path(__file__).parent / "idioms"
NUMBER = "0f7d9c1e-2b7c-4f7e-9a52-6a1d3c3a0b11"


class Expected(NamedTuple):
    """A tool of a file: its description, properties and required arguments, a call and the text that comes of it."""

    description: str
    properties: dict[str, Any]
    required: list[str]
    given: dict[str, Any]
    told: str


def text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


EXPECTED = {
    ("langchain_style", "search_catalogue"): Expected(
        "Search the catalogue of lamps.",
        {
            "query": text("Words to look for."),
            "limit": {"type": "integer", "default": 3, "description": "How many titles to return."},
        },
        ["query"],
        {"query": "lamp", "limit": 2},
        '["lamp 1","lamp 2"]',
    ),
    ("openai_agents_style", "fetch_weather"): Expected(
        "Fetch the weather at a place.",
        {"location": {"$ref": "#/$defs/Location", "description": "Where to look."}},
        ["location"],
        {"location": {"lat": 52.5, "long": 13.4}},
        "rain at 52.5, 13.4 for ann",
    ),
    ("pydantic_ai_style", "reserve"): Expected(
        "Reserve articles for a customer.",
        {"wishes": {"type": "array", "items": {"$ref": "#/$defs/Wish"}}},
        ["wishes"],
        {"wishes": [{"article": "lamp", "pieces": 2}, {"article": "desk"}]},
        '[{"article":"lamp","left":5},{"article":"desk","left":0}]',
    ),
    ("crewai_style", "discount_calculator"): Expected(
        "Works out a price after a discount.",
        {
            "request": {
                "title": "DiscountInput",
                "description": "The input of the calculator.",
                "type": "object",
                "properties": {
                    "price": {"title": "Price", "type": "number", "description": "The price in euros."},
                    "percent": {
                        "title": "Percent",
                        "type": "number",
                        "description": "The discount, from 0 to 100.",
                        "minimum": 0,
                        "maximum": 100,
                    },
                },
                "required": ["price", "percent"],
            }
        },
        ["request"],
        {"request": {"price": 80, "percent": 25}},
        "60.00 EUR",
    ),
    ("autogen_style", "exchange"): Expected(
        "Currency exchange calculator.",
        {
            "amount": {"type": "number", "description": "Amount in the base currency"},
            "base": {"enum": ["EUR", "USD"], "description": "Base currency", "default": "EUR"},
            "quote": {"enum": ["EUR", "USD"], "description": "Quote currency", "default": "USD"},
        },
        ["amount"],
        {"amount": 4},
        "5.00 USD",
    ),
    ("smolagents_style", "travel_time"): Expected(
        "Gives the travel time between two towns.",
        {
            "start": text("the town to leave from."),
            "goal": text("the town to reach, written as on a map."),
            "by_train": {
                "anyOf": [{"type": "boolean"}, {"type": "null"}],
                "default": None,
                "description": "whether to take the train.",
            },
        },
        ["start", "goal"],
        {"start": "Hue", "goal": "Hanoi", "by_train": True},
        "Hue to Hanoi: 2 h",
    ),
    ("llamaindex_style", "dictionary"): Expected(
        "Explains words of the trade.",
        {"word": text("The word to explain.")},
        ["word"],
        {"word": "lamp"},
        "gives light",
    ),
    ("llamaindex_style", "prices"): Expected(
        "Look up a word.", {"word": text("The word to explain.")}, ["word"], {"word": "lamp"}, "39 euros"
    ),
    ("fastmcp_style", "read_page"): Expected(
        "Read the first words of a page.",
        {
            "url": text("The address of the page.", pattern="^https://"),
            "most": {"type": "integer", "default": 2, "description": "How many words.", "minimum": 1, "maximum": 100},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        ["url"],
        {"url": "https://example.org"},
        '{"url":"https://example.org","words":["one","two"]}',
    ),
    ("semantic_kernel_style", "get_lights"): Expected(
        "Gets a list of lights and their state.", {}, [], {}, '{"1":false,"2":true}'
    ),
    ("semantic_kernel_style", "change_light"): Expected(
        "Changes the state of a light.",
        {"number": {"type": "integer", "description": "The number of the light"}, "is_on": {"type": "boolean"}},
        ["number", "is_on"],
        {"number": 2, "is_on": False},
        "light 2 is off",
    ),
    ("stdlib_style", "book_room"): Expected(
        "Book a room.",
        {
            "booking": text("The number of the booking.", format="uuid"),
            "arrival": text("The first day.", format="date"),
            "nights": {"type": "integer"},
            "rate": {
                "anyOf": [{"type": "number"}, {"type": "string", "format": "decimal"}],
                "description": "The price of a night.",
            },
            "room": {"anyOf": [{"$ref": "#/$defs/Room"}, {"type": "null"}], "default": None},
        },
        ["booking", "arrival", "nights", "rate"],
        {"booking": NUMBER, "arrival": "2026-12-30", "nights": 3, "rate": "40.10", "room": "double"},
        f'["{NUMBER}","2027-01-02","240.60","invoices/r"]',
    ),
}


def toolbox_of(idiom: str) -> PythonToolbox:
    module = import_module(f"tests.adapters.tools.idioms.{idiom}")
    deps = module.Shop(stock={"lamp": 7, "desk": 1}) if idiom == "pydantic_ai_style" else None
    return PythonToolbox(module.TOOLS, deps_for=lambda root: deps if root == "r" else None)


def test_every_file_is_looked_at_and_there_are_ten() -> None:
    files = {file.stem for file in IDIOMS.glob("*_style.py")}
    assert files == {idiom for idiom, _ in EXPECTED}
    assert len(files) == 10
    assert {(idiom, name) for idiom in files for name in toolbox_of(idiom).names} == set(EXPECTED)


@pytest.mark.parametrize(("idiom", "name"), EXPECTED)
async def test_a_tool_is_described_and_called_in_a_run(idiom: str, name: str) -> None:
    expected, toolbox = EXPECTED[idiom, name], toolbox_of(idiom)
    played = await play(toolbox, [[(name, expected.given)]])
    assert played.told == [expected.told]
    (shown,) = [schema for schema in played.model.asked[0].tools if schema.name == name]
    assert shown.description == expected.description
    assert shown.parameters["properties"] == expected.properties
    assert (shown.parameters["required"], shown.parameters["additionalProperties"]) == (expected.required, False)


async def test_a_request_to_try_again_reaches_the_model() -> None:
    wrong, right = {"wishes": [{"article": "moon"}]}, {"wishes": [{"article": "lamp"}]}
    played = await play(toolbox_of("pydantic_ai_style"), [[("reserve", wrong)], [("reserve", right)]])
    assert played.told == [
        "error: call 'reserve' again with other arguments: there is no moon",
        '[{"article":"lamp","left":6}]',
    ]


async def test_what_pydantic_refuses_is_told_in_one_line_with_the_argument() -> None:
    given = {"wishes": [{"article": "lamp", "pieces": 0}, {"article": 7}]}
    (told,) = (await play(toolbox_of("pydantic_ai_style"), [[("reserve", given)]])).told
    assert told == (
        "error: wrong arguments for 'reserve': 0.pieces: Input should be greater than or equal to 1; "
        "1.article: Input should be a valid string - at `$.wishes`"
    )


@pytest.mark.parametrize("idiom", sorted({idiom for idiom, _ in EXPECTED}))
def test_a_declared_tool_can_be_called_as_what_it_is(idiom: str) -> None:
    for entry in import_module(f"tests.adapters.tools.idioms.{idiom}").TOOLS:
        assert callable(entry)
        assert as_python_tool(entry).name


def test_methods_and_functions_that_are_tools_are_called_in_tests_as_before() -> None:
    from tests.adapters.tools.idioms.langchain_style import search_catalogue
    from tests.adapters.tools.idioms.semantic_kernel_style import Lights

    assert search_catalogue("desk", limit=1) == ["desk 1"]
    assert Lights().switch(1, is_on=True) == "light 1 is on"
