import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from course import server
from course.lessons import ROOT, find, lessons


@contextmanager
def course(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The course's command, ended when the block is left, whatever happened in it."""
    command = [sys.executable, "-m", "course.cli", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_start_prints_an_address_that_serves_the_lesson_and_leaves_nothing_behind() -> None:
    with course("start", "00", "--no-browser") as process:
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


class Forbidden(BaseHTTPRequestHandler):
    """Another person's server: it answers, and refuses."""

    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_port_lost_to_another_server_is_given_up_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forbidden) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        ports = iter([other.server_port, server._free_port()])
        monkeypatch.setattr(server, "_free_port", lambda: next(ports))
        with server.running(find("00")) as lab:
            assert lab.port != other.server_port
            assert lab.answers()
        assert lab.process.poll() is not None
        other.shutdown()


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
    with course("start", "99", "--no-browser") as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.startswith("there is no lesson '99'; there are: 00-start")


def test_a_data_folder_that_cannot_be_written_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file" / "data"))
    with course("start", "--no-browser") as process:
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
