"""Sampling: the model goes on from a prompt, a byte at a time, through the pipeline that trained it."""

from __future__ import annotations

import torch
from torch import Tensor

from minipar import comm
from minipar.pipeline import Schedule, evaluate
from minipar.tensor.random import stream
from minipar.train.trainer import Trainer


def sample(trainer: Trainer, prompt: str, count: int, temperature: float = 0.8) -> str:
    """The prompt and the `count` bytes that the model puts after it, the same on every rank; every rank calls this.

    Each byte takes a forward through all stages: the last one's ranks join their logits, choose, and tell the others.
    Of a long text the model sees the last `sequence` bytes. temperature: 0 takes the likeliest byte each time.
    Raises `ValueError` for an empty prompt and for a temperature below 0.
    """
    text = list(prompt.encode())
    if not text:
        raise ValueError("the prompt is empty; it needs at least one character to go on from")
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature}; it must be at least 0")
    for position in range(count):
        generator = stream(trainer.recipe.seed, "sample", trainer.step, position)
        text.append(_next(trainer, text, temperature, generator))
    return bytes(text).decode(errors="replace")


def _next(trainer: Trainer, text: list[int], temperature: float, generator: torch.Generator) -> int:
    """The next byte, on every rank."""
    mesh, config = trainer.mesh, trainer.config
    # Every forward has the same shape, padded behind the text, which a causal model does not see.
    seen = text[-config.sequence :]
    tokens = torch.tensor([seen + [0] * (config.sequence - len(seen))])
    chosen = -1

    def choose(logits: Tensor, _: Tensor) -> Tensor:
        nonlocal chosen
        whole = comm.all_gather(logits[0, len(seen) - 1], mesh.tp)[:256].double().cpu()
        if temperature == 0:
            chosen = int(whole.argmax())
        else:
            chosen = int(torch.multinomial((whole / temperature).softmax(0), 1, generator=generator))
        return logits.new_zeros(())

    evaluate(_one_micro_batch(trainer.layout.schedule), trainer.stages, (tokens, tokens), choose, mesh)
    return int(max(number for [number] in comm.gather_numbers([chosen], mesh.pp)))


def _one_micro_batch(schedule: Schedule) -> Schedule:
    """What the schedule does with its first micro-batch."""
    rows = tuple(tuple(action for action in row if action.micro_batch == 0) for row in schedule.actions)
    return Schedule(f"{schedule.name}, one micro-batch", rows, schedule.holder)
