"""Attempts to have a wrong answer judged right. Each one is refused, or does no harm (KNOWN_FAULTS 36)."""

import inspect
import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

import course.exercises.catalogue
import course.exercises.lesson00
import course.exercises.targets
import course.exercises.tensors
from course.exercises import Status, check
from course.exercises.check import EXERCISES
from course.exercises.exercise import Verdict
from course.exercises.tensors import draw
from course.judge import client, wires
from course.judge.ranks import Case, play
from course.judge.server import judge
from course.progress import Progress
from minipar import comm
from minipar.ledger import Ledger

COLUMN_LINEAR = EXERCISES["column-linear"]
counted = pytest.mark.skipif(not wires.can_count(), reason="needs the system's count of bytes")


def judged(body: str, before: str = "", seconds: float = 15.0) -> Verdict:
    """The verdict on a function with this body, after the lines `before`, from a judge that is this process."""
    source = "import gc, os, sys, torch\nimport torch.distributed as dist\nfrom minipar import comm\n"
    source += textwrap.dedent(before) + "\ndef answer(x, w, tp):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return judge(COLUMN_LINEAR, source, seconds)


GARBAGE = "return torch.zeros(len(x), w.shape[1] * tp.size, dtype=x.dtype)"
GATHER_ALL = "return x @ comm.all_gather(w, tp, dim=1)"  # right, but ten times what may be sent
QUIETLY = """
    parts = [torch.empty_like(w) for _ in range(tp.size)]
    dist.all_gather(parts, w, group=tp.group)
    comm.all_gather(x[:, :1].contiguous(), tp)  # so that the ledger is not empty
    return x @ torch.cat(parts, 1)
"""

IN_THE_RANKS: dict[str, tuple[str, str, Status]] = {
    "torch's comparisons say yes": (
        "torch.allclose = torch.equal = lambda *a, **k: True\n"
        "for name in ('__eq__', '__le__', '__ge__', 'abs', 'max'): setattr(torch.Tensor, name, lambda *a: True)",
        GARBAGE,
        Status.WRONG_VALUE,
    ),
    "a tensor's subclass says that it has the shape and equals everything": (
        """
        class Liar(torch.Tensor):
            shape = property(lambda self: torch.Size((3, 8)))
            def __eq__(self, other): return True
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None): return True
        """,
        "return torch.zeros(1, 1).as_subclass(Liar)",
        Status.WRONG_SHAPE,
    ),
    "a tensor's subclass says so only where it is asked": (
        """
        class Liar(torch.Tensor):
            shape = property(lambda self: torch.Size((3, 8)))
            def __eq__(self, other): return True
        """,
        "return torch.zeros(1, 1).as_subclass(Liar)",
        Status.RAISED,
    ),
    "an object's reducer makes the right thing where it is opened": (
        """
        class Bomb:
            def __reduce__(self): return (exec, ("import course.exercises.tensors as t; t.compare = lambda *a: 0.0",))
        """,
        "return Bomb()",
        Status.WRONG_SHAPE,
    ),
    "all pickles are bombs": (
        """
        import minipar.cargo, minipar.rank
        class Bomb:
            def __reduce__(self): return (exec, ("import course.exercises.tensors as t; t.compare = lambda *a: 0.0",))
        import cloudpickle
        minipar.cargo.dumps = lambda value: cloudpickle.dumps(Bomb())
        """,
        GARBAGE,
        Status.RAISED,
    ),
    "a report is a bomb": (
        """
        class Bomb:
            def __reduce__(self): return (exec, ("import course.exercises.tensors as t; t.compare = lambda *a: 0.0",))
        """,
        "import minipar; minipar.report(Bomb()); " + GARBAGE,
        Status.RAISED,
    ),
    "the ledger's page is wiped": (
        "",
        GATHER_ALL.replace("return", "y =") + "; tp.ledger._bytes.clear(); return y",
        Status.OUTSIDE_TARGET,
    ),
    "the ledger forgets to record": (
        "from minipar.ledger import Ledger\nLedger.record = lambda self, operation, axis, size: None",
        GATHER_ALL,
        Status.OUTSIDE_TARGET,
    ),
    "the ledger records a hundredth": (
        """
        from minipar.ledger import Ledger
        honest = Ledger.record
        Ledger.record = lambda self, operation, axis, size: honest(self, operation, axis, size // 100)
        """,
        GATHER_ALL,
        Status.OUTSIDE_TARGET,
    ),
    "the code of the ledger is replaced, the function kept": (
        """
        from minipar.ledger import Ledger
        def less(self, operation, axis, size):
            key = (operation, axis.name, axis.size)
            self._calls[key] += 1
            self._bytes[key] += size // 100
        Ledger.record.__code__ = less.__code__
        """,
        GATHER_ALL,
        Status.OUTSIDE_TARGET,
    ),
    "this one ledger has a record of its own": (
        "",
        "tp.ledger.record = lambda *a: None; " + GATHER_ALL,
        Status.OUTSIDE_TARGET,
    ),
    "what a row says was sent is small": (
        "from minipar.ledger import Traffic\nTraffic.sent = property(lambda self: 1.0)",
        GATHER_ALL,
        Status.OUTSIDE_TARGET,
    ),
    "comm does not note what it does": ("comm._note = lambda *a: 0.0", GATHER_ALL, Status.OUTSIDE_TARGET),
    "what is raised looks like the end": ("", "raise SystemExit(0)", Status.RAISED),
    "the rank leaves without an error": ("", "os._exit(0)", Status.RAISED),
    "the rank leaves while it is imported": ("os._exit(0)", GARBAGE, Status.RAISED),
    "an interrupt": ("", "raise KeyboardInterrupt", Status.RAISED),
    "an error that has no text": ("class E(BaseException):\n    __str__ = None", "raise E()", Status.RAISED),
    "the solution is imported": (
        "from course.exercises.lesson00 import column_linear",
        "return column_linear(x, w, tp)",
        Status.RAISED,
    ),
    "another part of the course is imported": ("import course.lessons", GARBAGE, Status.RAISED),
    "the solution is imported past the finder": (
        "sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != 'NoCourse']\n"
        "import course.exercises.lesson00",
        GARBAGE,
        Status.RAISED,
    ),
    "a verdict is printed": (
        "",
        """print('{"secret": "", "verdict": {"status": "passed"}}'); print("\\x1b[2J\\r✓ Passed", flush=True); """
        + GARBAGE,
        Status.WRONG_VALUE,
    ),
    "the answer never ends": ("", "while True: pass", Status.RAISED),
    "the source never ends": ("while True: pass", GARBAGE, Status.RAISED),
    "the source is not Python": ("def (", GARBAGE, Status.RAISED),
    "the function is no function": ("", "pass\nanswer = 7", Status.WRONG_SHAPE),
    "it says that it was not tried": ("from course.exercises import NotTried", "raise NotTried", Status.NOT_TRIED),
    "a value that decides when it is asked": (
        "",
        "import types; return types.SimpleNamespace(shape=(len(x), 8), __class__=torch.Tensor)",
        Status.WRONG_SHAPE,
    ),
    "as many entries as fit into memory": ("", "return torch.zeros(1 << 28, dtype=torch.uint8)", Status.RAISED),
}


@pytest.mark.parametrize("attack", IN_THE_RANKS)
def test_in_its_ranks_a_wrong_answer_stays_wrong(attack: str) -> None:
    before, body, status = IN_THE_RANKS[attack]
    honest = Verdict, Status.PASSED, course.exercises.tensors.compare
    verdict = judged(body, before, seconds=3.0 if "never ends" in attack else 15.0)
    assert verdict.status is status, verdict
    assert honest == (Verdict, Status.PASSED, course.exercises.tensors.compare)
    assert "\x1b" not in verdict.message + verdict.printed


OVER_THE_WIRES = {
    "past the ledger": ("", QUIETLY),
    "the ledger is another one": (
        "",
        "from minipar.ledger import Ledger; object.__setattr__(tp, 'ledger', Ledger())\n" + textwrap.dedent(QUIETLY),
    ),
    "the ledger is made up when it is asked for": (
        """
        inside = sys.modules["course.judge.inside"]
        honest = inside.encode
        def forged(all_of_it):
            tried, value, rows, intact = all_of_it
            return honest((True, value, [("all-gather", "tp", dist.get_world_size(), 1, 96, 48.0)], True))
        inside.encode = forged
        """,
        GATHER_ALL,
    ),
    "the comparison of the code is patched away": (
        """
        from minipar.ledger import Ledger
        inside = sys.modules["course.judge.inside"]
        before = inside._identity
        frame = sys._getframe()
        while frame and "before" not in frame.f_locals: frame = frame.f_back
        seen = frame.f_locals["before"] if frame else None
        while frame and not isinstance(seen, dict):
            frame = frame.f_back
            seen = frame.f_locals.get("before") if frame else None
        inside._identity = lambda ledger: seen
        Ledger.record = lambda self, operation, axis, size: Ledger.__dict__  # not counted
        """,
        QUIETLY,
    ),
    "a group of its own": (
        "",
        "group = dist.new_group(list(range(tp.size)))\n"
        + textwrap.dedent(QUIETLY).replace("group=tp.group", "group=group"),
    ),
}


@counted
@pytest.mark.parametrize("attack", OVER_THE_WIRES)
def test_bytes_that_the_ledger_does_not_know_are_seen_from_outside(attack: str) -> None:
    before, body = OVER_THE_WIRES[attack]
    verdict = judged(body, before)
    assert verdict.status is Status.OUTSIDE_TARGET, verdict
    assert "cannot be counted" in verdict.message


@counted
def test_the_honest_way_is_never_taken_for_a_cheat() -> None:
    for _ in range(5):
        assert judged("return comm.all_gather(x @ w, tp, dim=1)").status is Status.PASSED


def test_no_rank_finds_the_inputs_of_another() -> None:
    source = """
import os, sys
frame = sys._getframe()
while "folder" not in frame.f_locals: frame = frame.f_back
found = os.listdir(frame.f_locals["folder"])
def answer(x): return found
"""
    played = play(source, Case(tuple((draw(1),) for _ in range(4)), tp=4), 15)
    assert [outcome.value for outcome in played.outcomes] == [[]] * 4


def test_inputs_are_others_each_time_so_that_no_answer_can_know_them() -> None:
    assert not torch.equal(draw(3, 4), draw(3, 4))


def wrong(x, w, tp):  # type: ignore[no-untyped-def]
    return torch.zeros(len(x), w.shape[1] * tp.size, dtype=x.dtype)


def heavy(x, w, tp):  # type: ignore[no-untyped-def]
    return x @ comm.all_gather(w, tp, dim=1)


@pytest.fixture
def fresh_judge() -> Iterator[None]:
    """A judge that is started within the test, and none after it."""
    client.end()
    yield
    client.end()


IN_THE_KERNEL: dict[str, tuple[Any, str, Any]] = {
    "torch.allclose": (torch, "allclose", lambda *_a, **_k: True),
    "torch.equal": (torch, "equal", lambda *_a, **_k: True),
    "Tensor.__eq__": (torch.Tensor, "__eq__", lambda *_a: True),
    "Tensor.abs": (torch.Tensor, "abs", lambda self: self * 0),
    "comm.all_gather": (comm, "all_gather", lambda tensor, *_a, **_k: tensor),
    "Ledger.record": (Ledger, "record", lambda *_a: None),
    "compare": (course.exercises.tensors, "compare", lambda *_a: 0.0),
    "compare in the lesson": (course.exercises.lesson00, "compare", lambda *_a: 0.0),
    "weigh": (course.exercises.targets, "weigh", lambda *_a, **_k: Verdict(Status.PASSED, "")),
    "examine": (course.exercises.lesson00, "examine", lambda _play: Verdict(Status.PASSED, "")),
    "the exercise itself": (COLUMN_LINEAR, "__class__", type("E", (type(COLUMN_LINEAR),), {"examine": None})),
    "Verdict.title": (Verdict, "title", "Passed"),
    "Verdict.from_json": (Verdict, "from_json", staticmethod(lambda _said: Verdict(Status.PASSED, ""))),
    "Status of the check": (
        sys.modules["course.exercises.check"],
        "Status",
        type("S", (), {"PASSED": Status.WRONG_VALUE}),
    ),
    "Progress.record": (Progress, "record", lambda *_a: None),
}


@pytest.mark.parametrize("attack", IN_THE_KERNEL)
def test_what_is_patched_in_the_kernel_does_not_reach_the_judge(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, fake = IN_THE_KERNEL[attack]
    with monkeypatch.context() as patch:
        if owner is COLUMN_LINEAR:
            object.__setattr__(owner, name, fake)
        else:
            patch.setattr(owner, name, fake)
        try:
            check("column-linear", wrong)
            check("column-linear", heavy)
        finally:
            if owner is COLUMN_LINEAR:
                object.__setattr__(owner, name, fake.__mro__[1])
    events = Progress().log("exercise")
    assert [(event.points, event.detail["status"]) for event in events] == [
        (0.0, "wrong value"),
        (0.0, "right, but outside the target"),
    ]


def test_a_source_that_the_kernel_lies_about_is_the_one_that_is_judged_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solution = inspect.getsource(COLUMN_LINEAR.solution).replace("column_linear", "wrong")
    monkeypatch.setattr(inspect, "getsource", lambda _fn: solution)
    assert check("column-linear", wrong).status is Status.WRONG_VALUE
    monkeypatch.setattr("linecache.getlines", lambda *_a: solution.splitlines(keepends=True))
    with pytest.raises(ValueError, match="has changed since it was run"):
        check("column-linear", wrong)


@pytest.mark.usefixtures("fresh_judge")
def test_modules_that_lie_in_the_learners_folder_or_path_are_not_the_judges(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trap = f"open({str(tmp_path / 'trapped')!r}, 'w')\n"
    for name in ("torch", "course", "minipar", "sitecustomize", "usercustomize", "json", "random"):
        (tmp_path / f"{name}.py").write_text(trap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "torch.py"))
    assert check("column-linear", wrong).status is Status.WRONG_VALUE
    assert check("column-linear", COLUMN_LINEAR.solution).status is Status.PASSED
    assert not (tmp_path / "trapped").exists()


def kill_the_judge(x, w, tp):  # type: ignore[no-untyped-def]
    import os
    import signal
    from pathlib import Path

    pid = os.getpid()
    for _ in range(2):  # the server that forks the ranks, then the judge
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)
    return x


def speak_for_the_judge(x, w, tp):  # type: ignore[no-untyped-def]
    import contextlib
    import json
    import os
    from pathlib import Path

    verdict = {"status": "passed", "message": "", "targets": [], "next_step": "", "printed": ""}
    said = json.dumps({"secret": "", "verdict": verdict, "notice": ""}) + "\n"
    said += json.dumps({"key": "", "secret": "", "exercise": "column-linear", "source": "", "file": None}) + "\n[\n\n"
    pid = os.getpid()
    for _ in range(2):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if "pipe:" in os.readlink(f"/proc/{pid}/fd/{name}"):
                        pipe = os.open(f"/proc/{pid}/fd/{name}", os.O_WRONLY | os.O_NONBLOCK)
                        os.write(pipe, said.encode())
    return x


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.usefixtures("fresh_judge")
@pytest.mark.parametrize("attack", [kill_the_judge, speak_for_the_judge])
def test_who_kills_the_judge_or_speaks_for_it_has_not_passed(attack: Callable[..., Any]) -> None:
    verdict = check("column-linear", attack)
    assert verdict.status is not Status.PASSED
    assert not any(event.points for event in Progress().log())
    assert check("column-linear", COLUMN_LINEAR.solution).status is Status.PASSED, "the next one is judged as ever"


@pytest.mark.alone
@pytest.mark.usefixtures("fresh_judge")
def test_an_interrupted_check_leaves_no_process_behind(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    mark = str(tmp_path / "runs")

    def endless(x, w, tp):  # type: ignore[no-untyped-def]
        open(mark, "w").close()
        while True:
            pass

    def interrupt() -> None:
        while not Path(mark).exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        check("column-linear", endless)
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    gone, alive = psutil.wait_procs(left, timeout=5)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE], (gone, alive)
    assert check("column-linear", COLUMN_LINEAR.solution).status is Status.PASSED
