"""JupyterLab in a real browser: started on a notebook, its menus used, its pictures kept."""

import os
import shutil
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
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]

MARKS = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(BROWSER is None and not os.environ.get("CI"), reason=INSTALL),
]


@contextmanager
def opened(lesson: Lesson, root: Path) -> Iterator[Page]:
    """The lesson's notebook below `root` in a browser; progress is kept in ``root/data``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_DATA", str(root / "data"))
        running = server.start(lesson, root)
        try:
            running.wait()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
                page = browser.new_page(viewport={"width": 1366, "height": 768})
                page.goto(running.address)
                wait_until_idle(page)
                yield page
                browser.close()
        finally:
            running.process.terminate()
            running.process.wait()


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
