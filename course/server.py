"""Start JupyterLab quietly on a lesson: settings of the course's own, a fresh token, the address when it is up."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from course.lessons import ROOT, Lesson
from course.progress import data_folder

FIRST_PORT, PORTS = 8888, 50
ATTEMPTS = 3  # to have a port: between finding it free and listening on it another program may take it
PATIENCE = 60.0  # seconds for the server to answer

SETTINGS: Mapping[str, Mapping[str, object]] = {
    "apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false", "checkForUpdates": False},
    # Every cell is rendered, so that a widget keeps its state when it is scrolled out of sight.
    "notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
}


@dataclass(frozen=True)
class Server:
    """A JupyterLab that is starting: its process and where it will answer."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    page: str

    @property
    def address(self) -> str:
        """What to open in a browser on this machine."""
        return f"http://localhost:{self.port}/{self.page}?token={self.token}"

    def answers(self) -> bool:
        """Wait until it answers; false where it ended because another program took its port first.

        Raises `RuntimeError` if it ends for another reason or stays silent.
        """
        deadline = time.monotonic() + PATIENCE
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy knows this machine's ports
        # Only the one that was started here takes the token: another server on this port would answer too.
        asked = urllib.request.Request(
            f"http://localhost:{self.port}/api/status", headers={"Authorization": f"token {self.token}"}
        )
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                if not _is_free(self.port):
                    return False
                raise RuntimeError(f"JupyterLab ended at once, with exit code {self.process.returncode}")
            try:
                with direct.open(asked, timeout=2):
                    return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"JupyterLab did not answer on port {self.port} within {PATIENCE:g} s")

    def end(self) -> None:
        """End it, and wait until it has ended."""
        self.process.terminate()
        self.process.wait()


@contextmanager
def running(lesson: Lesson, root: Path = ROOT) -> Iterator[Server]:
    """A JupyterLab in `root` that answers, with `lesson` open; it is ended when the block is left.

    Its settings and workspace are the course's own, not the user's. Raises `OSError` where the data folder cannot be
    written, `RuntimeError` where no port is free or JupyterLab does not start.
    """
    for _attempt in range(ATTEMPTS):
        server = _start(lesson, root)
        try:
            if server.answers():
                yield server
                return
        finally:
            server.end()
    raise RuntimeError(f"other programs took each of {ATTEMPTS} ports before JupyterLab could")


def _start(lesson: Lesson, root: Path) -> Server:
    home = data_folder() / "jupyterlab"
    for name, content in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content), encoding="utf-8")
    port, token = _free_port(), secrets.token_urlsafe(24)
    page = f"lab/tree/{lesson.notebook.relative_to(ROOT).as_posix()}"
    return Server(_launch(root, home, port, token, page), port, token, page)


def _launch(root: Path, home: Path, port: int, token: str, page: str) -> subprocess.Popen[bytes]:
    options = [
        "--no-browser",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/{page}",
        f"--LabApp.user_settings_dir={home / 'settings'}",
        f"--LabApp.workspaces_dir={home / 'workspaces'}",
        "--KernelManager.transport=ipc",
        "--ServerApp.kernel_websocket_connection_class=course.channels.Channels",
        "--Application.log_level=ERROR",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")  # on a rented GPU machine one often is root
    # The token goes by the environment: a command line can be read by everyone on the machine.
    environment = os.environ | {"JUPYTER_TOKEN": token}
    return subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=environment)


def _free_port() -> int:
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        if _is_free(port):
            return port
    raise RuntimeError(f"no port between {FIRST_PORT} and {FIRST_PORT + PORTS - 1} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server will: a port just left is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def has_display() -> bool:
    """Whether a browser opened here would be seen by the person who asked."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def tunnel(port: int) -> str:
    """The command that brings the server's port to the learner's own machine."""
    user, connection = os.environ.get("USER") or "USER", os.environ.get("SSH_CONNECTION", "").split()
    host = connection[2] if len(connection) == 4 else socket.gethostname()  # the address that they came in by
    return f"ssh -N -L {port}:localhost:{port} {shlex.quote(f'{user}@{host}')}"
