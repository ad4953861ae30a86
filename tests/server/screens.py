"""Takes the pictures of docs/screens: `python -m tests.server.screens`. Somebody has to look at them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "docs" / "screens"
TEMPLATES = ROOT / "src" / "interlock" / "templates"
INPUT = "The lamp that I bought does not shine, order A-17"
PATIENCE_MS = 60_000


def main(chromium: str = "/usr/bin/chromium") -> None:
    SHOTS.mkdir(exist_ok=True)
    with TemporaryDirectory() as data, _serving(Path(data)) as opening, sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 760})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(opening)
        _play(page)
        _look_around(page, opening.partition("#")[0])
        browser.close()


def _play(page: Page) -> None:
    for _ in range(2):
        page.goto(page.url.partition("#")[0] + "#/runs")
        page.get_by_label("Input").fill(INPUT)
        page.get_by_role("button", name="Start a run").click()
        page.get_by_role("dialog").get_by_text("Shall I pay?").wait_for()
        page.get_by_label("Your answer").fill("Yes, it was our fault.")
        _shoot(page, "question")
        page.get_by_role("button", name="Answer", exact=True).click()
        page.get_by_text("Correct, and cold").wait_for()
        page.locator(".node.is-active", has_text="letters").wait_for()
        _shoot(page, "run")
        page.locator(".run-head .badge-completed").wait_for()
    for tab in ("Timeline", "Events", "Decisions"):
        page.get_by_role("tab", name=tab).click()
        page.locator(".panel > *").first.wait_for()
        page.get_by_text("Loading").wait_for(state="detached")
        _shoot(page, f"run-{tab.lower()}")


def _look_around(page: Page, address: str) -> None:
    page.goto(f"{address}#/runs")
    page.get_by_label("Input").fill(INPUT)
    page.get_by_role("button", name="Start a run").click()
    page.get_by_role("dialog").get_by_role("button", name="Later").click()
    _announce(page, address)
    for place in ("runs", "questions", "crews", "crews/returns", "broadcasts", "usage"):
        _go(page, address, place)
        _shoot(page, place.replace("crews/returns", "crew"))
    page.emulate_media(color_scheme="dark")
    _go(page, address, "crews/broken")
    _shoot(page, "crew-problems-dark")
    page.set_viewport_size({"width": 360, "height": 740})
    _go(page, address, "runs")
    _shoot(page, "runs-360-dark")
    page.emulate_media(color_scheme="light")
    page.locator("a.run-row").last.click()
    page.locator(".node").first.wait_for()
    _shoot(page, "run-360")


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
        page.get_by_role("button", name="Announce").click()
        page.get_by_text(kind).first.wait_for()
    page.get_by_label("Pattern to hear").fill("stock:*:low")
    page.get_by_role("button", name="Subscribe").click()
    page.get_by_role("cell", name="stock:*:low").wait_for()


def _go(page: Page, address: str, place: str) -> None:
    page.goto(f"{address}#/{place}")
    page.get_by_text("Loading").first.wait_for(state="detached")
    page.locator("#content > *").first.wait_for()


def _shoot(page: Page, name: str) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.screenshot(path=SHOTS / f"{name}.png", animations="disabled")


@contextmanager
def _serving(data: Path) -> Iterator[str]:
    command = [str(Path(sys.executable).parent / "interlock"), "serve"]
    command += [str(TEMPLATES / name) for name in ("returns", "hello", "broken")]
    command += ["--script", str(TEMPLATES / "returns" / "script.yaml"), "--data", str(data), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None, "it is piped"
        lines = [process.stdout.readline() for _ in range(3)]
        try:
            yield lines[1].split()[1]
        finally:
            process.kill()


if __name__ == "__main__":
    main()
