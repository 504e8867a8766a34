"""No test touches the learner's own progress."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("shared machine", deadline=None)  # others may be busy on it
settings.load_profile("shared machine")


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh, empty data folder for each test."""
    folder = tmp_path / "data"
    monkeypatch.setenv("COURSE_DATA", str(folder))
    return folder
