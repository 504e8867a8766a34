"""Checkpoints that several tests read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import cloudpickle
import pytest

import minipar
from minipar.train.checkpoint import (
    save,
)
from tests.minipar.train.states import (
    FOUR,
    ONE,
    SOURCES,
    Layout,
    root_of,
    state_of,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no rank imports this file, and pytest with it


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints of two models, saved on layouts of one and of four ranks."""
    folder = tmp_path_factory.mktemp("saved")

    def on_rank(layouts: Sequence[Layout]) -> None:
        for layout in layouts:
            mesh = layout.mesh()
            for config in (config for config in SOURCES if layout in SOURCES[config]):
                save(root_of(folder, config, layout), 50, state_of(config, mesh, 50, layout.v), mesh)

    minipar.run(on_rank, 4, FOUR, timeout=30, device="cpu")
    on_rank(ONE)
    return folder
