"""Which layers go to which stage."""

from __future__ import annotations


def even_cuts(layers: int, stages: int) -> tuple[range, ...]:
    """Cut `layers` layers into `stages` runs whose lengths differ by at most one, the longer runs in the middle.

    The first stage also embeds and the last also computes the loss, so spare layers go between them.
    Raises `ValueError` where a stage would be empty.
    """
    if not 1 <= stages <= layers:
        raise ValueError(f"{layers} layers cannot fill {stages} stages; stages can be 1 to {layers}")
    short, spare = divmod(layers, stages)
    first = (stages - spare) // 2
    lengths = [short + (first <= stage < first + spare) for stage in range(stages)]
    starts = [sum(lengths[:stage]) for stage in range(stages)]
    return tuple(range(start, start + length) for start, length in zip(starts, lengths, strict=True))
