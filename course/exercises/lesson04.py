"""Lesson 04: attention cut by heads, and a cross entropy over a vocabulary that is cut."""

from __future__ import annotations

import secrets

import torch
import torch.nn.functional as F
from torch import Tensor

from course.exercises.exercise import Exercise, Play, Status, Verdict, WrongAnswer
from course.exercises.targets import bytes_sent, weigh
from course.exercises.tensors import compare, draw
from course.judge.plain import Part
from course.judge.ranks import Case
from minipar import comm
from minipar.mesh import Axis
from minipar.words import _

LESSON = "04-transformer"
DOUBLE = 8  # bytes of a number
NUMBERS = 3  # that the ranks exchange for a token: the largest logit, the sum, the target's logit


def whole_attention(x: Tensor, qkv: Tensor, out: Tensor, heads: int) -> Tensor:
    """Causal self-attention of all heads. qkv: ``[hidden, 3 · hidden]``, queries, keys, then values."""
    batch, tokens, hidden = x.shape
    q, k, v = ((x @ part).view(batch, tokens, heads, -1).transpose(1, 2) for part in qkv.chunk(3, 1))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(batch, tokens, hidden) @ out


def examine_heads(play: Play) -> Verdict:
    """Run on 2 and on 4 ranks with two heads each; compare with all heads, and weigh what was sent."""
    rows = []
    for tp, size in ((2, 3), (4, 5)):
        heads = 2 * tp
        hidden, batch, tokens = heads * size, 2, 7
        x, qkv, out = draw(batch, tokens, hidden), draw(hidden, 3 * hidden), draw(hidden, hidden)
        cut = [part.chunk(tp, 1) for part in qkv.chunk(3, 1)]  # of queries, keys and values, by rank
        inputs = tuple(
            (x, torch.cat([part[rank] for part in cut], 1), out.chunk(tp, 0)[rank].clone(), 2, Part("tp"))
            for rank in range(tp)
        )
        played = play(Case(inputs, tp=tp))
        for rank, outcome in enumerate(played.outcomes):
            where = _("{ranks} ranks, rank {rank}").format(ranks=tp, rank=rank)
            compare(outcome.value, whole_attention(x, qkv, out, heads), where)
        enough = 2 * (tp - 1) / tp * x.numel() * DOUBLE
        rows.append(bytes_sent(played, enough, enough))
    return weigh(
        rows,
        passed=_("Every rank attends with its own heads, and one sum puts them together. That is half of a block."),
        outside=_("The result is right on every rank. But there is a way that sends less."),
    )


def attention(x: Tensor, qkv_columns: Tensor, out_rows: Tensor, heads: int, tp: Axis) -> Tensor:
    """The solution: this rank's heads from beginning to end, then one sum."""
    batch, tokens, _hidden = x.shape
    parts = (x @ qkv_columns).chunk(3, -1)
    q, k, v = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part in parts)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return comm.all_reduce(y.transpose(1, 2).reshape(batch, tokens, -1) @ out_rows, tp)


def _never_summed(x: Tensor, qkv_columns: Tensor, out_rows: Tensor, heads: int, tp: Axis) -> Tensor:
    batch, tokens, _hidden = x.shape
    parts = (x @ qkv_columns).chunk(3, -1)
    q, k, v = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part in parts)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(batch, tokens, -1) @ out_rows


def _one_large_head(x: Tensor, qkv_columns: Tensor, out_rows: Tensor, heads: int, tp: Axis) -> Tensor:
    q, k, v = (x @ qkv_columns).chunk(3, -1)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return comm.all_reduce(y @ out_rows, tp)


def _looks_ahead(x: Tensor, qkv_columns: Tensor, out_rows: Tensor, heads: int, tp: Axis) -> Tensor:
    batch, tokens, _hidden = x.shape
    parts = (x @ qkv_columns).chunk(3, -1)
    q, k, v = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part in parts)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return comm.all_reduce(y.transpose(1, 2).reshape(batch, tokens, -1) @ out_rows, tp)


def _heads_gathered(x: Tensor, qkv_columns: Tensor, out_rows: Tensor, heads: int, tp: Axis) -> Tensor:
    batch, tokens, _hidden = x.shape
    parts = (x @ qkv_columns).chunk(3, -1)
    q, k, v = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part in parts)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    whole = comm.all_gather(y.transpose(1, 2).reshape(batch, tokens, -1), tp, dim=2)
    return whole @ comm.all_gather(out_rows, tp, dim=0)


def _not_transposed(x: Tensor, qkv_columns: Tensor, out_rows: Tensor, heads: int, tp: Axis) -> Tensor:
    batch, tokens, _hidden = x.shape
    parts = (x @ qkv_columns).chunk(3, -1)
    q, k, v = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part in parts)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return comm.all_reduce(y.reshape(batch, tokens, -1) @ out_rows, tp)


ATTENTION_HEADS = Exercise(
    name="attention-heads",
    lesson=LESSON,
    examine=examine_heads,
    hints=(
        _("`(x @ qkv_columns).chunk(3, -1)` are this rank's queries, keys and values, all of its heads side by side."),
        _("`part.view(batch, tokens, heads, -1).transpose(1, 2)` makes `[batch, heads, tokens, size]` of each."),
        _("Attend. Then back: `.transpose(1, 2).reshape(batch, tokens, -1)`. Times `out_rows` it is a summand."),
    ),
    solution=attention,
    wrong=(
        WrongAnswer(_never_summed, Status.WRONG_VALUE),
        WrongAnswer(_one_large_head, Status.WRONG_VALUE),
        WrongAnswer(_looks_ahead, Status.WRONG_VALUE),
        WrongAnswer(_not_transposed, Status.WRONG_VALUE),
        WrongAnswer(_heads_gathered, Status.OUTSIDE_TARGET),
    ),
)


def examine_loss(play: Play) -> Verdict:
    """Run on 2 ranks with small logits and on 4 with large ones; compare with the whole, and weigh what was sent."""
    rows = []
    for tp, tokens, words, large in ((2, 30, 12, 1.0), (4, 50, 10, 1000.0)):
        logits = large * draw(tokens, words * tp)
        targets = torch.tensor([secrets.randbelow(words * tp) for _token in range(tokens)])
        inputs = tuple((part.clone(), targets, Part("tp")) for part in logits.chunk(tp, 1))
        played = play(Case(inputs, tp=tp))
        for rank, outcome in enumerate(played.outcomes):
            where = _("{ranks} ranks, rank {rank}, logits up to {most:.0f}")
            words_of = where.format(ranks=tp, rank=rank, most=logits.abs().max().item())
            compare(outcome.value, F.cross_entropy(logits, targets, reduction="none"), words_of)
        enough = 2 * (tp - 1) / tp * NUMBERS * tokens * DOUBLE
        rows.append(bytes_sent(played, enough, enough))
    return weigh(
        rows,
        passed=_("The loss of every token, and no rank has seen all logits. Megatron-LM does it just so."),
        outside=_("The losses are right on every rank. But three numbers a token are enough."),
    )


def split_cross_entropy(logits: Tensor, targets: Tensor, tp: Axis) -> Tensor:
    """The solution: the largest logit, the sum of exponentials, and the target's logit from the rank that has it."""
    words = logits.shape[1]
    largest = comm.all_reduce_max(logits.max(1).values, tp)
    shifted = logits - largest.unsqueeze(1)
    place = targets - tp.rank * words
    here = (place >= 0) & (place < words)
    of_target = shifted.gather(1, (place * here).unsqueeze(1)).squeeze(1) * here
    total, of_target = comm.all_reduce(torch.stack([shifted.exp().sum(1), of_target]), tp).unbind()
    return total.log() - of_target


def _without_the_largest(logits: Tensor, targets: Tensor, tp: Axis) -> Tensor:
    words = logits.shape[1]
    place = targets - tp.rank * words
    here = (place >= 0) & (place < words)
    of_target = logits.gather(1, (place * here).unsqueeze(1)).squeeze(1) * here
    total, of_target = comm.all_reduce(torch.stack([logits.exp().sum(1), of_target]), tp).unbind()
    return total.log() - of_target


def _logits_gathered(logits: Tensor, targets: Tensor, tp: Axis) -> Tensor:
    whole = comm.all_gather(logits, tp, dim=1)
    return torch.nn.functional.cross_entropy(whole, targets, reduction="none")


def _own_words_alone(logits: Tensor, targets: Tensor, tp: Axis) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, targets % logits.shape[1], reduction="none")


def _own_largest(logits: Tensor, targets: Tensor, tp: Axis) -> Tensor:
    words = logits.shape[1]
    shifted = logits - logits.max(1, keepdim=True).values
    place = targets - tp.rank * words
    here = (place >= 0) & (place < words)
    of_target = shifted.gather(1, (place * here).unsqueeze(1)).squeeze(1) * here
    total, of_target = comm.all_reduce(torch.stack([shifted.exp().sum(1), of_target]), tp).unbind()
    return total.log() - of_target


def _elsewhere_counts_too(logits: Tensor, targets: Tensor, tp: Axis) -> Tensor:
    words = logits.shape[1]
    largest = comm.all_reduce_max(logits.max(1).values, tp)
    shifted = logits - largest.unsqueeze(1)
    of_target = shifted.gather(1, (targets % words).unsqueeze(1)).squeeze(1)
    total, of_target = comm.all_reduce(torch.stack([shifted.exp().sum(1), of_target]), tp).unbind()
    return total.log() - of_target


def _the_mean(logits: Tensor, targets: Tensor, tp: Axis) -> Tensor:
    whole = comm.all_gather(logits, tp, dim=1)
    return torch.nn.functional.cross_entropy(whole, targets)


VOCABULARY_LOSS = Exercise(
    name="vocabulary-loss",
    lesson=LESSON,
    examine=examine_loss,
    hints=(
        _("First the largest logit of each token over all ranks: `comm.all_reduce_max`. Subtract it on every rank."),
        _("Each rank sums the exponentials of its own words; an all-reduce makes the sum of all words."),
        _("`place = targets - tp.rank * words` is a word's place on this rank, if it is from 0 to `words` − 1."),
        _("A rank that does not have the word gives 0. Stack the sum and the target's logit: one all-reduce for both."),
    ),
    solution=split_cross_entropy,
    wrong=(
        WrongAnswer(_without_the_largest, Status.WRONG_VALUE),
        WrongAnswer(_logits_gathered, Status.OUTSIDE_TARGET),
        WrongAnswer(_own_words_alone, Status.WRONG_VALUE),
        WrongAnswer(_own_largest, Status.WRONG_VALUE),
        WrongAnswer(_elsewhere_counts_too, Status.WRONG_VALUE),
        WrongAnswer(_the_mean, Status.WRONG_SHAPE),
    ),
)
