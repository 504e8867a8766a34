"""The operating system's count of what a process sends, seen from outside it."""

import socket
import subprocess
import sys

import pytest

from course.judge import wires

pytestmark = pytest.mark.skipif(not wires.can_count(), reason="this system does not tell what sockets have sent")

CHILD = """
import os, socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for line in sys.stdin:
    one.sendall(b"x" * int(line))
    print(os.fstat(one.fileno()).st_ino, flush=True)
"""


def test_bytes_of_another_process_are_counted_exactly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdin is not None
        assert child.stdout is not None
        with child, server.accept()[0]:
            inode = None
            for size, total in ((10, 10), (5000, 5010), (1, 5011)):
                child.stdin.write(f"{size}\n")
                child.stdin.flush()
                inode = int(child.stdout.readline())
                assert wires.sent_by_all()[inode] == total
            assert inode is not None
            assert inode in wires.sockets(child.pid)
            assert wires.sent_since({inode: 5010}) == 1
            child.stdin.close()
            child.wait(10)
            assert inode not in wires.sockets()


def test_a_socket_that_is_gone_is_not_taken_for_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        before = wires.sent_by_me()
        assert wires.sent_since(before) == 0
        one.close()
        assert wires.sent_since(before) is None
