"""Hooks of the host in whole runs: they replace, refuse, ask and fail, and a replay calls none of them."""

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from interlock import (
    AlreadyResumed,
    Ask,
    HookCall,
    Interlock,
    Refuse,
    Result,
    RunOutput,
    ToolContext,
    UsageError,
    load_crew,
    tool,
)
from interlock.cli.main import interlock
from interlock.crew.host import Host
from interlock.engine.events import HooksDecided, ModelReplied, ReasoningBlock, RunStarted, ToolRequest
from interlock.errors import AlreadyStarted, HostLacks, InputRefused
from interlock.events import ModelDeltaEvent
from interlock.ports import Delta, ModelReply, ModelRequest
from interlock.runtime.calls import host_hooks
from interlock.testing import ManualClock

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [pay]}]
routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[DONE]"}]}}
"""

SECRET = "canary-7"


class Hook:
    """A hook with the methods that it is given; `seen` is what it was called with."""

    def __init__(self, name: str = "guard", **methods: Any) -> None:
        self.name = name
        self.seen: list[tuple[Any, ...]] = []
        for point, method in methods.items():
            setattr(self, point, self._noting(point, method))

    def _noting(self, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.seen.append((point, *arguments))
            return method(*arguments)

        return call


class Story:
    """A crew of one agent that pays 7, tells what the tool returned, and ends."""

    def __init__(self, folder: Path, *hooks: object, clock: ManualClock | None = None) -> None:
        self.folder, self.hooks, self.clock = folder, hooks, clock
        self.paid: list[int] = []
        self.asked: list[ModelRequest] = []
        (folder / "crew.yaml").write_text(CREW, "utf-8")
        self.crew = load_crew(folder, host=Host(tools=("pay",))).definition

    def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return f"paid {amount} {SECRET}"

    def model(self, request: ModelRequest) -> Any:
        self.asked.append(request)
        if request.messages[-1].role == "tool":
            return f"It said: {request.messages[-1].text}\n[DONE]"
        return ModelReply(text="", tool_calls=(ToolRequest(id="1", name="pay", arguments='{"amount": 7}'),))

    def box(self, **other: Any) -> Interlock:
        given = {"models": self.model, "tools": [self.pay], "hooks": self.hooks, "clock": self.clock, **other}
        return Interlock(self.folder / "data", **given)

    async def play(self, *answers: str) -> Result:
        """Runs it, answering each question in turn; then replays it without hooks, and compares."""
        async with self.box() as box:
            handle = await box.start(self.crew, "begin", run_id="r")
            result = await handle.result()
            for answer in answers:
                assert result.status == "paused", result
                await box.resume("r", answer)
                result = await handle.result()
            calls = [len(getattr(hook, "seen", ())) for hook in self.hooks]
            state = await box.state("r")  # a replay: `JournalDiverged` if it concludes anything else
            assert str(state.status) == result.status
            assert [len(getattr(hook, "seen", ())) for hook in self.hooks] == calls, "a replay calls no hook"
        return result

    async def events(self) -> list[Any]:
        async with self.box() as box:
            return [event for record in await box.journal.records("r") for event in record.events]


def pay_less(call: HookCall) -> dict[str, int]:
    return {"amount": call.arguments["amount"] - 4}


def raise_error(*_arguments: object) -> None:
    raise RuntimeError("no idea")


DONE = ("completed", "signal:[DONE]")


@pytest.mark.parametrize(
    ("methods", "answers", "ending", "text", "paid"),
    [
        ({"before_tool": lambda _: None}, [], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"before_tool": pay_less}, [], DONE, f"It said: paid 3 {SECRET}", [3]),
        ({"before_tool": lambda _: Refuse("too much")}, [], DONE, "hook 'guard' refused: too much", []),
        ({"before_tool": lambda _: Ask("really?")}, ["yes"], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"before_tool": lambda _: Ask("really?")}, ["no: never"], DONE, "a person said no: never", []),
        ({"before_tool": lambda _: Ask("really?")}, ["perhaps", "ok"], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"before_tool": raise_error}, [], DONE, "hook 'guard' failed: RuntimeError: no idea", []),
        ({"after_tool": lambda _, said: said.replace(SECRET, "…")}, [], DONE, "It said: paid 7 …", [7]),
        ({"after_tool": lambda _, said: Refuse("private")}, [], DONE, "withheld: hook 'guard' refused: private", [7]),
        ({"after_tool": lambda _, said: Ask("show it?")}, ["y"], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"after_tool": lambda _, said: Ask("show it?")}, ["no"], DONE, "withheld: a person said no", [7]),
        ({"after_tool": raise_error}, [], DONE, "withheld: hook 'guard' failed", [7]),
        ({"before_model": lambda _: Refuse("closed")}, [], ("failed", "refused:input"), "", []),
        ({"before_model": raise_error}, [], ("failed", "hook_failed"), "", []),
        ({"before_model": lambda _: Ask("call?")}, ["yes", "yes"], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"before_model": lambda _: Ask("call?")}, ["yes", "no"], ("failed", "refused:input"), "", [7]),
        ({"after_model": lambda _, r: r.text.replace(SECRET, "…") or None}, [], DONE, "It said: paid 7 …", [7]),
        ({"after_model": lambda _, r: Refuse("rude") if r.text else None}, [], ("failed", "refused:output"), "", [7]),
        ({"after_model": lambda _, r: Ask("fine?") if r.text else None}, ["yes"], DONE, f"paid 7 {SECRET}", [7]),
        ({"after_model": lambda _, r: Ask("fine?")}, ["no"], ("failed", "refused:output"), "", []),
        ({"after_model": raise_error}, [], ("failed", "hook_failed"), "", []),
        ({"on_input": lambda text: f"{text}!"}, [], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"on_input": lambda _: Refuse("not today")}, [], ("failed", "refused:input"), "", []),
        ({"on_input": lambda _: Ask("let it in?")}, ["yes"], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"on_input": lambda _: Ask("let it in?")}, ["no"], ("failed", "refused:input"), "", []),
        ({"on_input": raise_error}, [], ("failed", "hook_failed"), "", []),
        ({"on_output": lambda result: result.text.replace(SECRET, "…")}, [], DONE, "It said: paid 7 …", [7]),
        ({"on_output": lambda _: Refuse("secret")}, [], ("failed", "refused:output"), "", [7]),
        ({"on_output": lambda _: Ask("hand it out?")}, ["yes"], DONE, f"It said: paid 7 {SECRET}", [7]),
        ({"on_output": lambda _: Ask("hand it out?")}, ["no"], ("failed", "refused:output"), "", [7]),
        ({"on_output": raise_error}, [], ("failed", "hook_failed"), "", [7]),
    ],
)
async def test_a_hook_decides(
    tmp_path: Path,
    methods: dict[str, Any],
    answers: Sequence[str],
    ending: tuple[str, str],
    text: str,
    paid: list[int],
) -> None:
    story = Story(tmp_path, Hook(**methods))
    result = await story.play(*answers)
    assert (result.status, result.reason) == ending
    assert text in result.text if text else result.text == ""
    assert story.paid == paid


@pytest.mark.parametrize(
    ("point", "returned", "fault"),
    [
        ("on_input", 7, "the replacement must be text, not int"),
        ("before_model", "text", "before_model must return a ModelRequest"),
        ("after_model", 7, "after_model must return text, a ModelReply"),
        ("after_model", ModelReply(text=7), "a int for its text"),  # type: ignore[arg-type]
        ("before_tool", [1], "before_tool must return arguments, a call"),
        ("before_tool", {"amount": object()}, "Encoding objects of type object"),
        ("before_tool", {"amount": math.nan}, "NaN and Infinity are not JSON"),
        ("before_tool", {"amount": 3, "more": [{"deep": -math.inf}]}, "NaN and Infinity are not JSON"),
        ("after_tool", b"bytes", "the replacement must be text, not bytes"),
        ("on_output", 7, "on_output must return text, a RunOutput"),
        ("before_tool", Refuse(7), "the reason of Refuse must be text"),  # type: ignore[arg-type]
        ("on_input", Ask(None), "the question of Ask must be text"),  # type: ignore[arg-type]
        ("before_tool", Ask(" "), "the question of Ask is empty"),
        ("on_output", Ask(""), "the question of Ask is empty"),
        ("before_tool", Ask("ok?", math.inf), "deadline_seconds of Ask is inf; it must be a number"),
        ("before_tool", Ask("ok?", math.nan), "deadline_seconds of Ask is nan"),
        ("before_tool", Ask("ok?", 1e300), "deadline_seconds of Ask is 1e+300"),
        ("before_tool", Ask("ok?", -1), "deadline_seconds of Ask is -1"),
        ("before_tool", Ask("ok?", "5"), "deadline_seconds of Ask is '5'"),  # type: ignore[arg-type]
    ],
)
async def test_an_answer_that_cannot_be_used_fails_closed(
    tmp_path: Path, point: str, returned: object, fault: str
) -> None:
    story = Story(tmp_path, Hook(**dict[str, Any]({point: lambda *_: returned})))
    result = await story.play()
    told = f"{result.detail} {result.text}"
    assert fault in told
    assert story.paid == ([7] if point in ("after_tool", "on_output") else [])
    assert (result.reason == "hook_failed") is (point not in ("before_tool", "after_tool"))


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_hook_that_hangs_fails_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    monkeypatch.setattr(host_hooks, "HOOK_SECONDS_MAX", 0.01)
    never = threading.Event()

    class HangsInThread:
        name = "slow"

        def before_tool(self, _call: HookCall) -> None:
            never.wait(60)

    class HangsInLoop:
        name = "slow"

        async def before_tool(self, _call: HookCall) -> None:
            while not never.is_set():  # it does not even stop when it is told to
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

    story = Story(tmp_path, HangsInLoop() if is_async else HangsInThread())
    async with story.box() as box:
        result = await (await box.start(story.crew, "begin")).result()
        assert "hook 'slow' failed: no answer within 0.01 s" in result.text
        never.set()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if "_call_guarded" in repr(task):
                task.cancel()
    assert story.paid == []


async def test_hooks_run_in_order_and_a_later_one_may_still_refuse(tmp_path: Path) -> None:
    first = Hook("first", before_tool=lambda call: {"amount": call.arguments["amount"] + 1})
    second = Hook("second", before_tool=lambda _: Ask("sure?"))
    third = Hook("third", before_tool=lambda call: Refuse("even") if call.arguments["amount"] % 2 == 0 else None)
    story = Story(tmp_path, first, second, third)
    result = await story.play()
    assert "hook 'third' refused: even" in result.text
    assert story.paid == []
    decided = [event for event in await story.events() if isinstance(event, HooksDecided)]
    assert [(each.hook, str(each.outcome)) for each in decided[0].verdict.decisions] == [
        ("first", "replaced"),
        ("second", "asked"),
        ("third", "refused"),
    ]


async def test_a_call_that_a_hook_changes_in_place_is_as_it_was_for_the_next(tmp_path: Path) -> None:
    first = Hook("first", before_tool=lambda call: call.arguments.update(amount=1))
    second = Hook("second", before_tool=lambda call: Refuse("too much") if call.arguments["amount"] > 5 else None)
    story = Story(tmp_path, first, second)
    assert "hook 'second' refused: too much" in (await story.play()).text
    assert story.paid == []


async def test_a_call_has_its_name_arguments_agent_run_and_key(tmp_path: Path) -> None:
    hook = Hook(before_tool=lambda _: None, after_tool=lambda *_: None)
    await Story(tmp_path, hook).play()
    (_, before), (_, after, result) = hook.seen
    assert before == after == HookCall(name="pay", arguments={"amount": 7}, agent="a", run="r", key=before.key)
    assert before.key.startswith("r:") and result == f"paid 7 {SECRET}"


async def test_a_replaced_request_is_what_the_model_gets_and_stays_in_the_journal(tmp_path: Path) -> None:
    story = Story(tmp_path, Hook(before_model=lambda request: msgspec.structs.replace(request, system="Be brief.")))
    await story.play()
    assert [request.system for request in story.asked] == ["Be brief.", "Be brief."]
    decided = [event for event in await story.events() if isinstance(event, HooksDecided)]
    assert all('"system":"Be brief."' in (event.verdict.replacement or "") for event in decided)


async def test_a_request_may_be_changed_in_three_parts_only(tmp_path: Path) -> None:
    story = Story(tmp_path, Hook(before_model=lambda request: msgspec.structs.replace(request, agent="b")))
    result = await story.play()
    assert result.reason == "hook_failed"
    assert "the system text, the messages and the tools" in result.detail


async def test_a_replaced_reply_steers_and_the_original_is_kept_beside_it(tmp_path: Path) -> None:
    story = Story(tmp_path, Hook(after_model=lambda _, reply: "Not that.\n[WAIT]" if reply.text else None))
    result = await story.play()
    assert (result.status, result.reason) == ("paused", "signal:[WAIT]")
    reply = [event for event in await story.events() if isinstance(event, ModelReplied)][-1]
    assert reply.text == "Not that.\n[WAIT]"
    assert reply.original is not None and reply.original.text == f"It said: paid 7 {SECRET}\n[DONE]"


async def test_reasoning_that_a_hook_replaces_is_what_is_kept(tmp_path: Path) -> None:
    thought = (ReasoningBlock(text="nothing to see"),)
    hook = Hook(after_model=lambda _, reply: msgspec.structs.replace(reply, reasoning=thought))
    story = Story(tmp_path, hook)
    async with story.box(models=lambda _: f"<think>{SECRET}</think>\nDone.\n[DONE]") as box:
        assert (await (await box.start(story.crew, "begin", run_id="r")).result()).text == "Done."
    (reply,) = (event for event in await story.events() if isinstance(event, ModelReplied))
    assert hook.seen[0][2].reasoning[0].text == SECRET, "hooks see it"
    assert reply.reasoning == thought
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert SECRET.encode() not in stored


async def test_nothing_of_a_reply_is_shown_before_the_hooks_have_seen_it(tmp_path: Path) -> None:
    is_followed = asyncio.Event()  # pieces are shown to those who follow, and are not stored

    async def model(request: ModelRequest) -> Any:
        await is_followed.wait()
        for piece in ("the word is ", SECRET, "\n[DONE]"):
            yield Delta(piece)
        yield ModelReply(text=f"the word is {SECRET}\n[DONE]")

    class Model:
        reply = staticmethod(model)

    class Redact:
        name, keeps_original = "redact", False

        async def after_model(self, _request: ModelRequest, reply: ModelReply) -> str:
            return reply.text.replace(SECRET, "…")

    story = Story(tmp_path, Redact())
    async with story.box(models=Model()) as box:
        run = await box.start(story.crew, "begin", run_id="r")
        shown = []
        async for event in run.events():
            is_followed.set()
            shown.append(event)
    assert [event.text for event in shown if isinstance(event, ModelDeltaEvent)] == ["the word is …\n[DONE]"]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert SECRET.encode() not in stored and SECRET not in repr(shown)


async def test_a_refused_input_is_not_stored(tmp_path: Path) -> None:
    story = Story(tmp_path, Hook(on_input=lambda _: Refuse("private")))
    async with story.box() as box:
        await (await box.start(story.crew, SECRET, run_id="r")).result()
    (started,) = [event for event in await story.events() if isinstance(event, RunStarted)]
    assert started.input == "" and started.verdict is not None
    assert SECRET not in repr(await story.events())


async def test_words_of_a_person_pass_the_hooks_too(tmp_path: Path) -> None:
    """The answer to a wait becomes somebody's words; a decision, such as yes to a hook, does not."""
    story = Story(tmp_path, Hook(on_input=lambda text: Refuse("rude") if "damn" in text else text.upper()))

    def model(request: ModelRequest) -> str:
        story.asked.append(request)
        return "What else?\n[WAIT]" if len(story.asked) == 1 else "Fine.\n[DONE]"

    async with story.box(models=model) as box:
        run = await box.start(story.crew, "begin", run_id="r")
        await run.result()
        with pytest.raises(InputRefused, match="hook 'guard' refused: rude; the run still waits"):
            await box.resume("r", "damn it")
        await box.resume("r", "thanks")
        assert (await run.result()).status == "completed"
        (token,) = (await box.state("r")).answered
        await box.resume("r", "thanks", token=token)  # the same answer again changes nothing
        with pytest.raises(AlreadyResumed):
            await box.resume("r", "other", token=token)
    assert "BEGIN" in story.asked[0].messages[-1].text
    assert "THANKS" in story.asked[1].messages[-1].text


@pytest.mark.parametrize(
    ("decide", "says"),
    [
        (lambda _: Refuse("rude"), "hook 'guard' refused: rude; the run still waits"),
        (raise_error, "hook 'guard' failed: RuntimeError: no idea; the run still waits"),
        (
            lambda _: Ask("let it in?"),
            "hook 'guard' asks about it ('let it in?'), and no person is asked about an answer; the run still waits",
        ),
    ],
)
async def test_an_answer_that_is_not_taken_says_what_the_hook_did(tmp_path: Path, decide: Any, says: str) -> None:
    guard = Hook(on_input=lambda text: decide(text) if text != "begin" else None)
    story = Story(tmp_path, guard, Hook("later", on_input=lambda text: text.strip()))
    async with story.box(models=lambda _: "What else?\n[WAIT]") as box:
        await (await box.start(story.crew, "begin", run_id="r")).result()
        before = (await box.state("r")).seq
        with pytest.raises(InputRefused) as refused:
            await box.resume("r", "hm")
        assert str(refused.value) == f"the answer to run 'r' is not taken: {says}"
        assert ((await box.state("r")).seq, len(await box.questions())) == (before, 1)


@pytest.mark.parametrize(
    ("decide", "answers", "kept"),
    [
        (lambda _, said: None, [], {"page": 7}),
        (lambda _, said: "nothing", [], {"page": 7}),
        (lambda _, said: Refuse("private"), [], {}),
        (lambda *_: raise_error(), [], {}),
        (lambda _, said: Ask("show it?"), ["yes"], {"page": 7}),
        (lambda _, said: Ask("show it?"), ["no"], {}),
        (lambda _, said: Ask("show it?"), ["perhaps", "yes"], {"page": 7}),
    ],
)
async def test_what_a_tool_wrote_is_seen_only_if_its_result_is(
    tmp_path: Path, decide: Any, answers: list[str], kept: dict[str, int]
) -> None:
    story = Story(tmp_path, Hook(after_tool=decide))

    def pay(amount: int, context: ToolContext) -> str:
        context.memory["page"] = amount
        return "looked"

    async with story.box(tools=[pay]) as box:
        run = await box.start(story.crew, "begin", run_id="r")
        for answer in answers:
            assert (await run.result()).status == "paused"
            assert (await box.state("r")).memory == {}
            await box.resume("r", answer)
        assert (await run.result()).status == "completed"
        assert (await box.state("r")).memory == kept  # a replay


async def test_the_deadline_of_a_question_says_no(tmp_path: Path) -> None:
    clock = ManualClock()
    story = Story(tmp_path, Hook(before_tool=lambda _: Ask("really?", deadline_seconds=60)), clock=clock)
    async with story.box() as box:
        run = await box.start(story.crew, "begin", run_id="r")
        assert (await run.result()).reason == "hook"
        (question,) = await box.questions()
        assert (question.question, question.expects) == ("really?", "yes or no")
        assert question.until - question.since == 60_000
        clock.advance(60_000)
        await _settled(box)
        result = await run.result()
    assert result.status == "completed"
    assert "was not run: no answer to 'really?' within 60 s" in result.text
    assert story.paid == []


async def _settled(box: Interlock) -> None:
    while (await box.journal.row("r")).status == "paused":
        await asyncio.sleep(0)


async def test_a_run_that_waits_for_a_hook_can_be_cancelled_at_its_very_end(tmp_path: Path) -> None:
    story = Story(tmp_path, Hook(on_output=lambda _: Ask("hand it out?")))
    async with story.box() as box:
        run = await box.start(story.crew, "begin", run_id="r")
        assert (await run.result()).status == "paused"
        await box.cancel("r")
        assert (await run.result()).status == "cancelled"


async def test_edited_arguments_of_a_person_pass_the_hooks_again(tmp_path: Path) -> None:
    hook = Hook(before_tool=lambda call: Refuse("too much") if call.arguments["amount"] > 10 else None)
    story = Story(tmp_path, hook)
    async with story.box(tools=[tool(story.pay, needs_approval=True)]) as box:
        run = await box.start(story.crew, "begin", run_id="r")
        assert (await run.result()).reason == "approval"
        await box.resume("r", '{"amount": 11}')
        assert "hook 'guard' refused: too much" in (await run.result()).text
    assert story.paid == []


class NoName:
    def before_tool(self, _call: HookCall) -> None: ...


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ([NoName()], "a hook needs a name: NoName has none"),
        ([Hook()], "hook 'guard' has none of on_input, before_model"),
        ([Hook(on_input=str), Hook(on_input=str)], "two hooks are called 'guard'"),
        ("guard", "hooks must be a list of objects, not str"),
    ],
)
def test_hooks_that_cannot_be_used_are_refused_at_once(tmp_path: Path, hooks: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Interlock(tmp_path / "data", hooks=hooks)


async def test_the_output_of_a_run_is_shown_as_it_would_end(tmp_path: Path) -> None:
    hook = Hook(on_output=lambda _: None)
    await Story(tmp_path, hook).play()
    ((_, output),) = hook.seen
    said = f"It said: paid 7 {SECRET}"
    assert output == RunOutput(
        run="r", status="completed", reason="signal:[DONE]", agent="a", output=f"{said}\n[DONE]", text=said
    )


async def test_the_same_start_again_gives_the_first_run_also_where_a_hook_changed_its_input(tmp_path: Path) -> None:
    story = Story(tmp_path, Hook(on_input=lambda text: text.upper()))
    async with story.box() as box:
        await (await box.start(story.crew, "begin", run_id="r")).result()
        again = await box.start(story.crew, "begin", run_id="r")
        assert (await again.result()).status == "completed"
        with pytest.raises(AlreadyStarted, match="text"):
            await box.start(story.crew, "other", run_id="r")
    assert story.paid == [7]


ASKS = Hook(before_tool=lambda _: Ask("really?"))


async def test_a_run_begun_under_hooks_is_resumed_by_a_host_with_hooks_of_the_same_names(tmp_path: Path) -> None:
    story = Story(tmp_path, ASKS)
    async with story.box() as box:
        assert (await (await box.start(story.crew, "begin", run_id="r")).result()).reason == "hook"
    for hooks in ((), (Hook("other", before_tool=lambda _: None),)):
        async with story.box(hooks=hooks) as box:
            with pytest.raises(HostLacks, match="hook guard"):
                await box.resume("r", "yes")
    assert story.paid == []
    async with story.box(hooks=(Hook("more", on_input=str), Hook(before_tool=raise_error))) as box:
        await box.resume("r", "yes")  # what was decided is not asked again
        assert (await box.run("r").result()).status == "completed"
    assert story.paid == [7]


async def test_a_run_begun_under_hooks_is_set_aside_by_recovery_without_them(tmp_path: Path) -> None:
    story, began, never = Story(tmp_path, Hook(before_tool=lambda _: None)), asyncio.Event(), asyncio.Event()

    async def hang(_request: ModelRequest) -> str:
        began.set()
        await never.wait()
        return ""

    async with story.box(models=hang) as box:
        await box.start(story.crew, "begin", run_id="r")
        await began.wait()
    async with story.box(hooks=(), recover=True) as box:
        assert [each.run for each in box.set_aside if "hook guard" in each.reason] == ["r"]
        assert story.asked == []
        assert (await box.result("r")).reason == "set_aside"
        with pytest.raises(HostLacks, match="hook guard"):
            await box.resume("r")
    async with story.box() as box:
        assert (await (await box.resume("r")).result()).status == "completed"
    assert story.paid == [7]


def test_the_command_refuses_to_resume_a_run_that_needs_hooks(tmp_path: Path) -> None:
    story = Story(tmp_path, ASKS)

    async def begin() -> None:
        async with story.box() as box:
            await (await box.start(story.crew, "begin", run_id="r")).result()

    asyncio.run(begin())
    words = ["resume", "r", "--data", str(tmp_path / "data"), "--input", "yes"]
    told = CliRunner().invoke(interlock, words)
    assert told.exit_code == 2
    assert "hook guard" in told.output
    assert story.paid == []
