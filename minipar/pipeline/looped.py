"""The published schedules with several stages a rank: in a loop over the ranks, or in a V there and back.

Each is written for as many micro-batches as its pattern needs, and those beyond m are left out of it. What is left
keeps its order, so it runs wherever the whole did: every schedule here takes every m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import count, product

from minipar.pipeline.schedule import Action, Kind, Schedule
from minipar.pipeline.schedules import check_counts, one_f_one_b

Work = tuple[Kind, int, int]
"""A kind, which of the rank's stages (0 is the one that a micro-batch reaches first), and a micro-batch."""


def breadth_first(ranks: int, micro_batches: int, virtual: int = 2) -> Schedule:
    """GPipe with v stages a rank, in a loop: all micro-batches through the first, all through the second, …

    For p = 4, v = 2 and m = 6, a backward drawn as long as a forward; small letters are the rank's second stage::

        rank 0  F0F1F2F3F4F5f0f1f2f3f4f5 . . . . . .b0b1b2b3b4b5B0B1B2B3B4B5
        rank 1   .F0F1F2F3F4F5f0f1f2f3f4f5 . . . .b0b1b2b3b4b5B0B1B2B3B4B5 .
        rank 2   . .F0F1F2F3F4F5f0f1f2f3f4f5 . .b0b1b2b3b4b5B0B1B2B3B4B5 . .
        rank 3   . . .F0F1F2F3F4F5f0f1f2f3f4f5b0b1b2b3b4b5B0B1B2B3B4B5 . . .

    Bubble of a step: (p−1)(F+B)/v, F and B being those of all a rank's stages; where m < p, (v−1)(p−m)(F+B)/v more.
    Live: m in every stage.
    Source: Lamy-Poirier 2023 (Breadth-First Pipeline Parallelism), §4.
    """

    def row(_: int) -> Iterable[Work]:
        yield from (("F", chunk, i) for chunk in range(virtual) for i in range(micro_batches))
        yield from (("B", chunk, i) for chunk in reversed(range(virtual)) for i in range(micro_batches))

    check_counts(ranks=ranks, micro_batches=micro_batches, virtual=virtual)
    return _written("breadth-first", _loop(ranks, virtual), micro_batches, row)


def interleaved(ranks: int, micro_batches: int, virtual: int = 2) -> Schedule:
    """1F1B with v stages a rank, in a loop: p micro-batches at a time go through each of a rank's stages in turn.

    For p = 4, v = 2 and m = 6, a backward drawn as long as a forward; small letters are the rank's second stage::

        rank 0  F0F1F2F3f0f1f2f3F4F5 .b0 .b1 . .f4b2f5b3B0B1 .B2 .B3b4b5 . .B4B5
        rank 1   .F0F1F2F3f0f1f2f3F4b0F5b1 .b2 .b3f4B0f5B1 .B2 .B3b4b5 . .B4B5 .
        rank 2   . .F0F1F2F3f0f1f2b0f3b1F4b2F5b3 .B0 .B1f4B2f5B3b4b5 . .B4B5 . .
        rank 3   . . .F0F1F2F3f0b0f1b1f2b2f3b3F4B0F5B1B2B3f4b4f5b5 . .B4B5 . . .

    Bubble of a step: (p−1)(F+B)/v, F and B being those of all a rank's stages, where p divides m; else the last
    group leaves gaps, at most (v−1)(p − m mod p)(F+B)/v more. Live on rank r: (v−1)p + 2(p−r−1) + 1 micro-batches in
    one stage or another, vm at most (where p divides m or m ≥ 2p; else no more). v times the messages of 1F1B, which
    it is for v = 1.
    Source: Narayanan et al. 2021, §2.2.2 and Figure 4.
    """
    check_counts(ranks=ranks, micro_batches=micro_batches, virtual=virtual)
    if virtual == 1:
        return one_f_one_b(ranks, micro_batches)
    group = ranks * virtual
    total = -(-micro_batches // ranks) * group

    def unit(k: int) -> tuple[int, int]:
        """Where the k-th forward of every rank is: its stage and its micro-batch."""
        return k % group // ranks, k // group * ranks + k % ranks

    def row(rank: int) -> Iterable[Work]:
        ahead = (virtual - 1) * ranks + 2 * (ranks - rank - 1)
        for k in range(total + ahead):
            if k < total:
                yield "F", *unit(k)
            if k >= ahead:
                chunk, i = unit(k - ahead)
                yield "B", virtual - 1 - chunk, i

    return _written("interleaved 1F1B", _loop(ranks, virtual), micro_batches, row)


def zb_v(ranks: int, micro_batches: int) -> Schedule:
    """Two stages a rank in a V, split backwards: no bubble at 1F1B's memory where F = I = W.

    For p = 4 and m = 6; small letters are the way back::

        rank 0  F0F1F2F3F4F5 .f0i0w0f1i1w1f2i2w2f3i3w3I0W0f4i4w4I1W1f5i5w5I2W2 .I3W3 . .I4W4I5W5
        rank 1   .F0F1F2F3F4f0F5f1i0w0f2i1w1f3i2w2I0W0f4i3w3I1W1f5i4w4I2W2i5w5I3W3 . .I4 .I5W4W5
        rank 2   . .F0F1F2f0F3f1F4f2i0w0f3i1w1F5I0W0f4i2w2I1W1f5i3w3I2W2i4w4I3W3i5w5I4 .I5W4W5 .
        rank 3   . . .F0f0F1f1F2f2F3f3i0w0F4I0W0f4i1w1F5I1W1f5i2w2I2W2i3w3I3W3i4w4I4i5I5W4w5W5 .

    Bubble of a step where F = I = W: none (where m ≥ 2p). Held: 2·min(m, p) micro-batches at most in one stage or the
    other, live or waiting for W: the activations of p whole ones.
    Source: Qi et al. 2024 (Zero Bubble), §6 and Figure 8.
    """
    p = ranks

    def row(rank: int) -> Iterable[Work]:
        turn = _Turn()
        yield from (turn("F", 0) for _ in range(2 * (p - rank) - 1))
        for _ in range(rank):
            yield turn("F", 1)
            yield turn("F", 0)
        for _ in range(p - rank):
            yield from (turn("F", 1), turn("I", 1), turn("W", 1))
        enough = max(micro_batches, 2 * p)
        while turn.count["F", 1] < enough:
            if turn.count["F", 0] < enough:
                yield turn("F", 0)
            yield from (turn("I", 0), turn("W", 0), turn("F", 1), turn("I", 1), turn("W", 1))
        for _ in range(rank):
            yield from (turn("I", 0), turn("I", 1))
        for _ in range(p - rank):
            yield from (turn("I", 0), turn("W", 0))
        yield from (turn("W", chunk) for chunk in (1, 0) for _ in range(enough - turn.count["W", chunk]))

    check_counts(ranks=ranks, micro_batches=micro_batches)
    return _written("ZB-V", _vee(ranks), micro_batches, row)


def v_half(ranks: int, micro_batches: int) -> Schedule:
    """Two stages a rank in a V at about half of 1F1B's memory, with little more than half its bubble where F = I = W.

    For p = 4 and m = 6; small letters are the way back::

        rank 0  F0F1 . . . . .f0F2i0w0f1F3i1w1 .f2F4 .I0i2w2f3W0F5I1i3w3f4W1 .I2i4w4f5W2I3i5w5W3 .I4W4 . . .I5W5
        rank 1   .F0F1 . . .f0 . .F2f1i0w0F3 .f2i1w1I0W0F4f3i2w2I1W1F5f4i3w3I2W2f5i4w4I3W3 .i5w5I4W4 . . .I5W5 .
        rank 2   . .F0 . .f0F1 . .f1F2 .i0w0f2F3I0i1w1f3W0F4I1i2w2f4W1F5I2i3w3f5W2 .I3i4w4W3 .I4i5w5W4 .I5W5 . .
        rank 3   . . .F0f0 . .F1f1 . .F2f2i0w0I0W0F3f3i1w1I1W1F4f4i2w2I2W2F5f5i3w3I3W3 .i4w4I4W4 .i5w5I5W5 . . .

    Bubble of a step where F = I = W = 1: 3.5p−2 (p even) or 3.5(p−1) (p odd), 1F1B's being 6(p−1). It does not grow
    with m where W+2I ≥ 2F and W+2F ≥ 2I. Held: 2⌊(p+2)/2⌋ micro-batches at most in one stage or the other, live or
    waiting for W: the activations of ⌊(p+2)/2⌋ whole ones.
    Source: Qi et al. 2024 (Pipeline Parallelism with Controllable Memory), §3.2, Table 1.
    """
    return _building_blocks("V-half", ranks, micro_batches, (1, 2, 1, 2))


def v_min(ranks: int, micro_batches: int) -> Schedule:
    """Two stages a rank in a V at about a third of 1F1B's memory, with about two thirds of its bubble where F = I = W.

    For p = 4 and m = 6; small letters are the way back::

        rank 0  F0F1 . . . . .f0i0w0F2 . .f1i1I0w1W0F3f2i2I1w2W1F4f3i3I2w3W2F5f4i4I3w4W3 .f5i5I4w5W4 . . .I5W5
        rank 1   .F0 . . . .f0F1 .i0w0 .f1F2I0i1w1W0f2F3I1i2w2W1f3F4I2i3w3W2f4F5I3i4w4W3f5 .I4i5w5W4 . .I5W5 .
        rank 2   . .F0 . .f0 . .F1 .i0f1w0I0F2W0i1f2w1I1F3W1i2f3w2I2F4W2i3f4w3I3F5W3i4f5w4I4W4 .i5w5 .I5W5 . .
        rank 3   . . .F0f0 . . . .F1f1i0I0w0W0F2f2i1I1w1W1F3f3i2I2w2W2F4f4i3I3w3W3F5f5i4I4w4W4 . .i5I5w5W5 . .

    Bubble of a step where F = I = W = 1: 4p−5, or 4p−3 where 3 divides p, 1F1B's being 6(p−1). Held: 2⌊(p+4)/3⌋
    micro-batches at most in one stage or the other, live or waiting for W: the activations of ⌊(p+4)/3⌋ whole ones.
    Source: Qi et al. 2024 (Pipeline Parallelism with Controllable Memory), §3.2, Table 1.
    """
    return _building_blocks("V-min", ranks, micro_batches, (1, 1, 1, 1))


def dualpipe_v(ranks: int, micro_batches: int) -> Schedule:
    """DualPipe folded into a V of two stages a rank: forwards and backwards of the two directions alternate.

    For p = 4 and m = 6; small letters are the way back::

        rank 0  F0F1F2F3F4F5 .f0i0w0f1i1w1f2i2w2f3b3f4B0b4f5B1b5B2 .B3 .I4W4I5W5
        rank 1   .F0F1F2F3F4f0F5f1i0w0f2i1w1f3b2f4B0b3f5B1b4B2 .b5B3 .B4 .I5W5 .
        rank 2   . .F0F1F2f0F3f1F4f2i0w0f3F5b1f4B0b2f5B1b3B2b4B3 .b5B4 .I5W5 . .
        rank 3   . . .F0f0F1f1F2f2F3f3F4b0f4B0F5b1f5B1b2B2b3B3b4B4 .b5B5 . . . .

    Published bubble of a step: (p−1)(F&B + B − 3W), F, B and W being those of one stage, B the whole backward, and F&B
    a forward and a backward that run as one block (exact for m ≥ 2p, F ≤ I and W ≤ I). Here they run one after the
    other, which is never more. Held: 2p + 1 micro-batches at most in one stage or the other, live or waiting for W.
    Source: DeepSeek-AI 2024 (DeepSeek-V3), §3.2.1; the DualPipe repository's README for the V.
    """
    check_counts(ranks=ranks, micro_batches=micro_batches)
    enough = max(micro_batches, 2 * ranks)
    return _written("DualPipe-V", _vee(ranks), micro_batches, lambda r: _dualpipe_v_row(r, ranks, enough))


def _dualpipe_v_row(rank: int, p: int, m: int) -> Iterator[Work]:
    """The eight phases of the published order, for m ≥ 2p micro-batches."""
    turn, after, upto = _Turn(), p - rank - 1, rank + 1
    late: list[int] = []  # stages whose W waits, oldest first

    def whole(chunk: int) -> Work:
        return turn("B", chunk)

    def split(chunk: int) -> Work:
        late.append(chunk)
        return turn("I", chunk)

    yield from (turn("F", 0) for _ in range(2 * after))
    for _ in range(upto):
        yield from (turn("F", 0), turn("F", 1))
    for _ in range(after):
        yield from (split(1), turn("W", late.pop(0)), turn("F", 1))
    for _ in range(m - 2 * p + upto):
        yield from (turn("F", 0), whole(1), turn("F", 1), whole(0))
    for _ in range(after):
        yield from (whole(1), turn("F", 1), whole(0))
    halves = [chunk for _ in range(upto) for chunk in (1, 0)]
    first_split = upto // 2 * 2 + (rank % 2 == 0)
    for k, chunk in enumerate(halves):
        yield split(chunk) if k >= first_split else whole(chunk)
    for _ in range(after):
        yield turn("W", late.pop(0))
        yield split(0)
    while late:
        yield turn("W", late.pop(0))


class _Turn:
    """Counts how far each kind is on each of a rank's stages, a B being an I and a W."""

    def __init__(self) -> None:
        self.count = {(kind, chunk): 0 for kind in "FIW" for chunk in (0, 1)}

    def __call__(self, kind: Kind, chunk: int) -> Work:
        parts = "IW" if kind == "B" else kind
        i = self.count[parts[0], chunk]
        for part in parts:
            self.count[part, chunk] += 1
        return kind, chunk, i


def _building_blocks(name: str, ranks: int, micro_batches: int, steps: tuple[int, int, int, int]) -> Schedule:
    """Every sixth unit of time a micro-batch starts, and all follow the same pattern in space and time: a block.

    steps: by how many units the pattern's F, F', I', I come later from one rank to the next one that does them. Within
    its six units a rank has one slot for each; W' and W take the two that are left. F = I = W = 1.
    """
    check_counts(ranks=ranks, micro_batches=micro_batches)
    p = ranks

    def row(rank: int) -> Iterable[Work]:
        block = _block(p, steps)[rank]
        slots = sorted((start % 6, start // 6, *work) for work, start in block.items())
        for period in range(micro_batches + max(late for _, late, _, _ in slots)):
            for _, late, kind, chunk in slots:
                if period >= late:
                    yield kind, chunk, period - late

    return _written(name, _vee(ranks), micro_batches, row)


Block = list[dict[tuple[Kind, int], int]]
"""For each rank, when it does which kind on which of its stages for micro-batch 0."""


@cache
def _block(p: int, steps: tuple[int, int, int, int]) -> Block:
    """Of the blocks in which no two actions of a rank meet modulo 6, the one that holds least, then the shortest."""
    candidates = (_shifted(p, steps, shift) for shift in sorted(product(range(6), repeat=3), key=sum))
    return min(filter(None, candidates), key=lambda block: max(map(_held, block)))


def _shifted(p: int, steps: tuple[int, int, int, int], shift: tuple[int, ...]) -> Block | None:
    """The block whose F', I' and I start as soon as they can plus `shift`; None where two actions meet modulo 6."""
    down, up, back_down, back_up = steps
    up_at = (down + up) * (p - 1) + 1 + shift[0]
    back_down_at = up_at + 1 + shift[1]
    back_up_at = back_down_at + (back_down + back_up) * (p - 1) + 1 + shift[2]
    block: Block = []
    for r in range(p):
        row: dict[tuple[Kind, int], int] = {
            ("F", 0): down * r,
            ("F", 1): up_at - up * r,
            ("I", 1): back_down_at + back_down * r,
            ("I", 0): back_up_at - back_up * r,
        }
        taken = {start % 6 for start in row.values()}
        if len(taken) < len(row):
            return None
        for chunk in (1, 0):
            row["W", chunk] = next(t for t in count(row["I", chunk] + 1) if t % 6 not in taken)
            taken.add(row["W", chunk] % 6)
        block.append(row)
    return block


def _held(row: dict[tuple[Kind, int], int]) -> int:
    """How many micro-batches, stage by stage, a rank holds at once when its block repeats every 6 units."""
    lives = [(row["F", chunk], row["W", chunk] + 1) for chunk in (0, 1)]
    return max(sum((t - start) // 6 - (t - end) // 6 for start, end in lives) for t in range(6))


def _loop(ranks: int, virtual: int) -> tuple[int, ...]:
    return tuple(range(ranks)) * virtual


def _vee(ranks: int) -> tuple[int, ...]:
    return (*range(ranks), *reversed(range(ranks)))


def _written(name: str, holder: tuple[int, ...], micro_batches: int, row: Callable[[int], Iterable[Work]]) -> Schedule:
    """The schedule whose ranks do what `row` says, without the micro-batches that there are not."""
    rows = []
    for rank in range(max(holder) + 1):
        held = [stage for stage, at in enumerate(holder) if at == rank]
        rows.append(tuple([Action(kind, held[chunk], i) for kind, chunk, i in row(rank) if i < micro_batches]))
    return Schedule(name, tuple(rows), holder)
