"""Every kind of question as a learner meets it who has no mouse: answered by keys alone, found again, looked at."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from course.lessons import ROOT, Lesson
from course.progress import Progress
from course.quiz.asked import Asked, Choose, FindPartners, PutInOrder, WriteSchedule
from course.quiz.attempt import draw
from course.quiz.perfect import perfect
from course.quiz.schema import load
from tests.browser import lab
from tests.course.quiz.samples import SAMPLER

pytestmark = lab.MARKS

HOSTILE = """\
id: hostile
title: {en: "<script>window.stolen = 1</script>"}
questions:
  - id: tags
    kind: one
    text:
      en: |
        <img src=x onerror="window.stolen = 1"> **bold** `<b>code</b>` [link](javascript:window.stolen=1)

        <script>window.stolen = 1</script>
    choices:
      - {text: {en: "<i onclick=1>this</i>"}, right: true, feedback: {en: "<svg onload='window.stolen=1'>yes"}}
      - {text: {en: "$\\\\text{<script>window.stolen=1</script>}$"}, feedback: {en: no}}
"""
CELLS = [
    "from pathlib import Path\nfrom course.quiz import quiz\nfrom course.widgets import home",
    f"quiz(Path({str(SAMPLER)!r}))",
    "quiz('exam')",
    "quiz(Path('hostile.yaml'))",
    "home()",
]
LESSON = Lesson("sampler", "Every kind of question", 10)
QUIZ = load(SAMPLER)


def notebook() -> str:
    cells = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": s, "outputs": [], "execution_count": None}
        for i, s in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("course")


@pytest.fixture(scope="module")
def page(root: Path) -> Iterator[Page]:
    """A notebook with all of it, run."""
    folder = root / "notebooks"
    folder.mkdir()
    (folder / "sampler.ipynb").write_text(notebook(), encoding="utf-8")
    (folder / "hostile.yaml").write_text(HOSTILE, encoding="utf-8")
    (folder / "00-start.ipynb").write_bytes((ROOT / "notebooks" / "00-start.ipynb").read_bytes())
    with lab.opened(LESSON, root) as page:
        page.keyboard.press("Control+b")  # the list of files away: narrow is then the notebook
        run_all(page)
        yield page


def run_all(page: Page) -> None:
    lab.menu(page, "Run", "Run All Cells")
    page.locator(".course-home table").wait_for(timeout=90_000)
    lab.wait_until_idle(page)


@pytest.fixture
def quiz(page: Page) -> Locator:
    return page.locator(".course-quiz").nth(0)


def asked(root: Path) -> dict[str, Asked]:
    """The questions as this learner gets them, from the seed that the store has kept."""
    seed = Progress(root / "data" / "progress.sqlite3").events("answer", "sampler")[-1].detail["seed"]
    return {question.id: question for question in draw(QUIZ, seed).questions}


def tab_to(target: Locator, key: str = "Tab") -> None:
    """Press Tab until the focus is there."""
    for _press in range(40):
        if target.evaluate("e => e === document.activeElement"):
            return
        target.page.keyboard.press(key)
    raise AssertionError(f"no press of {key} comes to {target}")


def press(page: Page, key: str, times: int = 1) -> None:
    for _press in range(times):
        page.keyboard.press(key)


def check(form: Locator) -> None:
    """To the question's button, and press it."""
    tab_to(form.locator("button[type=submit]"))
    form.page.keyboard.press("Enter")


def choose(form: Locator, question: Choose, places: list[int]) -> None:
    inputs = form.locator(".choice input")
    if question.several:
        for place in places:
            tab_to(inputs.nth(place))
            press(form.page, "Space")
    else:
        checked = inputs.evaluate_all("all => all.findIndex(e => e.checked)")
        tab_to(inputs.nth(max(checked, 0)))  # Tab comes to what is picked, or else to the first
        press(form.page, "Space")
        press(form.page, "ArrowDown", (places[0] - max(checked, 0)) % len(question.options))
        expect(inputs.nth(places[0])).to_be_checked()


def put_in_order(form: Locator, question: PutInOrder, order: list[int]) -> None:
    rows = form.locator(".order li")
    for place, item in enumerate(order):
        at = rows.evaluate_all("(rows, item) => rows.findIndex(row => row.dataset.place == item)", str(item))
        if at > place:
            tab_to(form.locator(f".order li[data-place='{item}'] button.move").first)
            press(form.page, "Enter", at - place)
    assert rows.evaluate_all("rows => rows.map(row => Number(row.dataset.place))") == order


def find_partners(form: Locator, places: list[int]) -> None:
    for i, place in enumerate(places):
        select = form.locator("select").nth(i)
        tab_to(select)
        press(form.page, "ArrowDown", place + 1)
        expect(select).to_have_value(str(place))


def write(form: Locator, text: str) -> None:
    """A number, or the lines of a schedule."""
    tab_to(form.locator("input, textarea").first)
    form.page.keyboard.type(text)


def answer(form: Locator, question: Asked) -> None:
    """Give the right answer, by keys."""
    right = perfect(question)
    if isinstance(question, Choose):
        choose(form, question, right if question.several else [right])
    elif isinstance(question, PutInOrder):
        put_in_order(form, question, right)
    elif isinstance(question, FindPartners):
        find_partners(form, right)
    elif isinstance(question, WriteSchedule):
        write(form, "\n".join(right))
    else:
        write(form, right)
    check(form)


def test_every_kind_is_answered_by_keys_alone_with_feedback_on_each(page: Page, quiz: Locator, root: Path) -> None:
    cell = "document.querySelector('.jp-Cell.jp-mod-active')?.dataset.windowedListIndex"
    before = page.locator(".jp-Cell").count()
    first = quiz.locator("form").first
    first.locator("input").first.focus()
    active = page.evaluate(cell)

    # The first question wrongly, so that the seed is kept; then what is right is known.
    texts = [c.text["en"] for c in QUIZ.questions[0].choices]  # type: ignore[union-attr]
    shown = first.locator(".choice").all_inner_texts()
    wrong = shown.index(texts[0])
    press(page, "Space")
    press(page, "ArrowDown", wrong)
    press(page, "Enter")
    expect(first.locator(".remark.bad")).to_contain_text("It would if")
    again = first.get_by_role("button", name="Four stages, one batch")
    expect(first.locator(".remark.bad .unseen")).to_have_text("Not right:")
    assert again.count() == 0, "the heading is in another notebook: there is nothing to go to"
    expect(first.get_by_text("Four stages, one batch")).to_be_visible()
    lab.keep(first, "sampler-feedback-wrong")

    kinds = set()
    for name, question in asked(root).items():
        form = quiz.locator(f"form[data-question={name}]")
        answer(form, question)
        expect(form.locator("[role=status] .remark.good").first).to_be_visible()
        assert form.locator("[role=status] .remark.bad").count() == 0
        kinds.add(type(question).__name__)
    assert kinds == {"Choose", "GiveNumber", "PutInOrder", "FindPartners", "WriteSchedule"}
    expect(quiz.locator(".score")).to_contain_text("13 of 13 points. Passed. Best so far: 100 % (1 attempt).")
    assert (page.locator(".jp-Cell").count(), page.evaluate(cell)) == (before, active), "the notebook took no key"


def test_no_input_is_without_a_name(page: Page) -> None:
    unnamed = page.locator(".course-quiz, .course-home").evaluate_all(
        """roots => roots.flatMap(root => [...root.querySelectorAll('input, select, textarea, button')])
        .filter(e => !(e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent).trim())
        .map(e => e.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator(".course-quiz fieldset:not(:has(legend))").count() == 0


def test_a_schedule_is_written_without_the_notebook_running_a_cell(page: Page, quiz: Locator) -> None:
    area = page.locator(".course-quiz form:has(textarea) textarea").first
    area.focus()
    kept = area.input_value()
    for key in ("Shift+Enter", "Escape", "ArrowUp", "ArrowDown", "b", "a", "x", "Control+Enter"):
        press(page, key)
    assert area.evaluate("e => e === document.activeElement")
    assert page.locator(".jp-Cell").count() == len(CELLS)
    expect(quiz.locator(".score")).to_contain_text("13 of 13 points")
    area.fill(kept)


def test_answers_and_score_are_found_after_a_restart_of_the_kernel(page: Page, quiz: Locator, root: Path) -> None:
    lab.restart(page)
    run_all(page)
    expect(quiz.locator(".score")).to_contain_text("13 of 13 points. Passed. Best so far: 100 % (1 attempt).")
    for name, question in asked(root).items():
        form, right = quiz.locator(f"form[data-question={name}]"), perfect(question)
        expect(form.locator(".remark.good").first).to_be_visible()
        if isinstance(question, Choose):
            ticked = form.locator(".choice input").evaluate_all("all => all.flatMap((e, i) => (e.checked ? [i] : []))")
            assert ticked == (sorted(right) if question.several else [right])
        elif isinstance(question, PutInOrder):
            places = form.locator(".order li").evaluate_all("rows => rows.map(row => Number(row.dataset.place))")
            assert places == right
        elif isinstance(question, FindPartners):
            assert [int(select.input_value()) for select in form.locator("select").all()] == right
        else:
            text = "\n".join(right) if isinstance(question, WriteSchedule) else right
            expect(form.locator("input, textarea").first).to_have_value(text)
    solved = quiz.locator("form[data-question=number]")
    expect(solved.locator(".solution")).to_contain_text("3 of 11 steps are idle")
    expect(solved.locator("input")).to_be_disabled()
    page.set_viewport_size({"width": 1366, "height": 4000})
    for theme in ("Dark", "Light"):
        lab.choose_theme(page, theme)
        lab.keep(quiz, f"sampler-answered-{theme.lower()}")
    page.set_viewport_size({"width": 1366, "height": 768})


def test_a_retake_by_keys_draws_new_numbers_and_the_best_stays(page: Page, quiz: Locator, root: Path) -> None:
    before = quiz.locator("form[data-question=generated-number]").inner_text()
    quiz.locator("textarea").focus()
    tab_to(quiz.get_by_role("button", name="Again, with new numbers"))
    press(page, "Enter")
    expect(quiz.locator(".remark")).to_have_count(0)
    expect(quiz.locator(".score")).to_contain_text("Best so far: 100 % (1 attempt).")
    assert quiz.locator("form[data-question=generated-number]").inner_text() != before
    assert quiz.evaluate("e => e.contains(document.activeElement)"), "the focus stays in the quiz"


def test_an_exam_is_handed_in_by_keys_and_shows_then_what_was_right(page: Page, root: Path) -> None:
    exam = page.locator(".course-quiz").nth(1)
    form = exam.locator(
        "form:has(.choice)"
    ).first  # the exam is drawn: others may come before, which Space does not answer
    form.locator("input").first.focus()
    press(page, "Space")
    check(form)
    expect(form.locator("[role=status]")).to_contain_text("Kept. You can change it until you hand in.")
    assert exam.locator(".remark").count() == 0
    lab.keep(form, "sampler-exam-kept")
    exam.locator("form").last.locator("button[type=submit]").focus()
    tab_to(exam.get_by_role("button", name="Hand in"))
    press(page, "Enter")
    expect(exam.locator(".score")).to_contain_text("Hand in again, if you mean it.")
    press(page, "Enter")
    expect(exam.locator("form:has(.remark)")).to_have_count(1)
    expect(exam.get_by_text("You gave no answer.")).to_have_count(exam.locator("form").count() - 1)
    expect(exam.locator(".score")).to_contain_text("It took 1 minute.")
    with sqlite3.connect(root / "data" / "progress.sqlite3") as db:
        rows = db.execute("SELECT count(*) FROM event WHERE kind = 'attempt' AND item = 'exam'").fetchall()
    db.close()
    assert rows == [(1,)]


def test_a_quiz_file_brings_no_markup_and_no_script(page: Page) -> None:
    hostile = page.locator(".course-quiz").nth(2)
    expect(hostile).to_contain_text('<img src=x onerror="window.stolen = 1">')
    expect(hostile).to_contain_text("<script>window.stolen = 1</script>")
    hostile.locator(".choice").get_by_text("this").click()
    hostile.get_by_role("button", name="Check").click()
    expect(hostile.locator(".remark")).to_contain_text("<svg onload='window.stolen=1'>yes")
    assert hostile.locator("img, script, svg, i, a").count() == 0
    assert page.evaluate("window.stolen") is None


def test_the_home_says_where_one_stands_and_leads_to_the_lessons(page: Page) -> None:
    home = page.locator(".course-home")
    expect(home.first).to_contain_text("not taken")
    expect(home.nth(1)).to_contain_text("Next: Lesson 00")
    home.first.get_by_role("link", name="00").click()
    tab = page.locator(".lm-TabBar-tabLabel").get_by_text("00-start.ipynb")
    expect(tab).to_be_visible()
    page.locator(".lm-TabBar-tabLabel").get_by_text("sampler.ipynb").click()


@pytest.mark.parametrize(("theme", "width"), [("Light", 1366), ("Dark", 1366), ("Light", 800), ("Dark", 500)])
def test_nothing_is_wider_than_the_window(page: Page, theme: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 4000 if width > 600 else 6000})  # a whole quiz in a picture
    lab.choose_theme(page, theme)
    for i, name in enumerate(("quiz", "exam")):
        widget = page.locator(".course-quiz").nth(i)
        widget.scroll_into_view_if_needed()
        assert widget.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), name
        lab.keep(widget, f"sampler-{theme.lower()}-{width}-{name}")
    home = page.locator(".course-home")
    assert home.nth(1).evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    lab.keep(home.first, f"sampler-{theme.lower()}-{width}-home")
