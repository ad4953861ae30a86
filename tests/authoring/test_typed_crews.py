"""Outputs as types: each kind of type becomes a schema, is proven like one in a file, and comes back as a value."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator

from interlock import END, Agent, Crew, Interlock, Pause, Route, SubCrew, UnsoundCrew, UsageError
from interlock.crew.problem import Severity
from interlock.engine.events import ModelReplied, Nudged, OutputVerdict
from interlock.errors import HostLacks
from interlock.testing import ScriptedModel
from tests.adapters.value_types.types_to_try import Even


class Refund(msgspec.Struct):
    order: str
    amount: float
    note: str | None = None


@dataclass
class Parcel:
    order: str
    amount: float


class Letter(TypedDict):
    order: str
    amount: float


class Payment(BaseModel):
    order: str
    amount: float

    @field_validator("amount")
    @classmethod
    def require_small(cls, amount: float) -> float:
        if amount > 100:
            raise ValueError("too much")
        return amount


@dataclass
class Limited:
    count: int

    def __post_init__(self) -> None:
        if self.count > 9:
            raise ValueError("more than nine")


class Refusing(msgspec.Struct):
    count: int

    def __post_init__(self) -> None:
        if self.count > 9:
            raise ValueError("more than nine")


class Coded(msgspec.Struct):
    """Python's `$` takes a line break at the end, that of JSON Schema does not; both must."""

    code: Annotated[str, msgspec.Meta(pattern="^[A-Z]$")]


class Small(BaseModel):
    amount: Annotated[float, AfterValidator(Payment.require_small)]


class Cart(msgspec.Struct):
    small: Small


@dataclass
class Basket:
    payments: list[Payment]


class Bundle(TypedDict):
    payments: list[Payment]


class Account(BaseModel):
    parcels: list[Parcel]
    letter: Parcel | None = None


SAID = '{"order": "A-17", "amount": 24.5}'


def a_crew(output: Any) -> Crew[Any]:
    return Crew("desk", [Agent("clerk", "Pay.", on={"[DONE]": END})], output=output)


async def value_of(crew: Crew[Any], folder: Path, said: str) -> Any:
    async with Interlock(folder, models=ScriptedModel({"clerk": [f"{said}\n[DONE]"] * 3})) as box:
        run = await box.start(crew, "My lamp never came")
        return crew.as_typed_result(await run.result()).value


@pytest.mark.parametrize(
    ("output", "said", "value"),
    [
        (Refund, SAID, Refund("A-17", 24.5)),
        (Parcel, SAID, Parcel("A-17", 24.5)),
        (Letter, SAID, {"order": "A-17", "amount": 24.5}),
        (Payment, SAID, Payment(order="A-17", amount=24.5)),
        (list[Payment], f"[{SAID}]", [Payment(order="A-17", amount=24.5)]),
        (Payment | None, SAID, Payment(order="A-17", amount=24.5)),
        (Payment | None, "null", None),
        (dict[str, Payment], f'{{"a": {SAID}}}', {"a": Payment(order="A-17", amount=24.5)}),
        (Basket, f'{{"payments": [{SAID}]}}', Basket([Payment(order="A-17", amount=24.5)])),
        (Bundle, f'{{"payments": [{SAID}]}}', {"payments": [Payment(order="A-17", amount=24.5)]}),
        (Account, f'{{"parcels": [{SAID}]}}', Account(parcels=[Parcel("A-17", 24.5)])),
        (list[Refund | Payment], f"[{SAID}]", [Refund("A-17", 24.5)]),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int, "24", 24),
        ({"type": "string"}, '"text"', "text"),
    ],
    ids=str,
)
async def test_a_value_comes_back_as_its_type(tmp_path: Path, output: Any, said: str, value: Any) -> None:
    assert await value_of(a_crew(output), tmp_path, said) == value


@pytest.mark.parametrize(
    ("output", "wrong", "right", "fault"),
    [
        (Payment, '{"order": "A", "amount": 240}', '{"order": "A", "amount": 24}', "too much"),
        (list[Payment], '[{"order": "A", "amount": 240}]', "[]", "too much"),
        (Payment | None, '{"order": "A", "amount": 240}', "null", "too much"),
        (dict[str, Payment], '{"k": {"order": "A", "amount": 240}}', "{}", "too much"),
        (Even, '{"count": 3}', '{"count": 2}', "it is odd"),
        (Limited, '{"count": 10}', '{"count": 9}', "more than nine"),
        (Refusing, '{"count": 10}', '{"count": 9}', "more than nine"),
        (Coded, '{"code": "A\\n"}', '{"code": "A"}', ""),
        (Cart, '{"small": {"amount": 240}}', '{"small": {"amount": 24}}', "too much"),
        (datetime.date, '"0000-01-01"', '"2026-11-18"', ""),
    ],
    ids=str,
)
async def test_a_value_that_the_type_refuses_is_told_to_the_model_and_never_reaches_the_caller(
    tmp_path: Path, output: Any, wrong: str, right: str, fault: str
) -> None:
    crew, model = a_crew(output), ScriptedModel({"clerk": [f"{wrong}\n[DONE]", f"{right}\n[DONE]"]})
    async with Interlock(tmp_path, models=model) as box:
        result = crew.as_typed_result(await (await box.start(crew, "My lamp never came", run_id="r")).result())
        events = [event for record in await box.journal.records("r") for event in record.events]
        assert (result.status, result.value) == (
            "completed",
            a_crew(output).as_typed_result(await box.result("r")).value,
        )
    (nudged,) = (event for event in events if isinstance(event, Nudged))
    assert nudged.because == "invalid_output" and nudged.fault and fault in nudged.fault
    verdicts = [event.output for event in events if isinstance(event, ModelReplied)]
    assert verdicts == [OutputVerdict(fault=nudged.fault), OutputVerdict()]
    assert nudged.fault in model.asked[1].messages[-1].text


async def test_a_type_that_refuses_everything_fails_the_run_without_a_value(tmp_path: Path) -> None:
    crew = a_crew(Payment)
    async with Interlock(
        tmp_path, models=ScriptedModel({"clerk": ['{"order": "A", "amount": 240}\n[DONE]'] * 3})
    ) as box:
        result = crew.as_typed_result(await (await box.start(crew, "hello")).result())
    assert (result.status, result.reason, result.value) == ("failed", "invalid_output", None)
    assert "too much" in result.detail


async def test_a_replay_never_calls_a_validator_again(tmp_path: Path) -> None:
    calls: list[int] = []

    class Counted(BaseModel):
        count: int

        @field_validator("count")
        @classmethod
        def note(cls, count: int) -> int:
            calls.append(count)
            return count

    crew = a_crew(Counted)
    async with Interlock(tmp_path, models=ScriptedModel({"clerk": ['{"count": 1}\n[DONE]']})) as box:
        await (await box.start(crew, "hello", run_id="r")).result()
        assert calls == [1]
        before = await box.state("r")
        assert await box.state("r") == before and (await box.result("r")).value == {"count": 1}
    async with Interlock(tmp_path) as box:
        assert (await box.state("r")).value == {"count": 1}
    assert calls == [1]


async def test_the_type_of_an_agent_counts_for_its_value_and_that_of_the_crew_for_the_end(tmp_path: Path) -> None:
    """Both have the same schema, so that the check cannot tell them apart."""

    class Count(BaseModel):
        count: int

    class Few(Count):
        model_config = ConfigDict(title="Count")

        @field_validator("count")
        @classmethod
        def require_few(cls, count: int) -> int:
            if count > 9:
                raise ValueError("the crew takes less")
            return count

    clerk = Agent("clerk", "Count.", output=Count, on={"[MORE]": "helper", "[DONE]": END})
    helper = Agent("helper", "Help.", on={"[BACK]": "clerk"})
    crew = Crew("desk", [clerk, helper], output=Few)
    said = ['{"count": 20}\n[MORE]', '{"count": 20}\n[DONE]', '{"count": 2}\n[DONE]']
    async with Interlock(tmp_path, models=ScriptedModel({"clerk": said, "helper": ["fewer [BACK]"]})) as box:
        result = crew.as_typed_result(await (await box.start(crew, "hello", run_id="r")).result())
        events = [event for record in await box.journal.records("r") for event in record.events]
    assert result.value == Few(count=2)
    verdicts = [event.output for event in events if isinstance(event, ModelReplied) and event.agent == "clerk"]
    late = OutputVerdict(at_end="count: Value error, the crew takes less")
    assert verdicts == [late, late, OutputVerdict()]
    assert [event.fault for event in events if isinstance(event, Nudged)] == [late.at_end]


async def test_types_of_sub_crews_and_of_agents_alone_are_asked_too(tmp_path: Path) -> None:
    payments = Crew("payments", [Agent("cashier", "Pay.", is_terminal=True)], output=Payment)
    clerk = Agent("clerk", "Help.", on={"[PAY]": SubCrew(payments, return_to="clerk", output=Payment), "[DONE]": END})
    desk = Crew("desk", [clerk])
    bad, good = '{"order": "A", "amount": 240}', '{"order": "A", "amount": 24}'
    script = {"clerk": ["[PAY]", "thanks [DONE]"], "payments/cashier": [bad, good]}
    async with Interlock(tmp_path / "tree", models=ScriptedModel(script)) as box:
        assert (await (await box.start(desk, "hello", run_id="r")).result()).status == "completed"
        state = await box.state("r")
        assert state.needs.outputs == ("payments",) and state.results["payments"] == good
    alone = Agent("cashier", "Pay.", output=Payment, is_terminal=True)
    result = await alone.run("hello", data=tmp_path / "alone", models=ScriptedModel({"cashier": [bad, good]}))
    assert result.value == Payment(order="A", amount=24)


async def test_a_run_whose_type_demands_more_is_driven_only_where_the_type_is_given(tmp_path: Path) -> None:
    with_pause = Agent("clerk", "Pay.", on={"[WAIT]": Pause(), "[DONE]": END})
    crew, plain = (Crew("desk", [with_pause], output=each) for each in (Payment, Refund))
    script = {"clerk": ["[WAIT]", '{"order": "A", "amount": 240}\n[DONE]', f"{SAID}\n[DONE]"]}
    async with Interlock(tmp_path, models=ScriptedModel(script)) as box:
        for name, each in (("demanding", crew), ("plain", plain)):
            assert (await (await box.start(each, "hello", run_id=name)).result()).status == "paused"
        assert (await box.state("demanding")).needs.outputs == ("desk",)
        assert (await box.state("plain")).needs.outputs == ()
    async with Interlock(tmp_path, models=ScriptedModel(script)) as box:
        with pytest.raises(HostLacks, match="output type of desk") as lacks:
            await box.resume("demanding", "go on")
        assert "--crew" in str(lacks.value) and (await box.journal.row("demanding")).status == "paused"
        await box.listen(crew)
        result = crew.as_typed_result(await (await box.resume("demanding", "go on")).result())
        assert result.value == Payment(order="A-17", amount=24.5)
    async with Interlock(tmp_path, models=ScriptedModel({"clerk": ["[WAIT]", f"{SAID}\n[DONE]"]})) as box:
        result = plain.as_typed_result(await (await box.resume("plain", "go on")).result())
        assert result.value == Refund("A-17", 24.5), "its schema says all that the type demands"


async def test_a_value_of_another_crew_is_refused_when_it_is_read(tmp_path: Path) -> None:
    async with Interlock(tmp_path, models=ScriptedModel({"clerk": ["24\n[DONE]"]})) as box:
        result = await (await box.start(a_crew(int), "hello", run_id="r")).result()
    with pytest.raises(UsageError, match="the value of run 'r' is not a Refund"):
        a_crew(Refund).as_typed_result(result)


def test_two_crews_of_one_name_with_different_types_are_a_problem() -> None:
    one = Crew("letters", [Agent("x", "Write.", is_terminal=True)], output=Payment)
    other = Crew("letters", [Agent("y", "Write.", is_terminal=True)], output=Refund)
    on = {"[ONE]": SubCrew(one, return_to="clerk"), "[TWO]": SubCrew(other, name="more", return_to="clerk")}
    with pytest.raises(UnsoundCrew, match="two crews called 'letters' have outputs of different types"):
        Crew("desk", [Agent("clerk", "Help.", on={**on, "[DONE]": END})])


def test_a_sub_crew_that_does_not_give_what_is_expected_is_a_problem_with_its_line() -> None:
    letters = Crew("letters", [Agent("x", "Write.", is_terminal=True)], output=Refund)
    with pytest.raises(UnsoundCrew, match="the output of sub-crew 'letters' is not what this crew expects") as refused:
        call = SubCrew(letters, return_to="clerk", output=list[str])
        Crew("desk", [Agent("clerk", "Help.", on={"[LETTER]": call, "[DONE]": END})])
    (problem,) = (each for each in refused.value.problems if each.severity is Severity.ERROR)
    assert problem.file == __file__ and problem.path == "sub_crews.letters.output"
    again = {"[A]": SubCrew(letters, return_to="clerk", output=Refund), "[B]": SubCrew(letters, "clerk", output=int)}
    with pytest.raises(UnsoundCrew, match="the sub-crew 'letters' has another output in line"):
        Crew("desk", [Agent("clerk", "Help.", on={**again, "[DONE]": END})])


def test_a_type_without_a_schema_is_a_problem_with_its_line() -> None:
    with pytest.raises(UnsoundCrew) as refused:
        a_crew(complex)
    (problem,) = (each for each in refused.value.problems if each.severity is Severity.ERROR)
    assert (problem.code, problem.path) == ("bad-value", "output") and problem.file == __file__ and problem.line > 1


def test_an_output_that_a_route_does_not_take_is_a_problem() -> None:
    cashier = Agent("cashier", "Pay.", is_terminal=True)
    clerk = Agent("clerk", "Help.", output=Refund, on={"[PAY]": Route(cashier, takes=Parcel)})
    assert Crew("desk", [clerk, cashier]).definition.routes["clerk"][0].takes is not msgspec.UNSET
    wrong = Agent("clerk", "Help.", output=list[str], on={"[PAY]": Route(cashier, takes=Refund)})
    with pytest.raises(UnsoundCrew, match="does not take the output of agent 'clerk'"):
        Crew("desk", [wrong, cashier])


def test_a_typed_crew_is_written_with_its_schema(tmp_path: Path) -> None:
    a_crew(Refund).save(tmp_path / "desk")
    assert Crew.from_yaml(tmp_path / "desk").definition.output == a_crew(Refund).definition.output


def test_a_schema_in_a_file_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nentry_point: a\noutput: s.json\nagents: [{id: a, is_terminal: true}]\n'
    )
    (tmp_path / "s.json").write_text('{"type": "integer"}')
    text = Crew.from_yaml(tmp_path).to_yaml()
    assert "s.json" not in text and "integer" in text
