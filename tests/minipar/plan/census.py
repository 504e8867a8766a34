"""A census of the tensors of a real step on a CPU: all that the allocator gave out, sorted by what it is for.

PyTorch's profiler writes down every allocation and every release with its address. What the autograd graph keeps is
known by address too, as it passes through hooks. So each byte that is held when most are held has its part.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile, record_function

from minipar import comm
from minipar.layout import Layout
from minipar.model import GPTConfig
from minipar.train import Recipe, Trainer

cloudpickle.register_pickle_by_value(sys.modules[__name__])

STEP, LOSS, KEPT = "second step", "logits and loss", "kept"


class Allocation(NamedTuple):
    """Bytes that the allocator gave out, and when; `until` is when they came back, if they did."""

    address: int
    size: int
    since: float
    until: float

    def at(self, moment: float) -> bool:
        return self.since <= moment < self.until


class Samples:
    """Tokens of no meaning, made anew each time and kept by nobody."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def batch(self, first: int, count: int, sequence: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(first)
        tokens = torch.randint(0, self.vocabulary, (count, sequence + 1), generator=generator)
        return tokens[:, :-1], tokens[:, 1:]


def census(config: GPTConfig, layout: Layout, batch: int) -> dict[str, float]:
    """On each rank: bytes by part when this rank holds most in its second step."""
    recipe = Recipe(batch=batch)
    _hold_tensors_of_collectives()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        trainer = Trainer(config, layout, Samples(config.vocabulary), recipe)
        trainer.train_step()  # the first step says shapes, and AdamW begins
        _watch(trainer)
        states = _states(trainer)
        with saved_tensors_hooks(_keeper(trainer), lambda tensor: tensor), record_function(STEP):
            trainer.train_step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return _sorted(events, states) | _by_use(trainer)


class _Held:
    """A collective under way: its tensors are held here until the backend's own thread has let go of them.

    A release on that thread would be missing in the record, which is of the main thread.
    """

    def __init__(self, work: Any, tensors: Any) -> None:
        self.work, self.tensors = work, tensors

    def wait(self) -> None:
        if self.work is not None:
            self.work.wait()
        time.sleep(0.005)
        self.work = self.tensors = None


def _holding(collective: Callable[..., Any]) -> Callable[..., Any]:
    def call(*tensors: Any, async_op: bool = False, **options: Any) -> _Held | None:
        held = _Held(collective(*tensors, async_op=async_op, **options), tensors)
        if async_op:
            return held
        held.wait()
        return None

    return call


def _hold_tensors_of_collectives() -> None:
    for module, names in ((dist, ("all_reduce", "all_gather")), (comm, ("_reduce_scatter", "_all_gather"))):
        for name in names:
            setattr(module, name, _holding(getattr(module, name)))


def _watch(trainer: Trainer) -> None:
    """Mark the time from a micro-batch's logits to its loss."""
    marks: list[Any] = []
    for stage in trainer.stages.values():
        if stage.head is not None:
            stage.head.logits.register_forward_pre_hook(lambda *_: marks.append(_begun(LOSS)))
    inner = trainer._loss

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        trainer.in_loss = True  # type: ignore[attr-defined]
        result = inner(logits, targets)
        trainer.in_loss = False  # type: ignore[attr-defined]
        marks.pop().__exit__(None, None, None)
        return result

    trainer._loss = loss


def _begun(name: str) -> Any:
    mark = record_function(name)
    mark.__enter__()  # type: ignore[no-untyped-call]
    return mark


def _keeper(trainer: Trainer) -> Callable[[Tensor], Tensor]:
    """Writes down what the graph keeps: where it lies, and whether the loss keeps it or a layer."""

    def keep(tensor: Tensor) -> Tensor:
        part = "logits" if getattr(trainer, "in_loss", False) else "activations"
        with record_function(f"{KEPT} {part} {tensor.untyped_storage().data_ptr()}"):
            return tensor

    return keep


def _states(trainer: Trainer) -> set[int]:
    """Where weights, gradients and moments lie."""
    flat = [t for bucket in trainer.buckets.buckets for t in (bucket.model, bucket.gradients)]
    flat += [t for share in trainer.optimizer.shares for t in share.kinds.values()]
    flat += [t for share in trainer.optimizer.shares for _, state in share.states for t in state.values()]
    return {t.untyped_storage().data_ptr() for t in flat}


def _by_use(trainer: Trainer) -> dict[str, float]:
    """Bytes of weights, gradients and moments of the blocks, and of all else."""
    found = dict.fromkeys(("weights", "gradients", "optimizer", "vocabulary"), 0.0)
    moments = 8 / (trainer.mesh.dp.size if trainer.layout.zero else 1)
    for _, slot in trainer.buckets.slots:
        numbers = slot.parameter.numel()
        uses = {"weights": 4.0, "gradients": 4.0, "optimizer": moments}
        for use, size in uses.items():
            found[use if slot.name.startswith("blocks") else "vocabulary"] += size * numbers
    return found


def _sorted(events: list[dict[str, Any]], states: set[int]) -> dict[str, float]:
    """Bytes at the moment of the second step at which most are held, by what they are for."""
    given: dict[int, list[Allocation]] = {}
    changes = [(e["ts"], e["args"]) for e in events if e.get("name") == "[memory]"]
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("ph") == "X"]
    for moment, change in sorted(changes, key=lambda item: item[0]):
        of_address = given.setdefault(change["Addr"], [])
        if change["Bytes"] > 0:
            of_address.append(Allocation(change["Addr"], change["Bytes"], moment, float("inf")))
        elif of_address:
            of_address[-1] = of_address[-1]._replace(until=moment)
    [(begin, end)] = [span[1:] for span in spans if span[0] == STEP]
    inside = [(args["Total Allocated"], moment) for moment, args in changes if begin <= moment <= end]
    total, peak = max(inside)
    kept = {}
    for name, since, _ in spans:
        if name.startswith(KEPT):
            _, part, address = name.split()
            kept.update({one: part for one in given.get(int(address), ()) if one.at(since)})
    losses = [span[1:] for span in spans if span[0] == LOSS]
    found = {"total": float(total), "states": 0.0, "activations": 0.0, "logits": 0.0, "buffers": 0.0}
    for one in (one for of_address in given.values() for one in of_address if one.at(peak)):
        in_loss = any(since <= one.since <= until for since, until in losses)
        part = "states" if one.address in states else kept.get(one) or ("logits" if in_loss else "buffers")
        found[part] += one.size
    return found
