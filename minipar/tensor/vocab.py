"""The vocabulary split over the ranks: embedding, logits, and a loss that never gathers the logits.

Each rank holds an equal run of the vocabulary's rows; a vocabulary that does not divide is padded with
zeros, which no token reaches, no probability falls on, and no whole weight contains.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minipar.comm import all_reduce_max, reduce_from_region
from minipar.manifest import Cut, Section
from minipar.mesh import Axis
from minipar.store import WeightStore
from minipar.tensor.linear import column_linear
from minipar.tensor.sequence import reduce_to_sequence


class VocabParallelEmbedding(nn.Module):
    """Tokens ``[batch, seq]`` to rows of the whole `weight` ``[vocabulary, hidden]``, of which each rank keeps a run.

    Gives ``[batch, seq, hidden]``, the same on every rank, or with `sequence_parallel` this rank's slice of the
    sequence. Forward sends one all-reduce (a reduce-scatter), as each row comes from the rank that has it.
    Raises `IndexError` for a token outside the vocabulary (on a CPU; on a GPU the look would cost a wait).
    Source: Shoeybi et al. 2019, §3.
    """

    def __init__(self, weight: Tensor, axis: Axis, sequence_parallel: bool = False) -> None:
        super().__init__()
        self.vocabulary, self.axis, self.sequence_parallel = len(weight), axis, sequence_parallel
        cut = Cut(0, (Section(len(weight), padded=True),))
        self.cuts = {"weight": cut}
        self.weight = nn.Parameter(cut.take(weight, axis.rank, axis.size))

    def forward(self, tokens: Tensor) -> Tensor:
        """Look up what is here, and add what the others found."""
        _check_tokens(tokens, self.vocabulary)
        place, elsewhere = _own_run(tokens, len(self.weight), self.axis)
        found = F.embedding(place, self.weight).masked_fill(elsewhere.unsqueeze(-1), 0)
        return (reduce_to_sequence if self.sequence_parallel else reduce_from_region)(found, self.axis)


class VocabParallelHead(nn.Module):
    """Features ``[batch, seq, hidden]`` (or their slice) to this rank's run of the logits, ``[batch, seq, run]``.

    Made from the whole `weight` ``[vocabulary, hidden]``, or tied to an embedding: then it *is* that one's
    parameter, one storage and one entry in the optimizer. Backward communicates as a `ColumnParallelLinear`.
    copy_of: the full name of the embedding on another stage that `weight` is a copy of.
    """

    def __init__(
        self,
        weight: Tensor | VocabParallelEmbedding,
        axis: Axis,
        sequence_parallel: bool = False,
        copy_of: str | None = None,
    ) -> None:
        super().__init__()
        self.copies = {} if copy_of is None else {"weight": copy_of}
        self.axis, self.sequence_parallel = axis, sequence_parallel
        self.weight_store: WeightStore | None = None
        tied = weight if isinstance(weight, VocabParallelEmbedding) else VocabParallelEmbedding(weight, axis)
        self.cuts, self.weight = tied.cuts, tied.weight

    def forward(self, x: Tensor) -> Tensor:
        """Compare with the tokens that are here."""
        return column_linear(x, self.weight, None, self.axis, self.sequence_parallel, self.weight_store)


def _check_tokens(tokens: Tensor, vocabulary: int) -> None:
    """Raise `IndexError` for a token outside the vocabulary; not on a GPU, where the look would cost a wait."""
    if tokens.device.type == "cpu" and bool(((tokens < 0) | (tokens >= vocabulary)).any()):
        raise IndexError(f"a token is outside the vocabulary of {vocabulary}")


def _own_run(tokens: Tensor, run: int, axis: Axis) -> tuple[Tensor, Tensor]:
    """Each token's place in this rank's run (0 where it is elsewhere), and whether it is elsewhere."""
    place = tokens - axis.rank * run
    elsewhere = (place < 0) | (place >= run)
    return place.masked_fill(elsewhere, 0), elsewhere


def _checked_run(logits: Tensor, targets: Tensor, axis: Axis, vocabulary: int) -> int:
    """How many columns one rank's logits have; `ValueError` where these have another number, or another shape."""
    run = Section(vocabulary, padded=True).held(axis.size)
    if logits.shape[-1] != run:
        raise ValueError(
            f"logits have {logits.shape[-1]} columns; one rank's run of a vocabulary of {vocabulary} over "
            f"tp={axis.size} has {run}. Are they gathered already?"
        )
    if logits.shape[:-1] != targets.shape:
        raise ValueError(f"logits are for tokens {tuple(logits.shape[:-1])}, targets for {tuple(targets.shape)}")
    return run


def vocab_parallel_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    axis: Axis,
    vocabulary: int,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    weights: Tensor | None = None,
) -> Tensor:
    """Mean cross-entropy in nats of split logits: equal to `torch.nn.functional.cross_entropy` of the whole ones.

    logits: this rank's run, ``[…, run]``. targets: tokens ``[…]``, the same on every rank; those equal to
    `ignore_index` do not count. label_smoothing: the share of each target that is spread over the vocabulary.
    weights: of each token ``[…]``; the mean is then the weighted one.

    Forward sends two all-reduces: of the largest logit, and of the exponentials' sum and the target's logit
    (with smoothing also the logits' sum), each a number a token instead of a vocabulary a token. Backward sends
    nothing. Raises `ValueError`, before it communicates, for logits that are not one rank's run: gathered ones
    would count every token n times; `IndexError` for a target outside the vocabulary (on a CPU, as the embedding).
    Source: Shoeybi et al. 2019, §3.
    """
    run = _checked_run(logits, targets, axis, vocabulary)
    counted = targets != ignore_index
    targets = targets.masked_fill(~counted, 0)
    _check_tokens(targets, vocabulary)
    padding = torch.arange(run, device=logits.device) + axis.rank * run >= vocabulary
    largest = all_reduce_max(logits.detach().masked_fill(padding, -torch.inf).amax(-1), axis)
    shifted = logits - largest.unsqueeze(-1)
    place, elsewhere = _own_run(targets, run, axis)
    of_target = shifted.gather(-1, place.unsqueeze(-1)).squeeze(-1).masked_fill(elsewhere, 0)
    summands = [shifted.masked_fill(padding, -torch.inf).exp().sum(-1), of_target]
    if label_smoothing:
        summands.append(shifted.masked_fill(padding, 0).sum(-1))
    of_all, of_target, *of_every = reduce_from_region(torch.stack(summands), axis).unbind()
    loss = of_all.log() - of_target
    for total in of_every:
        loss = (1 - label_smoothing) * loss + label_smoothing * (of_all.log() - total / vocabulary)
    loss = loss.masked_fill(~counted, 0)  # so that they get no gradient even where the mean is of nothing
    share = counted.to(loss.dtype) if weights is None else counted * weights
    return (loss * share).sum() / share.sum()
