"""The inside of one fresh rank: join the group, run the function, report, and never outlive the caller."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from minipar import cargo
from minipar.devices import DEVICE_VARIABLE, Placement, place
from minipar.rendezvous import agent_store

F_SETSIG = 10  # Linux: which signal an asynchronous file descriptor sends
STARTER = "<string>"  # multiprocessing's server is started by a line of code, the outermost of every rank's stack
LIBRARIES = (str(Path(torch.__file__).parent), sysconfig.get_path("stdlib"), STARTER)
HERE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Job:
    """All that a rank needs to know; `payload` is a packed ``(fn, args, kwargs)``."""

    payload: bytes
    sources: dict[str, list[str]]
    rank: int
    ranks: int
    rendezvous: str
    timeout: float
    device: str | None
    environment: dict[str, str]


class Reporter:
    """The rank's end of the control pipe; safe to use from the main and the listening thread."""

    def __init__(self, control: Connection) -> None:
        self.control = control
        self.lock = threading.Lock()
        self.dismissed = threading.Event()

    def send(self, kind: str, content: Any) -> None:
        """Send one message to the caller, after all that was printed before it."""
        ctypes.CDLL(None).fflush(None)  # what C code printed: nothing else would flush it
        sys.stdout.flush()
        sys.stderr.flush()
        with self.lock:
            self.control.send((kind, content))

    def listen(self) -> None:
        """Answer the caller until it dismisses this rank; end the rank when the caller is gone."""
        main = threading.main_thread().ident
        try:
            while self.control.recv() == "where":
                self.send("where", where(sys._current_frames().get(main or 0)))
            self.dismissed.set()
        except (EOFError, OSError):
            os.killpg(0, signal.SIGKILL)


_deliver: Callable[[Any], None] | None = None  # how this process hands a report to its caller, if it is a rank


def report(value: Any) -> None:
    """Send a picklable `value` from inside a rank to the caller's ``on_report(rank, value)``, at once.

    Does nothing in a process that is not a rank of `minipar.run`.
    """
    if _deliver is not None:
        _deliver(value)


@contextlib.contextmanager
def reporting_to(deliver: Callable[[Any], None] | None) -> Iterator[None]:
    """Hand what this process reports to `deliver`; with None leave things as they are."""
    global _deliver
    before, _deliver = _deliver, deliver or _deliver
    try:
        yield
    finally:
        _deliver = before


def main(job: Job, control: Connection, output: Connection, lifeline: Connection) -> None:
    """Be rank `job.rank`: everything between birth and end, with all output sent to `output`."""
    _become_a_rank(job, output)
    _die_with_caller(lifeline)
    reporter = Reporter(control)
    threading.Thread(target=reporter.listen, daemon=True).start()
    message: tuple[str, Any]
    try:
        fn, args, kwargs = cargo.unpack(job.payload, job.sources)
        join_group(place(), job.rank, job.ranks, f"file://{job.rendezvous}", job.timeout)
        with reporting_to(lambda value: reporter.send("report", cargo.dumps(value))):
            message = "result", _packed_result(fn(*args, **kwargs))
    except BaseException as error:
        message = "failed", _story(error)
    reporter.send(*message)
    # Sockets stay open until the caller has heard everyone: another rank must never fail because this one left.
    reporter.dismissed.wait()
    if dist.is_initialized():
        dist.destroy_process_group()


def _become_a_rank(job: Job, output: Connection) -> None:
    os.setsid()  # a group of its own, so that helpers started by the function can be ended with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the caller's to handle
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(job.environment)
    rank, ranks = str(job.rank), str(job.ranks)
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=ranks, LOCAL_WORLD_SIZE=ranks)
    # Fresh ranks share this machine: the loopback needs no name look-up and no network.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    if job.device is not None:
        os.environ[DEVICE_VARIABLE] = job.device
    torch.set_num_threads(1)


def _die_with_caller(lifeline: Connection) -> None:
    """Let the kernel end this rank and all its helpers when the caller is gone, even if it is stopped or stuck.

    When the other end of the pipe closes, Linux sends SIGKILL to this rank's process group. Elsewhere the
    listening thread does what it can.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(lifeline, F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def join_group(placement: Placement, rank: int, ranks: int, init_method: str, timeout: float) -> None:
    """Start `torch.distributed` for this rank; the group's own timeout comes after the caller's."""
    if placement.device.type == "cuda":
        torch.cuda.set_device(placement.device)
    patience = timedelta(seconds=timeout + 30)
    store = agent_store(rank, ranks, patience) if init_method == "env://" else None
    where: dict[str, Any] = {"init_method": init_method} if store is None else {"store": store}
    dist.init_process_group(placement.backend, **where, rank=rank, world_size=ranks, timeout=patience)


def _packed_result(value: Any) -> bytes:
    try:
        return cargo.dumps(value)
    except Exception as error:
        raise TypeError(f"the function returned a {type(value).__name__} that cannot be pickled: {error}") from None


def _story(error: BaseException) -> tuple[str, str]:
    """One line that names the error, and the traceback from the caller's function on."""
    inside = error.__traceback__
    while inside and inside.tb_next and inside.tb_frame.f_code.co_filename == __file__:
        inside = inside.tb_next
    text = "".join(traceback.TracebackException(type(error), error, inside).format())
    return "".join(traceback.format_exception_only(error)).strip(), text


def where(frame: FrameType | None) -> str:
    """Where a thread stands, as a person would say it: the innermost line of their own code."""
    stack = [line for line in traceback.extract_stack(frame) if not line.filename.startswith(LIBRARIES)]
    ours = [line for line in stack if line.filename.startswith(HERE)]
    # Functions of this library (the demo's, say) run in ranks too: then the innermost line of ours is the place.
    line = next((line for line in reversed(stack) if line not in ours), stack[-1])
    inside = f", inside minipar's {ours[-1].name}" if stack[-1] in ours and line not in ours else ""
    return f"{line.filename}:{line.lineno} in {line.name}: {line.line}{inside}"
