"""When actions start and end: the processor's clock, or events in a GPU's queue, which the processor need not await."""

from __future__ import annotations

import time

import torch

from minipar.links import hold


class Clock:
    """Marks moments of what a device does; their times are known at the end.

    They are seconds of `time.perf_counter`, which all processes of a machine share, or with `from_now` since now.
    """

    def __init__(self, device: torch.device, from_now: bool = False) -> None:
        self.device = device
        self.marks: list[float | torch.cuda.Event] = []
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        self.began = time.perf_counter()
        self.zero = self.began if from_now else 0.0
        self.first = self._now()

    def mark(self) -> None:
        """Mark this moment: what was asked of the device so far is done, and what is asked from now on is not."""
        self.marks.append(self._now())

    def hold(self, seconds: float) -> None:
        """Wait until `seconds` after the last mark."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        hold(self._time(self.marks[-1]), seconds)

    def _now(self) -> float | torch.cuda.Event:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def times(self) -> list[float]:
        """The times of all marks; waits for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return [self._time(mark) - self.zero for mark in self.marks]

    def _time(self, mark: float | torch.cuda.Event) -> float:
        if isinstance(mark, float):
            return mark
        assert isinstance(self.first, torch.cuda.Event)
        milliseconds: float = self.first.elapsed_time(mark)
        return self.began + milliseconds / 1e3
