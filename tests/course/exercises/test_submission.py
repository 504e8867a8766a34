"""A submission is all that an answer needs, as text; whatever cannot be written down is refused with a sentence."""

import functools
import math
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from course.exercises import NotTried
from course.exercises.submission import MOST_SOURCE, capture, checked, regrade

Write = Callable[[str], types.ModuleType]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Write a learner's file and run it, as a notebook runs its cells: its names are those of no installed module."""
    made: list[str] = []

    def cell(source: str) -> types.ModuleType:
        file = tmp_path / f"cell{len(made)}.py"
        file.write_text(textwrap.dedent(source))
        module = types.ModuleType(f"cell_{len(made)}")
        sys.modules[module.__name__] = module
        made.append(module.__name__)
        exec(compile(file.read_text(), str(file), "exec"), module.__dict__)
        return module

    yield cell
    for name in made:
        del sys.modules[name]


def alone(fn: Any) -> Any:
    """The answer, as it is where nothing but its captured source is."""
    names: dict[str, Any] = {"__name__": "elsewhere"}
    exec(compile(capture(fn), "<submission>", "exec"), names)
    return names["answer"]


def test_a_function_comes_with_its_helpers_its_imports_and_its_numbers(write: Write) -> None:
    module = write(
        """
        import math as m
        from collections import Counter
        SCALE, TABLE = 3, {"a": [1, (2.5, None)], "b": {True}}
        unused = object()

        class Box:
            def __init__(self, x): self.x = helper(x)

        def helper(x): return m.floor(x) * SCALE

        def answer_to_all(x): return Box(x).x, TABLE, Counter("aab")["a"]
        """
    )
    assert alone(module.answer_to_all)(2.7) == (6, {"a": [1, (2.5, None)], "b": {True}}, 2)
    assert "unused" not in capture(module.answer_to_all)


def test_what_is_looked_up_is_what_is_there_now(write: Write) -> None:
    module = write("def late(): return factor\nfactor = 1")
    module.__dict__["factor"] = 7
    assert alone(module.late)() == 7


def test_lambdas_closures_decorators_and_recursion(write: Write) -> None:
    module = write(
        """
        import functools
        double, triple = (lambda x: 2 * x), (lambda x: 3 * x)

        def outer(n):
            def inner(x): return x + n + 1
            return inner

        @functools.cache
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        """
    )
    assert (alone(module.double)(5), alone(module.triple)(5)) == (10, 15)
    assert alone(module.outer(4))(1) == 6
    source = capture(lambda n: n and functools.reduce(lambda a, b: a + b, range(n)))
    assert "import functools" in source


def test_a_stub_and_its_types_come_along(write: Write) -> None:
    module = write(
        """
        import torch
        from course.exercises import NotTried
        KIND = torch.float64

        def stub(x): raise NotTried

        def typed(x): return torch.ones(2, dtype=KIND)
        """
    )
    with pytest.raises(NotTried):
        alone(module.stub)(1)
    assert alone(module.typed)(0).dtype is torch.float64


@pytest.mark.parametrize("value", [3, 2.5, math.inf, "text", [1, [2]], (1,), {"a": [1]}])
def test_an_answer_may_be_a_plain_value(value: Any) -> None:
    if isinstance(value, float) and math.isinf(value):
        assert alone([value]) == [value]
    else:
        assert alone(value) == value
        assert type(alone(value)) is type(value)


def test_what_cannot_be_written_down_is_named(write: Write) -> None:
    module = write("import torch\nweights = torch.ones(2)\ndef uses(x): return x @ weights")
    with pytest.raises(ValueError, match="uses 'weights', a Tensor from outside"):
        capture(module.uses)
    with pytest.raises(ValueError, match="this is a Tensor"):
        capture(torch.ones(2))
    with pytest.raises(ValueError, match="this is a builtin_function"):
        capture(len)


def test_a_module_of_the_learners_own_is_refused_by_name(write: Write) -> None:
    mine = write("def helper(x): return x")
    module = write("def uses(x): return mine.helper(x)")
    module.__dict__["mine"] = mine
    with pytest.raises(ValueError, match=r"the module 'cell_0', a file of yours"):
        capture(module.uses)


def test_the_course_is_not_imported_by_what_is_handed_in(write: Write) -> None:
    module = write(
        "from course.exercises.lesson00 import column_linear\ndef sly(x, w, tp): return column_linear(x, w, tp)"
    )
    source = capture(module.sly)
    assert "import column_linear" not in source, "its text is taken, as if the learner had typed it"


def test_a_file_that_has_changed_since_is_not_what_is_judged(write: Write, tmp_path: Path) -> None:
    module = write("def mine(x):\n    return x")
    (tmp_path / "cell0.py").write_text("import os\n\n\ndef other(x):\n    return 1\n")
    with pytest.raises(ValueError, match="has changed since it was run"):
        capture(module.mine)


def test_a_function_without_a_source_is_a_sentence() -> None:
    names: dict[str, Any] = {}
    exec("def nowhere(x): return x", names)
    with pytest.raises(ValueError, match="write it in a cell or a file"):
        capture(names["nowhere"])


@pytest.mark.parametrize("source", [None, 5, b"bytes", ["text"], "x" * (MOST_SOURCE + 1)])
def test_what_is_no_source_is_refused_before_anything_runs(source: Any) -> None:
    with pytest.raises(ValueError, match="source of"):
        checked(source)
    with pytest.raises(ValueError, match="source of"):
        regrade("column-linear", source)
