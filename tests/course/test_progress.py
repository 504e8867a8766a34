import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course.progress import Progress, ProgressError, data_folder


def test_what_is_recorded_is_found_again_by_another_process_object() -> None:
    Progress().record("answer", "00-start/bubble", 0.5, [1, 2])
    Progress().record("answer", "00-start/bubble", 1.0, [0])
    events = Progress().events("answer", "00-start/bubble")
    assert [(event.points, event.detail) for event in events] == [(0.5, [1, 2]), (1.0, [0])]
    assert events[0].at <= events[1].at
    assert events[0].at.tzinfo is not None


def test_the_best_counts_and_other_items_do_not() -> None:
    progress = Progress()
    for points in (0.0, 1.0, 0.5):
        progress.record("answer", "quiz/a", points)
    progress.record("answer", "quiz/b", 9)
    progress.record("exercise", "quiz/a", 9)
    assert progress.best("answer", "quiz/a") == 1.0
    assert progress.best("answer", "quiz/none") is None


def test_it_is_kept_in_the_folder_that_course_data_names(data_folder: Path) -> None:
    Progress().record("hint", "x")
    assert (data_folder / "progress.sqlite3").exists()


def test_without_course_data_it_is_kept_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("COURSE_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in data_folder().parents


def test_a_folder_that_cannot_be_written_is_a_clear_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A file where the folder should be stops even root, whom permissions do not.
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(ProgressError, match=r"cannot be kept in .*file/data.*Set COURSE_DATA to a folder"):
        Progress().record("hint", "x")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody, not even root, can write")
def test_a_read_only_home_is_a_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COURSE_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", "/sys/home")
    with pytest.raises(ProgressError, match=r"cannot be kept in /sys/home/.*(denied|Read-only|not permitted)"):
        Progress().record("hint", "x")


def test_a_damaged_file_is_a_clear_sentence_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(ProgressError, match="not a database"):
        Progress(path).record("hint", "x")
    assert path.read_bytes() == b"this is no database" * 100


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ProgressError, match="newer version"):
        Progress(path).record("hint", "x")


def test_many_writers_at_once_lose_nothing() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: Progress().record("answer", "q", i), range(80)))
    assert sorted(event.points for event in Progress().events("answer", "q")) == list(range(80))


def test_a_writer_that_is_killed_leaves_a_store_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    code = (
        "import sys; from pathlib import Path; from course.progress import Progress\n"
        "for i in range(10**6): Progress(Path(sys.argv[1])).record('answer', 'q', i); print(i, flush=True)"
    )
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        time.sleep(0.003)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        events = Progress(path).events("answer", "q")
        assert len(events) >= 20
        assert [event.points for event in events[:20]] == list(range(20))
