import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from course import server
from course.lessons import ROOT, find, lessons


def course(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "course.cli", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_start_prints_an_address_that_serves_the_lesson_and_leaves_nothing_behind() -> None:
    process = course("start", "00", "--no-browser")
    assert process.stdout is not None
    said = ""
    while "http://" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    found = re.search(r"(http://localhost:\d+)/lab/tree/(\S+)\?token=(\S+)", said)
    assert found is not None
    base, path, token = found.groups()
    assert path == "notebooks/00-start.ipynb"
    assert "welcome" in urllib.request.urlopen(f"{base}/api/contents/{path}?token={token}").read().decode()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{base}/api/contents/{path}")
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(signal.SIGTERM)
    process.wait(15)
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_without_a_display_it_says_how_to_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 5000 10.0.0.2 22")
    monkeypatch.setenv("USER", "ada")
    assert not server.has_display()
    assert server.tunnel(8901) == "ssh -N -L 8901:localhost:8901 ada@10.0.0.2"


def test_a_taken_port_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", server._free_port())) as taken:
        assert server._free_port() != taken.getsockname()[1]


def test_an_unknown_lesson_is_a_sentence() -> None:
    process = course("start", "99", "--no-browser")
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.startswith("there is no lesson '99'; there are: 00-start")


def test_a_data_folder_that_cannot_be_written_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    process = course("start", "--no-browser")
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Set COURSE_DATA to a folder that can be written" in " ".join(said.split())
    assert "Traceback" not in said


def test_every_lesson_has_its_notebook_and_quiz_and_builds_on_earlier_ones() -> None:
    seen: list[str] = []
    for lesson in lessons():
        assert lesson.notebook.is_file()
        assert lesson.quiz.is_file()
        assert set(lesson.builds_on) <= set(seen)
        assert find(lesson.id) == find(lesson.name) == lesson
        seen.append(lesson.name)
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == {lesson.name for lesson in lessons()}
