"""Timelines drawn as in the papers, a word for each second, to compare with pictures that are typed."""

from __future__ import annotations

from minipar.pipeline import Timeline


def staircase(timeline: Timeline, between: str = " ") -> list[str]:
    """A row for each rank of a timeline of whole seconds; small letters where a rank works on its second stage."""
    rows = [["."] * round(timeline.end) for _ in range(timeline.ranks)]
    first = {rank: min(span.action.stage for span in row) for rank, row in enumerate(timeline.rows) if row}
    for rank, action, start, end in timeline.spans:
        kind = action.kind if action.stage == first[rank] else action.kind.lower()
        rows[rank][round(start) : round(end)] = [f"{kind}{action.micro_batch}"] * round(end - start)
    return [between.join(f"{word:>2}" for word in row).rstrip() for row in rows]


def docstring_picture(text: str) -> list[str]:
    """The lines of the first picture in a docstring, without their "rank 0"."""
    lines = [line.strip() for line in text.splitlines()]
    return [line.split("  ", 1)[1].rstrip() for line in lines if line.startswith("rank ")]
