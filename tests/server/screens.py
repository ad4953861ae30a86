"""Takes the pictures of docs/screens: `python -m tests.server.screens`. A person has to look at them.

With a folder, `python -m tests.server.screens /tmp/looks`, every screen is taken there in all four looks.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import Page

from interlock import Interlock, load_crew
from interlock.adapters.clock import SystemClock
from interlock.engine.events import Usage
from interlock.ports import ModelReply, ModelRequest
from tests.findings.asking_crews import TOML, crew_text, script, write_crews
from tests.server.browser import looking, open_question, sign_in, start_run, status_of
from tests.server.burying import bury
from tests.server.process import PATIENT, Served, serving
from tests.server.receiving import SECRET, SECRET_VALUE, receiving

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "docs" / "screens"
TEMPLATES = ROOT / "src" / "interlock" / "templates"
INPUT = "The lamp that I bought does not shine, order A-17"
DAY_MS = 86_400_000
SCREENS = {
    "runs": "runs",
    "questions": "questions",
    "crews": "crews",
    "crew": "crews/returns",
    "crew-problems": "crews/broken",
    "broadcasts": "broadcasts",
    "usage": "usage",
    "nowhere": "nowhere",
}


@dataclass(frozen=True)
class Look:
    """How wide the window is, and whether it is dark."""

    width: int
    height: int
    scheme: Literal["light", "dark"]


LOOKS = {
    "": Look(1600, 900, "light"),
    "-360-dark": Look(360, 740, "dark"),
    "-dark": Look(1600, 900, "dark"),
    "-360": Look(360, 740, "light"),
}


def main(folder: Path, looks: Mapping[str, Look]) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    with TemporaryDirectory() as data, _serving(Path(data)) as server, looking(server, width=1600) as look:
        page = look.tab("#code=wrong")
        page.set_default_timeout(60_000)
        page.get_by_label("Key").wait_for()
        for name in looks:
            _wear(page, looks[name])
            _shoot(page, folder / f"door{name}.png")
        page.goto(f"{server.address}/#/runs")
        page.get_by_label("Key").fill(server.key)
        page.get_by_role("button", name="Sign in").click()
        _wear(page, LOOKS[""])
        run = _played(page, server.address, folder)
        _announce(page, server.address)
        for name, each in looks.items():
            _wear(page, each)
            _look_around(page, server.address, run, folder, name)
    _shoot_forms(folder, looks)


def _shoot_forms(folder: Path, looks: Mapping[str, Look]) -> None:
    """A form, and an approval that was edited."""
    with TemporaryDirectory() as scratch:
        others = write_crews(Path(scratch))
        with (
            serving(Path(scratch), *others, script=script(), toml=TOML, crew=crew_text("words")) as server,
            looking(server) as look,
        ):
            page = look.tab()
            sign_in(page, server.key)
            page.get_by_text("live", exact=True).wait_for()
            for crew in ("forms", "approvals"):
                page.get_by_label("Crew").first.select_option(crew)
                start_run(page, "Two nights in Roma")
                drawer = open_question(page)
                page.locator(".background .said").first.wait_for()
                if crew == "approvals":
                    drawer.get_by_label("amount").fill("12")
                for name, each in looks.items():
                    _wear(page, each)
                    _shoot(page, folder / f"{crew.removesuffix('s')}{name}.png", is_whole=False)
                drawer.get_by_role("button", name="Decide later").click()
                _go(page, server.address, "runs")


def _wear(page: Page, look: Look) -> None:
    page.emulate_media(color_scheme=look.scheme)
    page.set_viewport_size({"width": look.width, "height": look.height})


def _played(page: Page, address: str, folder: Path) -> str:
    """A run that is over, with a picture of it while it moved; and one that waits."""
    _go(page, address, "runs")
    run = start_run(page, INPUT)
    open_question(page).get_by_text("Shall I pay?").first.wait_for()
    page.get_by_label("Your answer").fill("Yes, it was our fault.")
    page.get_by_role("button", name="Send answer").click()
    page.get_by_text("Correct, and cold").first.wait_for()
    page.locator(".node.is-active", has_text="letters").wait_for()
    _shoot(page, folder / "run-live.png")
    status_of(page, "completed")
    _go(page, address, "runs")
    start_run(page, INPUT)
    page.locator(".notice").get_by_role("button", name="Dismiss").click()
    return run


def _announce(page: Page, address: str) -> None:
    _go(page, address, "broadcasts")
    for kind, data, seconds in (
        ("build:lamp:done", '{"ok": true}', ""),
        ("stock:lamp:low", "three left", ""),
        ("report:due", "", "3600"),
    ):
        page.get_by_label("Type").fill(kind)
        page.get_by_label("Data").fill(data)
        page.get_by_label("In seconds").fill(seconds)
        page.get_by_role("button", name="Schedule" if seconds else "Emit").click()
        page.get_by_text(kind).first.wait_for()


def _look_around(page: Page, address: str, run: str, folder: Path, name: str) -> None:
    for screen, place in SCREENS.items():
        _go(page, address, place)
        if screen == "usage":
            page.get_by_role("combobox", name="By").select_option("agent")
            page.locator(".u-legend", has_text="hello › writer").wait_for()
        _shoot(page, folder / f"{screen}{name}.png")
    _go(page, address, f"runs/{run}")
    page.locator(".node").first.wait_for()
    for tab in ("Timeline", "Events", "Decisions", "Transcript"):
        page.get_by_role("tab", name=tab).click()
        page.get_by_text("Loading").wait_for(state="detached")
        page.locator(".run-columns").evaluate("(columns) => columns.scrollIntoView()")
        _shoot(page, folder / f"run-{tab.lower()}{name}.png", is_whole=False)
    _go(page, address, "questions")
    page.get_by_role("button", name="Answer", exact=True).click()
    page.locator(".background .said").first.wait_for()
    _shoot(page, folder / f"question{name}.png", is_whole=False)
    page.get_by_role("button", name="Decide later").click()


def _go(page: Page, address: str, place: str) -> None:
    page.goto(f"{address}/#/{place}")
    page.locator("#content > *").first.wait_for()
    page.get_by_text("Loading").first.wait_for(state="detached")


def _shoot(page: Page, file: Path, *, is_whole: bool = True) -> None:
    """The whole page from its top, or what is in the window: what is far outside is not drawn."""
    if is_whole:
        page.evaluate("scrollTo(0, 0)")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.screenshot(path=file, animations="disabled", full_page=is_whole)


class Earlier(SystemClock):
    """The machine's clock, some days ago."""

    def __init__(self, days: int) -> None:
        self._ms = days * DAY_MS

    def now_ms(self) -> int:
        return super().now_ms() - self._ms


async def _write(request: ModelRequest) -> ModelReply:
    mark = "[DRAFT]" if request.agent == "writer" else "[DONE]"
    size = len(request.messages[-1].text)
    used = Usage(calls=1, input_tokens=100 * size, output_tokens=7 * size, cost_micros=90 * size)
    return ModelReply(text=f"The harbour sleeps.\n{mark}", usage=used)


async def _lived(data: Path) -> None:
    """A week of runs, more on some days than on others."""
    for days in reversed(range(7)):
        async with Interlock(data, models=_write, clock=Earlier(days)) as box:
            for n in range(1 + days * 3 % 4):
                await (await box.start(load_crew(TEMPLATES / "hello"), "a harbour at night " * (n + 1))).result()


@contextmanager
def _serving(folder: Path) -> Iterator[Served]:
    asyncio.run(_lived(folder / "data"))
    bury(folder, "hello", "writer")
    os.environ[SECRET] = SECRET_VALUE
    shutil.copytree(TEMPLATES / "returns", folder, dirs_exist_ok=True)
    crew, script = ((folder / name).read_text("utf-8") for name in ("crew.yaml", "script.yaml"))
    others = [str(TEMPLATES / name) for name in ("hello", "broken")]
    with receiving(410) as receiver:
        toml = PATIENT + receiver.as_toml("run.finished")
        with serving(folder, *others, script=script, toml=toml, crew=crew) as server:
            yield server


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]), LOOKS)
    else:
        main(SHOTS, {name: LOOKS[name] for name in ("", "-360-dark")})
