"""The judge's side of the ranks: start them for one case, and take in nothing from them but plain values."""

from __future__ import annotations

import io
import pickle
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from course.judge import inside, wires
from course.judge.plain import Plain, decode, encode
from minipar import RankFailed, RankTimeout, run
from minipar.ledger import Traffic
from minipar.words import _

SECONDS = 20.0  # that one case may take
MOST_TEXT = 20_000  # characters of an error, or of what was printed
INSIDE = re.compile(r'^ *File "[^"\n]*inside\.py", line \d+, in (perform|_call)\n(    .*\n)*', re.MULTILINE)
CONTROL = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


@dataclass(frozen=True)
class Case:
    """One call of a learner's function on dp × pp × tp fresh ranks; `inputs` holds the arguments of each rank.

    A `Part` among the arguments stands for the mesh, or for an axis of it.
    """

    inputs: tuple[tuple[Plain, ...], ...]
    dp: int = 1
    pp: int = 1
    tp: int = 1


@dataclass(frozen=True)
class Outcome:
    """What came of a case on one rank: the value returned, and the ledger's rows."""

    value: Plain
    traffic: tuple[Traffic, ...]

    @property
    def sent(self) -> float:
        """Bytes that this rank has sent, by the ledger."""
        return sum(row.sent for row in self.traffic)


@dataclass(frozen=True)
class Played:
    """A case that was played on all ranks. `uncounted` says why what was sent is not known, where it is not."""

    outcomes: tuple[Outcome, ...]
    printed: str
    uncounted: str = ""


class NoResult(Exception):
    """The learner's code did not get as far as a result: not tried, or `raised` with this story."""

    def __init__(self, tried: bool, story: str, printed: str) -> None:
        super().__init__(story)
        self.tried, self.story, self.printed = tried, story, printed


def play(source: str, case: Case, seconds: float = SECONDS) -> Played:
    """Run the learner's `source` on the ranks of a case; raises `NoResult` where they do not all return."""
    degrees, ranks = (case.dp, case.pp, case.tp), case.dp * case.pp * case.tp
    if len(case.inputs) != ranks:
        raise ValueError(f"dp×pp×tp = {ranks} ranks, but there are inputs for {len(case.inputs)}")
    printed, counter = io.StringIO(), _Counter(ranks) if ranks > 1 and wires.can_count() else None
    with tempfile.TemporaryDirectory(prefix="course-") as folder, redirect_stdout(printed):
        for rank, inputs in enumerate(case.inputs):
            Path(folder, f"{rank}").write_bytes(encode(list(inputs)))
        try:
            with _plain_messages(counter.heard if counter else None):
                results = run(
                    inside.perform,
                    ranks,
                    source,
                    folder,
                    degrees,
                    counter is not None,
                    timeout=seconds,
                    device="cpu",
                    on_report=counter.ready if counter else None,
                )
            outcomes, tried, intact = _read(results)
        except RankTimeout as error:
            stuck = _("The ranks waited for each other for {seconds:g} s. Does every rank call the same collectives?")
            story = clean(f"{stuck.format(seconds=seconds)}\n\n{error}")
        except RankFailed as error:
            story = clean(str(error))
        except (ValueError, pickle.UnpicklingError, EOFError) as error:
            story = clean(_("Something else than a result came from a rank: {reason}").format(reason=error))
        else:
            if not tried:
                raise NoResult(False, "", clean(printed.getvalue()))
            return Played(outcomes, clean(printed.getvalue()), _uncounted(outcomes, intact, counter))
    raise NoResult(True, story, clean(printed.getvalue()))


def _read(results: list[Any]) -> tuple[tuple[Outcome, ...], bool, bool]:
    """What all ranks gave back: their outcomes, whether all tried, and whether what counts is as it was on all."""
    outcomes, all_tried, all_intact = [], True, True
    for result in results:
        tried, value, rows, intact = decode(result)
        outcomes.append(Outcome(value, tuple(Traffic(*row[:5]) for row in rows)))
        all_tried, all_intact = all_tried and tried, all_intact and intact
    return tuple(outcomes), all_tried, all_intact


class _Counter:
    """Counts what the ranks' sockets send, from when each is ready until all have given a result."""

    def __init__(self, ranks: int) -> None:
        self.ranks, self.results = ranks, 0
        self.before: dict[int, tuple[int, set[int], dict[int, int]]] = {}
        self.sent: dict[int, int | None] = {}
        self.trouble = ""

    def ready(self, rank: int, report: Any) -> None:
        """A rank is about to run the learner's code. It says so once; anything more is the learner's own report."""
        if rank in self.before:
            self.trouble = _("a rank used `minipar.report`")
            return
        pid, inodes, sent = report
        self.before[rank] = int(pid), {int(i) for i in inodes}, {int(i): int(n) for i, n in sent}

    def heard(self, message: Any) -> None:
        """A message came from a rank. After the last result all ranks wait, with their sockets open."""
        if not (isinstance(message, tuple) and message and message[0] == "result"):
            return
        self.results += 1
        if self.results < self.ranks or len(self.before) < self.ranks:
            return
        for rank, (pid, inodes, sent) in self.before.items():
            try:
                self.sent[rank] = wires.sent_since(sent)
                if wires.sockets(pid) - inodes:
                    self.trouble = _("a rank opened connections of its own")
            except OSError:
                self.sent[rank] = None


def _uncounted(outcomes: tuple[Outcome, ...], intact: bool, counter: _Counter | None) -> str:
    """Why what was sent cannot be believed; an empty text where it can."""
    if not intact:
        return _("the code that counts was changed")
    if counter is None:
        return ""
    if counter.trouble:
        return counter.trouble
    for rank, outcome in enumerate(outcomes):
        on_wires = counter.sent.get(rank)
        if on_wires is None:
            return _("a rank closed its connections")
        if on_wires > _most_on_wires(outcome, len(outcomes)):
            words = _("the ledger has {ledger:g} bytes, but {wires} left rank {rank}")
            return words.format(ledger=outcome.sent, wires=on_wires, rank=rank)
    return ""


def _most_on_wires(outcome: Outcome, ranks: int) -> float:
    """Bytes that may leave a rank whose ledger is honest.

    To the ledger's come headers (below 100 bytes a message), and the backend's own ways, which are not always a ring's.
    """
    return 1.5 * outcome.sent + 2048 + 200 * ranks * sum(row.calls for row in outcome.traffic)


@contextmanager
def _plain_messages(heard: Callable[[Any], None] | None) -> Iterator[None]:
    """Meanwhile this process takes in only pickles of plain values, and tells `heard` of each.

    What arrives on the pipes of `minipar.run` are pickles, and a rank's pipe is in the learner's reach. A pickle can
    call any function where it is opened, so here none is opened that names one.
    """

    def loads(data: Any, **_options: Any) -> Any:
        message = _PlainUnpickler(io.BytesIO(data)).load()
        if heard is not None and threading.current_thread() is thread:
            heard(message)
        return message

    thread = threading.current_thread()
    originals = pickle.loads, ForkingPickler.loads
    pickle.loads, ForkingPickler.loads = loads, staticmethod(loads)
    try:
        yield
    finally:
        pickle.loads, ForkingPickler.loads = originals


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(_("an object of {kind}").format(kind=f"{module}.{name}"[:200]))

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(_("an object of {kind}").format(kind="?"))


def clean(text: str) -> str:
    """A text from a learner's ranks, fit to be shown: no control characters, no frames of the judge, not too long."""
    text = INSIDE.sub("", text).translate(CONTROL)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + _("\n… and more")
