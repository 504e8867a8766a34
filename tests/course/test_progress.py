import json
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

from course.progress import Progress, ProgressError, data_folder

OLD = Path(__file__).parents[1] / "data" / "progress_v1.sqlite3"


def test_what_is_recorded_is_found_again_by_another_process_object() -> None:
    Progress().record("answer", "00-start/bubble", 0.5, [1, 2])
    Progress().record("answer", "00-start/bubble", 1.0, [0])
    events = Progress().events("answer", "00-start/bubble")
    assert [(event.points, event.detail) for event in events] == [(0.5, [1, 2]), (1.0, [0])]
    assert events[0].at <= events[1].at
    assert events[0].at.tzinfo is not None
    assert events[0].uuid != events[1].uuid


def test_what_record_returns_is_what_is_kept() -> None:
    made = [Progress().record("attempt", "00-start", 0.5, {"seed": 1}), Progress().record("hint", "x")]
    assert Progress().log() == made
    assert Progress().log("hint") == made[1:]
    assert Progress().log("solution") == []


def test_the_best_counts_and_other_items_do_not() -> None:
    progress = Progress()
    for points in (0.0, 1.0, 0.5):
        progress.record("answer", "quiz/a", points)
    progress.record("answer", "quiz/b", 9)
    progress.record("exercise", "quiz/a", 9)
    assert progress.best("answer", "quiz/a") == 1.0
    assert progress.best("answer", "quiz/none") is None


def test_what_could_not_be_exported_is_not_recorded() -> None:
    for item, points, detail in (
        ("no item", 0, None),
        ("x", float("nan"), None),
        ("x", 0, {1}),
        ("x", 0, float("inf")),
    ):
        with pytest.raises(ValueError, match=r"cannot|no JSON"):
            Progress().record("answer", item, points, detail)
    with pytest.raises(ValueError, match="no kind of event"):
        Progress().record("other", "x")  # type: ignore[arg-type]
    assert Progress().log() == []


def test_an_export_merged_elsewhere_is_the_same_log_and_merging_again_adds_nothing(tmp_path: Path) -> None:
    here, there = Progress(), Progress(tmp_path / "there.sqlite3")
    for i in range(5):
        here.record("answer", "q", i, {"text": "ß €", "list": [1, None, 2.5]})
    document = json.loads(json.dumps(here.export()))
    assert there.merge(document) == 5
    assert there.log() == here.log()
    assert there.merge(document) == 0
    assert here.merge(there.export()) == 0
    there.record("hint", "q")
    assert here.merge(there.export()) == 1
    assert here.log() == there.log()


def test_an_event_that_is_twice_in_a_document_is_added_once(tmp_path: Path) -> None:
    Progress().record("hint", "q")
    document = Progress().export()
    document["events"] *= 2
    assert Progress(tmp_path / "there.sqlite3").merge(document) == 1


def test_the_log_is_in_order_of_time_however_it_was_merged(tmp_path: Path) -> None:
    early, late = Progress(tmp_path / "early.sqlite3"), Progress()
    early.record("hint", "early")
    late.record("hint", "late")
    late.merge(early.export())
    assert [event.item for event in late.log()] == ["early", "late"]


def test_a_file_of_version_1_is_migrated_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    shutil.copy(OLD, path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        old = db.execute("SELECT at, kind, item, points, detail FROM event ORDER BY id").fetchall()
    db.close()
    log = Progress(path).log()
    assert [(e.at, e.kind, e.item, e.points, e.detail) for e in log] == [
        (datetime.fromisoformat(at), kind, item, points, json.loads(detail)) for at, kind, item, points, detail in old
    ]
    assert len(log) == 5
    assert len({event.uuid for event in log}) == 5
    assert Progress(path).best("answer", "00-start/bubble") == 1.0
    Progress(path).record("hint", "new")
    assert len(Progress(path).log()) == 6


def test_two_copies_of_one_old_file_hold_the_same_events_still(tmp_path: Path) -> None:
    one, two = (Progress(Path(shutil.copy(OLD, tmp_path / f"{i}.sqlite3"))) for i in range(2))
    assert one.merge(two.export()) == 0


def test_a_migration_that_fails_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    shutil.copy(OLD, path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE event SET at = 'no time' WHERE id = 3")
    db.close()
    with pytest.raises(ProgressError, match=r"cannot be kept in .*the file is damaged"):
        Progress(path).log()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM event").fetchone() == (5,)
    db.close()


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


def test_several_kernels_write_and_migrate_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    shutil.copy(OLD, path)
    code = (
        "import sys; from pathlib import Path; from course.progress import Progress\n"
        "for i in range(30): Progress(Path(sys.argv[1])).record('answer', sys.argv[2], i)"
    )
    kernels = [subprocess.Popen([sys.executable, "-c", code, str(path), f"kernel-{k}"]) for k in range(3)]
    assert [kernel.wait(60) for kernel in kernels] == [0, 0, 0]
    for k in range(3):
        assert [e.points for e in Progress(path).events("answer", f"kernel-{k}")] == list(range(30))
    assert len(Progress(path).log()) == 95


def killed_while_it_writes(path: Path, seconds: float) -> list[int]:
    """A child writes events in a loop, and is killed after so many seconds; the numbers that `record` returned for."""
    said, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(said)
            for number in range(10**6):
                Progress(path).record("answer", f"child-{os.getpid()}", number, {"text": "x" * 3000})
                os.write(say, struct.pack("=I", number))
        finally:
            os._exit(1)
    os.close(say)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _pid, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    with open(said, "rb") as pipe:
        data = pipe.read()
    assert len(data) % 4 == 0
    return [number for (number,) in struct.iter_unpack("=I", data)]


@pytest.mark.alone
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_of_100_writers_that_are_killed_none_leaves_half_an_event_and_none_loses_one(tmp_path: Path) -> None:
    path, chance = tmp_path / "progress.sqlite3", random.Random(2026)
    Progress(path).record("hint", "before")
    journals = written = 0
    before = 1
    for _round in range(100):
        returned = killed_while_it_writes(path, chance.uniform(0.002, 0.06))
        journals += Path(f"{path}-journal").exists()  # it was killed in the middle of a transaction
        assert returned == list(range(len(returned)))
        log = Progress(path).log()
        new = log[before:] if before < len(log) else []
        # What record() returned for is there; at most one more, which was kept before the child could say so.
        assert [event.points for event in new][: len(returned)] == returned
        assert len(new) - len(returned) in (0, 1)
        assert all(event.detail == {"text": "x" * 3000} for event in new)
        before, written = len(log), written + len(new)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    assert journals >= 5, "the kills hardly ever met a write; the test shows nothing"
    assert written >= 100
    assert Progress(path).log()[0].item == "before"


def test_an_old_file_whose_migration_is_killed_opens_as_old_or_as_new(tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(25):
        path = tmp_path / f"{number}.sqlite3"
        shutil.copy(OLD, path)
        child = os.fork()
        if child == 0:
            try:
                Progress(path).log()
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0.0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert len({event.uuid for event in Progress(path).log()}) == 5


def test_the_time_of_an_event_is_now_in_utc() -> None:
    at = Progress().record("hint", "x").at
    assert at.tzinfo is timezone.utc
    assert abs((datetime.now(timezone.utc) - at).total_seconds()) < 60


def test_an_event_that_is_damaged_in_the_file_is_a_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    Progress(path).record("hint", "x")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE event SET detail = '{'")
    db.close()
    with pytest.raises(ProgressError, match="the file is damaged"):
        Progress(path).log()
