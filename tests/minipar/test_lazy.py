"""Public names are the same, and the same things, whatever was imported before and in whatever order."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
from itertools import permutations
from types import FunctionType, ModuleType

import cloudpickle
import pytest

import minipar
import minipar.pipeline

IMPORTS = (
    "from minipar.pipeline import run",
    "from minipar.pipeline import evaluate",
    "from minipar.pipeline import simulate, lower",
    "from minipar.pipeline.run import split_batch",
    "import minipar.pipeline.run",
    "import minipar.pipeline.simulate",
    "import minipar.pipeline.lower as anything",
    "import minipar.pipeline.profile",
    "import minipar.world",
    "import minipar.train",
    "from minipar.pipeline import *",
)

ORDERS = """
import json, sys, torch
wrong = []
for order in json.loads(sys.argv[1]):
    for module in [name for name in sys.modules if name.partition(".")[0] == "minipar"]:
        del sys.modules[module]
    for statement in order:
        exec(statement, {})
    import minipar
    from minipar.pipeline import evaluate, lower, run, simulate
    from minipar import run as on_ranks
    found = [f"{f.__module__}.{f.__qualname__}" for f in (run, evaluate, simulate, lower, on_ranks)]
    again = [f"{f.__module__}.{f.__qualname__}" for f in (minipar.pipeline.run, minipar.run)]
    if found != [
        "minipar.pipeline.run.run",
        "minipar.pipeline.run.evaluate",
        "minipar.pipeline.simulate.simulate",
        "minipar.pipeline.lower.lower",
        "minipar.world.run",
    ] or again != [found[0], found[-1]]:
        wrong.append([order, found, again])
print(json.dumps(wrong))
"""


def wrong_after(orders: list[list[str]]) -> list[object]:
    """In a fresh process, and with this package imported anew for each order: those after which a name is wrong."""
    command = [sys.executable, "-c", ORDERS, json.dumps(orders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    wrong: list[object] = json.loads(done.stdout)
    return wrong


def test_run_and_simulate_are_functions_after_any_two_imports_in_any_order() -> None:
    assert wrong_after([[], *([one] for one in IMPORTS), *map(list, permutations(IMPORTS, 2))]) == []


@pytest.mark.parametrize("first", ["from minipar.pipeline.run import split_batch", "import minipar.pipeline.simulate"])
def test_run_and_simulate_are_functions_in_a_process_that_imported_the_file_first(first: str) -> None:
    code = f"{first}\nfrom minipar.pipeline import run, simulate\nprint(type(run).__name__, type(simulate).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["function", "function"]


@pytest.mark.parametrize("package", [minipar, minipar.pipeline])
def test_every_public_name_is_there_listed_and_no_module(package: ModuleType) -> None:
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert not isinstance(getattr(package, name), ModuleType)


@pytest.mark.parametrize("package", [minipar, minipar.pipeline])
def test_no_name_is_loaded_that_is_not_public(package: ModuleType) -> None:
    assert set(vars(package)["_homes"]) <= set(package.__all__)


def test_a_name_is_looked_up_once() -> None:
    assert minipar.pipeline.run is minipar.pipeline.run
    assert isinstance(vars(minipar.pipeline)["run"], FunctionType)


@pytest.mark.parametrize("package", [minipar, minipar.pipeline])
def test_a_name_that_is_not_there_is_the_usual_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nosuch'"):
        _ = package.nosuch
    with pytest.raises(ImportError, match="cannot import name 'nosuch'"):
        exec(f"from {package.__name__} import nosuch")


def test_a_submodule_is_bound_in_its_package_as_ever() -> None:
    assert importlib.import_module("minipar.pipeline.schedule") is minipar.pipeline.schedule
    assert isinstance(minipar.pipeline.schedule, ModuleType)


def test_a_public_name_can_be_replaced_as_in_any_package(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, other = minipar.pipeline.run, object()
    with monkeypatch.context() as patch:
        patch.setattr("minipar.pipeline.run", other)
        assert vars(minipar.pipeline)["run"] is other
    assert minipar.pipeline.run is whole


@pytest.mark.parametrize("package", [minipar, minipar.pipeline])
def test_a_package_travels_to_a_rank_by_its_name(package: ModuleType) -> None:
    """A function of a notebook that says ``minipar.report(…)`` takes the package with it."""
    assert pickle.loads(cloudpickle.dumps(package)) is package
    assert len(cloudpickle.dumps(package)) < 200
