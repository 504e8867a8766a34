"""Every sentence can be translated: in a language that nobody speaks no plain English is left in the fronts."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from course.certificate.work import quizzes
from course.cli import COMMANDS, app
from course.exercises.catalogue import EXERCISES
from course.figures.lesson00 import column_split, predict_bubble, stage_alone
from course.lessons import ROOT, find, lessons
from course.progress import Progress
from course.quiz.attempt import draw
from course.quiz.exam import exam
from course.quiz.generated import GENERATED
from course.quiz.perfect import perfect
from course.quiz.schema import Generated, Quiz, load
from course.quiz.sitting import Sitting, Source
from course.quiz.widget import QuizWidget
from course.widgets import (
    collectives,
    home,
    matmul,
    memory,
    mesh,
    pipeline,
)
from course.widgets.explorer import Explorer
from course.widgets.memory import DEVICES, MODELS
from tests.course import pseudo
from tests.course.pseudo import WORD, Pseudo
from tests.course.quiz.samples import SAMPLER, Learner, as_typed, in_terminal

UNITS = "dx MB GB KiB MiB GiB ms TB kB thousand million µs bf16 pp dp tp float32"
"""Units and names that values carry, which are the same in every language."""
HEADINGS = [question.read_again or "" for path in (SAMPLER, find("00").quiz) for question in load(path).questions]
"""Sections stand in the notebook under these names, whatever the language of the quiz."""
NOTHING: list[Any] = [None, "many", "1,024", [99], {"a": 1}, "x" * 5000, [], ["F0 x", ""], ["F0"], ["x" * 3000] * 2]
WRONG: list[Any] = [0, 1, 2, [0], [1], "-7", [4, 3, 2, 1, 0], [0, 0, 0], [1, 1, 1], ["F0 F1 F2 F3 B0 B1 B2 B3"] * 2,
                    ["F0"] * 2, ["F0 F0", "F9"], ["F0@1 B0", "F0 B0"], ["B0 F0 F1 B1 F2 B2 F3 B3"] * 2, ["F0 I0", "B0"],
                    ["F0 I0 F1 B1 F2 B2 F3 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]]  # fmt: skip


@pytest.fixture
def language(monkeypatch: pytest.MonkeyPatch) -> Pseudo:
    return pseudo.switch_on(monkeypatch)


def everything(language: Pseudo) -> Quiz:
    """Every kind of question and every generated one."""
    quiz = language.quiz(load(SAMPLER))
    generated = [Generated(id=f"g-{name}", kind="generated", function=name) for name in GENERATED]
    return quiz.model_copy(update={"questions": (*quiz.questions, *generated)})


def texts(part: Any) -> Iterator[str]:
    """The texts that a page shows: of a tree what is in its elements, not their tags."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, value in part.items():
            if name not in ("id", "kind"):
                yield from texts(value)
    elif isinstance(part, list):
        for child in part:
            yield from texts(child[1:] if isinstance(child, list) and child and isinstance(child[0], str) else child)


def shown(widget: QuizWidget) -> Iterator[str]:
    state = widget.get_state(["words", "questions", "grades", "score"])
    for question in state["questions"]:
        yield from texts(question)
    yield from state["words"].values()
    yield state["score"]
    for grade in state["grades"].values():
        for name, value in grade.items():
            yield from texts([r["text"] for r in value] if name == "remarks" else value)


def sit(quiz: Quiz, name: str = "sampler") -> Sitting:
    return Sitting(Source(name, lambda _seed: quiz), Progress(), new=True)


def test_the_language_changes_sentences_and_leaves_code_and_holes(language: Pseudo) -> None:
    said = language.translated("Write `F0 x` for $m$ of {count} ranks.")
    assert re.fullmatch(r"[^A-Za-z]+ `F0 x` [^A-Za-z]+ \$m\$ [^A-Za-z]+ \{count\} [^A-Za-z]+", said)
    assert language.english(["Plain words"]) == {"Plain", "words"}, "what is left would be found"


def test_the_notebooks_front(language: Pseudo) -> None:
    whole = everything(language)
    said = list(shown(QuizWidget(sit(whole))))
    for question in whole.questions:  # each alone, as the page shows all that there is after each answer
        for answers in (NOTHING, WRONG):
            widget = QuizWidget(sit(whole.model_copy(update={"questions": (question,)})))
            for answer in [*answers, perfect(widget.sitting.attempt.questions[0])]:
                widget._handle_custom_msg({"do": "answer", "question": question.id, "answer": answer}, [])
                said += shown(widget)
    assert language.english(said, [UNITS, *HEADINGS]) == set()
    assert sum(bool(re.search("[\u0561-\u057a]{3}", text)) for text in said) > 1000


def test_the_exam_in_the_notebook_and_in_the_terminal(language: Pseudo) -> None:
    quizzes = [language.quiz(load(find("00").quiz)), language.quiz(load(SAMPLER))]
    for seed in range(4):
        widget = QuizWidget(sit(exam(seed, quizzes), "exam"))
        said = list(shown(widget))
        for question in widget.sitting.attempt.questions[1:]:
            widget._handle_custom_msg({"do": "answer", "question": question.id, "answer": perfect(question)}, [])
        for do in ("hand_in", "hand_in"):
            widget._handle_custom_msg({"do": do}, [])
            said += shown(widget)
        again = sit(exam(seed, quizzes), "exam")
        learner = Learner([*[""] * len(again.attempt.questions), "?", "h"])
        typed = in_terminal(again, learner)
        assert again.handed_in
        assert language.english([*said, typed, *learner.prompts], [UNITS, *HEADINGS]) == set()


def test_the_terminal(language: Pseudo) -> None:
    quiz = everything(language)
    sitting = sit(quiz)
    learner = Learner([])
    for question in draw(quiz, sitting.attempt.seed).questions:
        right = as_typed(question, perfect(question))
        learner.lines += [*(["F0 x"] if len(right) > 1 else ["?", "a", "9,999"]), *right, ""]
    said = in_terminal(sitting, learner)
    again = in_terminal(Sitting(Source("sampler", lambda _seed: quiz), Progress()), Learner([]))
    assert language.english([said, again, *learner.prompts], [UNITS, *HEADINGS]) == set()


NAMES = ["course start quiz exam certificate name progress import export json", *(e.name for e in EXERCISES.values())]
NAMES += [lesson.name for lesson in lessons()]
"""What one types, and the names of files and exercises."""


@pytest.mark.parametrize(
    "arguments",
    [
        ["progress"],
        ["progress", "--export", "mine.json"],
        ["progress", "--export", "mine.json", "--json"],
        ["progress", "--import", "mine.json"],
        ["progress", "--import", "none.json"],
        ["lessons"],
        ["quiz"],
        ["quiz", "--check"],
        ["quiz", "77"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("done", [False, True], ids=["nothing done", "all done"])
def test_the_commands(
    language: Pseudo, arguments: list[str], done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if done:
        for item in quizzes():
            Progress().record("attempt", item, 1.0, {"seed": 1})
        for exercise in EXERCISES.values():
            Progress().record("exercise", exercise.item, 1.0)
    if "--import" in arguments:
        CliRunner().invoke(app, ["progress", "--export", "mine.json"])
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "150"})
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.output.strip()
    files = ["sampler.yaml", "00-start", "mine.json", "none.json"]
    reasons = ["No such file or directory"]  # the system's own words, in the system's language
    assert language.english([result.output], [*NAMES, *files, *reasons]) == set()


def test_the_help_of_every_command() -> None:
    code = (  # another process: help is put together when a module is imported
        "import pytest; from tests.course.pseudo import switch_on; switch_on(pytest.MonkeyPatch())\n"
        "from course.cli import COMMANDS, app\n"
        "for name in COMMANDS: app([name, '--help'], prog_name='course', standalone_mode=False)\n"
        "app(['--help'], prog_name='course')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={"COLUMNS": "150"}
    )
    assert len(re.findall("[\u0561-\u057a]{3}", done.stdout)) > 200
    lines = [line for line in done.stdout.splitlines() if "Usage:" not in line and "--help" not in line]
    types = "str int float bool path"  # typer's own words, as are those of the lines left out
    typed = "word lesson exam no browser new check export import json key name to file submission init grade report"
    metavars = re.findall(r"\b[A-Z][A-Z_|-]+\b", done.stdout)
    left = set(WORD.findall(" ".join(lines))) - set(WORD.findall(" ".join([types, typed, *metavars, *COMMANDS])))
    assert left == set()


def test_the_home(language: Pseudo) -> None:
    for kind, points in (("hint", 0.0), ("attempt", 0.5), ("attempt", 0.9)):
        Progress().record(kind, "00-start", points)  # type: ignore[arg-type]
        html = re.sub(r"<style>.*?</style>|<[^>]*>", " ", str(home().data), flags=re.DOTALL)
        assert language.english([html], NAMES) == set()
        title = re.search(r"aria-label='([^']*)'", str(home().data))
        assert title is not None
        assert language.english([title[1]]) == set()


def test_predictions_explorers_and_their_pictures(language: Pseudo) -> None:
    explorer, prediction = pipeline(), predict_bubble(4, 1)
    said = [*(control["label"] for control in explorer.controls), *(text for fact in explorer.facts for text in fact)]
    said += [prediction.question, *prediction.words.values()]
    for typed in ("x", "25"):
        prediction._handle_custom_msg({"prediction": typed}, [])
        said += [prediction.outcome["notice"], *prediction.outcome.get("sentences", ())]
    for picture in (explorer.picture, prediction.outcome["picture"], str(stage_alone().data), str(column_split().data)):
        said.append(re.sub(r"<style>.*?</style>|<[^>]*>", " ", picture, flags=re.DOTALL))
        said += re.findall(r'aria-label="([^"]*)"', picture)
    assert language.english(said, ["[batch, in, out]"]) == set(), "but for the shapes of tensors"


@pytest.mark.parametrize("of", [pipeline, memory, collectives, matmul, mesh], ids=lambda of: of.__name__)
@pytest.mark.parametrize("end", ["least", "most"])
def test_explorers_at_either_end_of_their_sliders(language: Pseudo, of: Callable[[], Explorer], end: str) -> None:
    explorer = of()
    explorer.values = {control["name"]: control[end] for control in explorer.controls}
    said = [text for control in explorer.controls for text in (control["label"], *control["names"])]
    said += [text for fact in explorer.facts for text in fact]
    said.append(re.sub(r"<style>.*?</style>|<[^>]*>", " ", explorer.picture, flags=re.DOTALL))
    said += re.findall(r'aria-label="([^"]*)"', explorer.picture)
    names = [*MODELS, *DEVICES, "KiB MiB GiB ms", "dp pp tp"]
    assert language.english(said, names) == set(), "but for names and units"


@pytest.mark.parametrize("script", sorted((ROOT / "course" / "widgets").glob("*.js")), ids=lambda path: path.name)
def test_a_page_has_no_words_of_its_own(script: Path) -> None:
    code = re.sub(r"^\s*//.*$|//\s.*$", "", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    literals = [literal for groups in re.findall(r'"([^"\n]*)"|`([^`\n]*)`', code) for literal in groups]
    sentences = [literal for literal in literals if re.search(r"[A-Z][a-z]+|[a-z]{2,} [a-z]{2,}", literal)]
    known = {"input, button, select, textarea"}
    assert [text for text in sentences if text not in known and not re.search(r"[$<>:]|http", text)] == []
