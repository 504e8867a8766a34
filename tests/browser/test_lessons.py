"""Every lesson as a learner meets it: run, every prediction typed, every slider moved, and all of it looked at."""

import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page

from course.lessons import ROOT, Lesson, lessons
from tests.browser import lab

pytestmark = [*lab.MARKS, pytest.mark.timeout(400)]
LONGEST = 15_000  # pixels that Chromium can take in one picture
NARROW, WIDE = 800, 1366


class Opened(NamedTuple):
    """A lesson that was opened and run."""

    lesson: Lesson
    page: Page


@pytest.fixture(scope="module", params=lessons(), ids=lambda lesson: lesson.name)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Each lesson in turn: a copy, so that running it leaves the checkout clean."""
    lesson: Lesson = request.param
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    with lab.opened(lesson, root) as page:
        page.keyboard.press("Control+b")  # the list of files away: narrow is then the notebook
        lab.menu(page, "Run", "Run All Cells")
        page.locator(".course-home table").wait_for(timeout=150_000)
        lab.wait_until_idle(page)
        yield Opened(lesson, page)


def whole(page: Page, name: str, width: int) -> None:
    """Keep a picture of the whole lesson, in as many parts as it takes."""
    page.set_viewport_size({"width": width, "height": LONGEST})
    cells = page.locator(".jp-Notebook .jp-Cell")
    cells.first.scroll_into_view_if_needed()
    ends = [
        cells.first.evaluate("e => e.getBoundingClientRect().top"),
        cells.last.evaluate("e => e.getBoundingClientRect().bottom"),
    ]
    page.set_viewport_size({"width": width, "height": min(LONGEST, int(ends[1] - ends[0]) + 160)})
    cells.first.scroll_into_view_if_needed()
    lab.keep(page, f"{name}-{width}")
    page.set_viewport_size({"width": WIDE, "height": 768})


def too_wide(page: Page) -> list[str]:
    """What a learner would have to scroll sideways to see."""
    wide = "e => e.scrollWidth > e.clientWidth + 1 ? e.innerText.slice(0, 80) || e.className : ''"
    parts = page.locator(".course, .jp-OutputArea-output.jp-RenderedSVG, .jp-RenderedMarkdown").all()
    return [text for part in parts if (text := part.evaluate(wide))]


def put(slider: Locator, to: str) -> None:
    """To ``min``, ``max``, or ``middle``; give it time to be drawn, whether that shows anything else or not."""
    place = "Math.floor((+e.min + +e.max) / 2)" if to == "middle" else f"e.{to}"
    slider.evaluate(f"e => {{ e.value = {place}; e.dispatchEvent(new Event('input')); }}")
    slider.page.wait_for_timeout(500)


def move(explorer: Locator, slider: Locator) -> None:
    """From its lower end to its upper: what is shown is another. Then to the middle."""
    put(slider, "min")
    before = explorer.locator(".picture, .facts").evaluate_all("all => all.map(e => e.innerHTML).join()")
    put(slider, "max")
    explorer.page.wait_for_function(
        "([e, before]) => [...e.querySelectorAll('.picture, .facts')].map(x => x.innerHTML).join() !== before",
        arg=[explorer.element_handle(), before],
        timeout=15_000,
    )
    put(slider, "middle")


def test_a_lesson_runs_is_answered_moved_and_fits(opened: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    lesson, page = opened
    errors = page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr'], .jp-OutputArea-error")
    assert errors.all_inner_texts() == []
    predictions = page.locator(".course-predict").all()
    assert predictions
    for prediction in predictions:
        prediction.get_by_role("textbox").fill("2")
        prediction.get_by_role("button").click()
        prediction.locator("[role=status] p").first.wait_for()
        assert prediction.locator(".notice").count() == 0
    for n, explorer in enumerate(page.locator(".course-explorer").all()):
        explorer.scroll_into_view_if_needed()
        lab.keep(explorer, f"{lesson.name}-explorer-{n}")
        sliders = explorer.get_by_role("slider").all()
        for slider in sliders:
            put(slider, "middle")  # at an end one slider may leave another nothing to change
        for slider in sliders:
            move(explorer, slider)
        for slider in sliders:
            put(slider, "max")
        lab.keep(explorer, f"{lesson.name}-explorer-{n}-most")
        with capsys.disabled():
            median = lab.drag_median(explorer, sliders[0], 15)
            print(f"\n{lesson.name}, explorer {n}: slider to new picture, median {median:.0f} ms")
    whole(page, lesson.name, WIDE)
    whole(page, lesson.name, NARROW)
    page.set_viewport_size({"width": NARROW, "height": 768})
    assert too_wide(page) == []
