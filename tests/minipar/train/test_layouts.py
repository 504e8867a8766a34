"""Every mesh of up to 8 ranks trains as PyTorch trains the unsplit model: clipped, with tied embeddings."""

from __future__ import annotations

from itertools import product

import pytest

from minipar.layout import Layout
from minipar.model import Recompute
from minipar.pipeline.names import LOOPED, by_name
from minipar.verify import verify

MESHES = [mesh for mesh in product(range(1, 9), repeat=3) if mesh[0] * mesh[1] * mesh[2] <= 8]
SCHEDULES = ["1f1b", "zb-h1", "interleaved", "gpipe", "zb-v"]
RECOMPUTE = [Recompute.NONE, Recompute.FULL, Recompute.SELECTIVE]


def layout_of(number: int, dp: int, pp: int, tp: int) -> Layout:
    """A layout on this mesh; numbers that follow each other differ in all that can differ."""
    name = SCHEDULES[number % len(SCHEDULES)]
    virtual = 2 if name in LOOPED else None
    schedule = by_name(name, pp, 2 + number % 2 * 2, virtual)
    zero = number % 4 > 1
    return Layout(schedule, dp, tp, number % 2 == 0, RECOMPUTE[number % len(RECOMPUTE)], zero)


@pytest.mark.parametrize(("number", "mesh"), list(enumerate(MESHES)), ids=str)
def test_every_mesh_of_up_to_8_ranks_trains_as_the_unsplit_model(number: int, mesh: tuple[int, int, int]) -> None:
    layout = layout_of(number, *mesh)
    assert max(verify(layout)) < 1e-12, layout


@pytest.mark.parametrize("number", range(0, 60, 12))
def test_what_saves_memory_changes_nothing_on_a_mesh_with_all_three_axes(number: int) -> None:
    layout = layout_of(number + number // 20, 2, 2, 2)
    assert max(verify(layout)) < 1e-12, layout
