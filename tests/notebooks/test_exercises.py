"""Every exercise in its own notebook: the stub, the solution, and each wrong answer in the place of the stub."""

import inspect
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient

from course.exercises import Status
from course.exercises.check import EXERCISES
from course.exercises.exercise import Answer, Exercise
from course.lessons import find

TITLES = {
    Status.NOT_TRIED: "Not tried yet",
    Status.WRONG_SHAPE: "Wrong shape",
    Status.WRONG_VALUE: "Wrong value",
    Status.OUTSIDE_TARGET: "Right, but outside the target",
    Status.PASSED: "Passed",
}


class Opened(NamedTuple):
    """An exercise in its notebook, with a kernel that has run the imports; `stub` and `check` are cells' places."""

    exercise: Exercise
    client: NotebookClient
    stub: int
    check: int

    def verdict(self, source: str) -> str:
        """What the check's cell says with `source` in the place of the stub."""
        self.client.execute_cell(nbformat.v4.new_code_cell(source), self.stub)
        check = self.client.nb.cells[self.check]
        self.client.execute_cell(check, self.check)
        return str(check.outputs[-1].data["text/plain"])


@pytest.fixture(scope="module", params=EXERCISES.values(), ids=lambda exercise: exercise.name)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Each exercise in turn."""
    exercise: Exercise = request.param
    notebook = nbformat.read(find(exercise.lesson).notebook, as_version=4)
    code = {i: cell for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"}
    check = next(i for i, cell in code.items() if f'check("{exercise.name}"' in cell.source)
    stub = max(i for i, cell in code.items() if i < check and "exercise" in cell.metadata.get("tags", []))
    client = NotebookClient(notebook, timeout=60, kernel_name="python3")
    with client.setup_kernel():
        first = min(code)
        client.execute_cell(code[first], first)
        yield Opened(exercise, client, stub, check)


def as_learner(exercise: Exercise, answer: Answer) -> str:
    """An answer as a learner would have typed it: under the stub's name, without the library's annotations."""
    source = textwrap.dedent(inspect.getsource(answer))
    header = f"def {exercise.solution.__name__}({', '.join(inspect.signature(answer).parameters)}):"
    return "import torch\nfrom minipar import comm\n\n\n" + header + source[source.index(":\n") + 1 :]


def test_the_stub_is_told_not_tried_and_does_not_stop_the_notebook(opened: Opened) -> None:
    stub = opened.client.nb.cells[opened.stub].source
    assert opened.verdict(stub).startswith(TITLES[Status.NOT_TRIED])


def test_the_solution_passes(opened: Opened) -> None:
    answer = as_learner(opened.exercise, opened.exercise.solution)
    assert opened.verdict(answer).startswith(TITLES[Status.PASSED])


def test_each_wrong_answer_is_refused_for_its_own_reason(opened: Opened) -> None:
    for wrong in opened.exercise.wrong:
        assert opened.verdict(as_learner(opened.exercise, wrong.answer)).startswith(TITLES[wrong.status])
