"""JupyterLab in a real browser: started on a notebook, its menus used, its pictures kept."""

import os
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, sync_playwright

from course import server
from course.lessons import ROOT, Lesson

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
INSTALL = "there is no Chromium; install it with: sudo apt-get install chromium"
ARTEFACTS = ROOT / "artefacts"
PORTS_APART = 60  # of test processes that run beside each other, so that no two take the same free port
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]

MARKS = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(BROWSER is None and not os.environ.get("CI"), reason=INSTALL),
]


# The time from a slider's move to the new picture on the page, in milliseconds, for each of some moves.
MEASURE = """async ([slider, picture, moves]) => {
  const times = [];
  const redrawn = (most) => new Promise((resolve) => {
    const watch = new MutationObserver(() => (watch.disconnect(), resolve(true)));
    watch.observe(picture, { childList: true });
    setTimeout(() => (watch.disconnect(), resolve(false)), most);
  });
  // What was moved before may still be drawn: taken for the next picture, it would put each measurement one behind.
  while (await redrawn(1000));
  for (let i = 0; i < moves; i++) {
    const drawn = redrawn(10000);
    slider.value = i % 2 ? slider.max : slider.max - 1;
    const began = performance.now();
    slider.dispatchEvent(new Event("input"));
    if (!await drawn) throw new Error(`no new picture in 10 s after ${i} of them`);
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - began);
  }
  return times;
}"""


@contextmanager
def opened(lesson: Lesson, root: Path) -> Iterator[Page]:
    """The lesson's notebook below `root` in a browser; progress is kept in ``root/data``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_DATA", str(root / "data"))
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        patch.setattr(server, "FIRST_PORT", server.FIRST_PORT + PORTS_APART * worker)
        with server.running(lesson, root) as lab, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
            page = browser.new_page(viewport={"width": 1366, "height": 768})
            page.goto(lab.address)
            wait_until_idle(page)
            yield page
            browser.close()


def wait_until_idle(page: Page) -> None:
    """Wait until the kernel rests."""
    page.locator("#jp-main-statusbar").get_by_text("Idle").wait_for(timeout=60_000)


def menu(page: Page, name: str, item: str) -> None:
    """Choose an item of a menu."""
    page.get_by_role("menuitem", name=name, exact=True).click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def restart(page: Page) -> None:
    """Restart the kernel, with a notebook that shows no output."""
    menu(page, "Kernel", "Restart Kernel and Clear Outputs of All Cells…")
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.locator(".jp-OutputArea-child").first.wait_for(state="detached")
    wait_until_idle(page)


def choose_theme(page: Page, theme: str) -> None:
    """``Light`` or ``Dark``."""
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    entries = page.locator(".lm-Menu-itemLabel")  # submenus have no role in JupyterLab 4.6
    entries.get_by_text("Theme", exact=True).click()
    entries.get_by_text(f"JupyterLab {theme}", exact=True).click()
    page.locator(f"body[data-jp-theme-light='{'true' if theme == 'Light' else 'false'}']").wait_for(state="attached")


def keep(target: Page | Locator, name: str) -> None:
    """Keep a picture of it among the artefacts, to be looked at."""
    ARTEFACTS.mkdir(exist_ok=True)
    target.screenshot(path=ARTEFACTS / f"{name}.png")


def drag_median(explorer: Locator, slider: Locator, moves: int = 30) -> float:
    """Milliseconds from a move of the slider, to and fro at its upper end, to the new picture: the median."""
    there = [slider.element_handle(), explorer.locator(".picture").element_handle(), moves]
    return statistics.median(explorer.page.evaluate(MEASURE, there))
