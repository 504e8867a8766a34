"""Every exercise in its own notebook: the stub, the solution, and each wrong answer in the place of the stub."""

import inspect
import textwrap
from collections.abc import Iterator
from typing import Literal, NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient

from course.exercises import Status
from course.exercises.check import EXERCISES
from course.exercises.exercise import Answer, Exercise
from course.lessons import Lesson, lessons

TITLES = {
    Status.NOT_TRIED: "Not tried yet",
    Status.WRONG_SHAPE: "Wrong shape",
    Status.WRONG_VALUE: "Wrong value",
    Status.OUTSIDE_TARGET: "Right, but outside the target",
    Status.PASSED: "Passed",
}


class Opened(NamedTuple):
    """A lesson's notebook, with a kernel that has run the imports."""

    lesson: Lesson
    client: NotebookClient

    def cell(self, exercise: Exercise, of: Literal["stub", "check"]) -> int:
        """The place of an exercise's cell."""
        code = {i: cell for i, cell in enumerate(self.client.nb.cells) if cell.cell_type == "code"}
        check = next(i for i, cell in code.items() if f'check("{exercise.name}"' in cell.source)
        if of == "check":
            return check
        return max(i for i, cell in code.items() if i < check and "exercise" in cell.metadata.get("tags", []))

    def verdict(self, exercise: Exercise, source: str) -> str:
        """What the check's cell says with `source` in the place of the stub."""
        self.client.execute_cell(
            nbformat.v4.new_code_cell(source, metadata={"tags": ["exercise"]}), self.cell(exercise, "stub")
        )
        place = self.cell(exercise, "check")
        check = self.client.nb.cells[place]
        self.client.execute_cell(check, place)
        return str(check.outputs[-1].data["text/plain"])


@pytest.fixture(scope="module", params=lessons(), ids=lambda lesson: lesson.name)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Each lesson in turn."""
    lesson: Lesson = request.param
    notebook = nbformat.read(lesson.notebook, as_version=4)
    client = NotebookClient(notebook, timeout=60, kernel_name="python3")
    with client.setup_kernel():
        first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        client.execute_cell(notebook.cells[first], first)
        yield Opened(lesson, client)


def as_learner(exercise: Exercise, answer: Answer) -> str:
    """An answer as a learner would have typed it: under the stub's name, without the library's annotations."""
    source = textwrap.dedent(inspect.getsource(answer))
    header = f"def {exercise.solution.__name__}({', '.join(inspect.signature(answer).parameters)}):"
    return "import torch\nfrom minipar import comm\n\n\n" + header + source[source.index(":\n") + 1 :]


def test_stubs_are_told_not_tried_solutions_pass_and_wrong_answers_are_refused_each_for_its_own_reason(
    opened: Opened, subtests: pytest.Subtests
) -> None:
    for exercise in EXERCISES.values():
        if exercise.lesson != opened.lesson.name:
            continue
        with subtests.test(exercise.name, answer="stub"):
            stub = opened.client.nb.cells[opened.cell(exercise, "stub")].source
            assert opened.verdict(exercise, stub).startswith(TITLES[Status.NOT_TRIED])
        with subtests.test(exercise.name, answer="solution"):
            source = as_learner(exercise, exercise.solution)
            assert opened.verdict(exercise, source).startswith(TITLES[Status.PASSED])
        for wrong in exercise.wrong:
            with subtests.test(exercise.name, answer=wrong.answer.__name__):
                source = as_learner(exercise, wrong.answer)
                assert opened.verdict(exercise, source).startswith(TITLES[wrong.status])
