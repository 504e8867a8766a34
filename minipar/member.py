"""The caller's side of one rank: starting it, hearing it, ending it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

from minipar import rank

OnReport = Callable[[int, Any], None] | None


class Member:
    """The caller's side of one rank: its process, its pipes, what it has said so far."""

    def __init__(self, job: rank.Job) -> None:
        self.rank = job.rank
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["minipar.preload"])
        self.control, self.theirs = context.Pipe()
        self.output, self.out = context.Pipe(duplex=False)
        # This end is never used: that it closes when this process ends, however it ends, is the message.
        self.lifeline, self.alive = context.Pipe(duplex=False)
        self.process = context.Process(target=rank.main, args=(job, self.theirs, self.out, self.lifeline))
        self.tail = b""
        self.state = "running"  # then "result", "failed" or "died"
        self.content: Any = None  # the packed result, or the failure's (line, traceback)
        self.heard_at = 0.0
        self.place: str | None = None

    def start(self) -> None:
        """Start the process, and leave it the only holder of its ends of the pipes."""
        with interrupts_held(), _no_main_module():
            self.process.start()
            for theirs in (self.theirs, self.out, self.lifeline):
                theirs.close()

    def print_output(self) -> None:
        """Print the whole lines that have arrived, each with the rank's number."""
        data = os.read(self.output.fileno(), 1 << 16)
        *lines, self.tail = (self.tail + data).split(b"\n")
        if not data:
            self.output.close()
            lines, self.tail = [self.tail] if self.tail else [], b""
        for line in lines:
            print(f"[rank {self.rank}] {line.decode(errors='replace')}", flush=True)

    def hear(self, on_report: OnReport) -> None:
        """Take in one message from the rank, or its end."""
        try:
            if not self.control.poll():  # it was the process's end that was heard; its child may hold the pipe open
                raise EOFError
            kind, content = self.control.recv()
        except (EOFError, OSError):
            self.control.close()
            kind, content = "died", None
        if kind == "where":
            self.place = content
        elif kind == "report":
            if on_report is not None:
                on_report(self.rank, pickle.loads(content))
        elif self.state == "running":
            self.state, self.content = kind, content
            self.heard_at = time.monotonic()

    def end(self) -> None:
        """End the process and whatever it started, then print what it still had to say."""
        if self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.join()
        while not self.output.closed and self.output.poll(0):
            self.print_output()
        for ours in (self.control, self.output, self.alive):
            ours.close()

    def standing(self) -> str:
        """Where the rank stands, in words."""
        if self.state == "result":
            return "had finished"
        if self.state == "failed":
            return f"raised {self.content[0]}"
        if self.state == "died":
            return self.obituary()
        return self.place or "gave no answer (stopped, or busy outside Python)"

    def obituary(self) -> str:
        """How the process ended, in words."""
        self.process.join(timeout=1)
        code = self.process.exitcode or 0
        if code >= 0:
            return f"left with exit code {code} before its function returned"
        name = signal.Signals(-code).name
        hint = "; SIGKILL often means that the machine ran out of memory" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Hide `__main__` while a process starts.

    multiprocessing would run the caller's script again in every rank to rebuild it there. The ranks
    do not need it: cloudpickle carries what the function uses.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold an interrupt back while processes start and end, so that none is left that nobody knows of.

    The handler is for this process. The mask is for the server that forks the ranks: it inherits it,
    and an interrupt meant for its caller must not end it while it imports.
    """
    held: list[int] = []
    resource_tracker.ensure_running()  # multiprocessing's own; to start it later would lift the mask
    main = threading.current_thread() is threading.main_thread()  # interrupts reach only this thread
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number)) if main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if main:
            signal.signal(signal.SIGINT, handler)
        if held:
            signal.raise_signal(signal.SIGINT)
