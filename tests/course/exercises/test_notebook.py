"""`course check`: the answers in a notebook's file, found without running the rest of it, and judged."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

from course.cli import app
from course.exercises.notebook import answers
from course.lessons import find
from course.progress import Progress

STUB = "def column_linear(x, w_columns, tp):\n    raise NotTried"
RIGHT = "def column_linear(x, w_columns, tp):\n    return comm.all_gather(x @ w_columns, tp, dim=1)"
CHECK = 'check("column-linear", column_linear)'
IMPORTS = "from course.exercises import NotTried, check\nfrom minipar import comm"


def notebook(path: Path, *cells: str, exercise: int | None = None) -> Path:
    """A notebook with these code cells; the one numbered `exercise` is tagged."""
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    if exercise is not None:
        made.cells[exercise].metadata["tags"] = ["exercise"]
    nbformat.write(made, path)
    return path


def source_in(path: Path) -> str | None:
    (found,) = answers(path)
    return found.source


def check(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["check", *arguments])


def test_the_lessons_own_notebook_is_not_tried_yet() -> None:
    result = check("00")
    assert result.exit_code == 1
    assert result.stdout.startswith("column-linear: Not tried yet\n")
    assert Progress().log() == [], "what was not tried is no result"


def test_a_solution_in_the_lessons_notebook_passes_and_is_kept(tmp_path: Path) -> None:
    made = nbformat.read(find("00").notebook, as_version=4)
    (cell,) = [cell for cell in made.cells if "exercise" in cell.metadata.get("tags", [])]
    cell.source = cell.source.replace("raise NotTried", "return comm.all_gather(x @ w_columns, tp, dim=1)")
    path = tmp_path / "mine.ipynb"
    nbformat.write(made, path)
    result = check(str(path))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("column-linear: Passed\n")
    assert "at most 96" in result.stdout, "the targets"
    assert [event.points for event in Progress().log("exercise")] == [1.0]


def test_as_json_it_says_each_verdict(tmp_path: Path) -> None:
    path = notebook(tmp_path / "n.ipynb", IMPORTS, STUB.replace("raise NotTried", "return x"), CHECK)
    result = check(str(path), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["column-linear"]["status"] == "wrong shape"


def test_nothing_else_of_the_notebook_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    other = f"open({str(mark)!r}, 'w')\n!touch {mark}\n%time 1"
    path = notebook(tmp_path / "n.ipynb", IMPORTS, other, RIGHT, CHECK)
    source = source_in(path)
    assert source is not None
    assert "open(" not in source
    assert "touch" not in source
    assert not mark.exists()


def test_what_the_answer_uses_comes_along_and_later_cells_do_not(tmp_path: Path) -> None:
    path = notebook(
        tmp_path / "n.ipynb",
        IMPORTS,
        "import torch, math\nDIM = 0\nDIM += 1\nunused = math.pi",
        "def join(y, tp): return comm.all_gather(y, tp, dim=DIM)",
        "def column_linear(x, w_columns, tp): return join(x @ w_columns, tp)",
        CHECK,
        "def column_linear(x, w_columns, tp): return 'later'",
    )
    source = source_in(path)
    assert source is not None
    assert all(text in source for text in ("DIM = 0", "DIM += 1", "def join", "from minipar import comm"))
    assert not any(text in source for text in ("later", "unused", "math", "torch"))


def test_another_name_and_a_call_inside_something_are_found(tmp_path: Path) -> None:
    path = notebook(tmp_path / "n.ipynb", IMPORTS, "mine = lambda x, w, tp: x", 'v = check("column-linear", mine)')
    source = source_in(path)
    assert source is not None
    assert source.endswith("answer = mine\n")


def test_a_notebook_without_an_answer_says_so(tmp_path: Path) -> None:
    path = notebook(tmp_path / "n.ipynb", IMPORTS, CHECK)
    assert source_in(path) is None
    result = check(str(path))
    assert result.exit_code == 1
    assert "has no answer" in result.stdout


def test_a_cell_that_is_no_python_is_the_learners_to_see(tmp_path: Path) -> None:
    path = notebook(tmp_path / "n.ipynb", IMPORTS, "def column_linear(x:\n", CHECK, exercise=1)
    result = check(str(path))
    assert result.exit_code == 1
    assert "SyntaxError" in result.stdout
    assert "Your function raised an error" in result.stdout


def test_a_notebook_without_exercises_is_told(tmp_path: Path) -> None:
    result = check(str(notebook(tmp_path / "n.ipynb", "1 + 1")))
    assert "no exercises" in result.stdout


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"5", b"null", b'{"cells": 5}', b'{"cells": [5]}', b"\xff\xfe", b"\x80\x04pickle", b"[" * 9000],
)
def test_what_is_no_notebook_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(content)
    result = check(str(path))
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), result.exception
    assert "n.ipynb" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("cell", [{}, {"cell_type": "code"}, {"cell_type": "code", "source": 5, "metadata": []}])
def test_odd_cells_are_empty_ones(tmp_path: Path, cell: Any) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))
    assert answers(path) == []


def test_an_unknown_lesson_and_a_file_that_is_not_there_are_sentences(tmp_path: Path) -> None:
    for argument, said in (("99", "99"), (str(tmp_path / "none.ipynb"), "none.ipynb")):
        result = check(argument)
        assert result.exit_code == 1
        assert said in result.stderr
