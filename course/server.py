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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from course.lessons import ROOT, Lesson
from course.progress import data_folder

FIRST_PORT, PORTS = 8888, 50
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

    def wait(self) -> None:
        """Return when the server answers; `RuntimeError` if it ends or stays silent."""
        deadline = time.monotonic() + PATIENCE
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy knows this machine's ports
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"JupyterLab ended at once, with exit code {self.process.returncode}")
            try:
                with direct.open(f"http://localhost:{self.port}/api", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"JupyterLab did not answer on port {self.port} within {PATIENCE:g} s")


def start(lesson: Lesson, root: Path = ROOT) -> Server:
    """Start JupyterLab in `root` with `lesson` open. Its settings and workspace are the course's own, not the user's.

    Raises `OSError` where the data folder cannot be written, `RuntimeError` where no port is free.
    """
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
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server will: a port just left is free
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError(f"no port between {FIRST_PORT} and {FIRST_PORT + PORTS - 1} is free")


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
