"""What a process has sent, by the operating system's count of its sockets; read from outside that process (Linux)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping

TCP_INFO, SENT = 11, 200  # `tcpi_bytes_sent` of Linux's `struct tcp_info` (since 4.19): where it begins, in bytes
DIAGNOSIS, BY_FAMILY, WITH_INFO = 4, 20, 2  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, INET_DIAG_INFO
REQUEST, DUMP, ERROR, DONE = 1, 0x300, 2, 3  # of netlink
HEADER, MESSAGE = struct.Struct("=IHHII"), 72  # of netlink; the size of `struct inet_diag_msg`
INODE = 68  # where it holds the socket's inode


def sockets(pid: int | None = None) -> set[int]:
    """The inodes of the sockets that a process (this one if None) has open."""
    folder, inodes = f"/proc/{'self' if pid is None else pid}/fd", set()
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if (target := os.readlink(f"{folder}/{name}")).startswith("socket:["):
                inodes.add(int(target[8:-1]))
    return inodes


def sent_by_me() -> dict[int, int]:
    """Bytes that this process has sent, by the inode of each TCP socket that it has open; by its own look at them."""
    counts: dict[int, int] = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as one:
            if one.type == socket.SOCK_STREAM and one.family in (socket.AF_INET, socket.AF_INET6):
                counts[os.fstat(one.fileno()).st_ino] = _sent_by(one)
    return counts


def _sent_by(one: socket.socket) -> int:
    sent: int = struct.unpack_from("=Q", one.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 256), SENT)[0]
    return sent


def sent_by_all() -> dict[int, int]:
    """Bytes that every TCP socket of this machine has sent, by inode. Raises `OSError` where nobody tells."""
    counts: dict[int, int] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, DIAGNOSIS) as diagnosis:
            diagnosis.settimeout(5)
            ask = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (WITH_INFO - 1), 0, 0xFFFFFFFF)
            diagnosis.send(HEADER.pack(HEADER.size + len(ask), BY_FAMILY, REQUEST | DUMP, 1, 0) + ask)
            for body in _bodies(diagnosis):
                info = dict(_attributes(body[MESSAGE:])).get(WITH_INFO, b"")
                if len(info) >= SENT + 8:
                    counts[struct.unpack_from("=I", body, INODE)[0]] = struct.unpack_from("=Q", info, SENT)[0]
    return counts


def _bodies(diagnosis: socket.socket) -> Iterator[bytes]:
    while True:
        data = diagnosis.recv(1 << 20)
        while data:
            size, kind, *_rest = HEADER.unpack_from(data)
            if kind == DONE:
                return
            if kind == ERROR:
                raise OSError("the sockets of this machine cannot be listed")
            yield data[HEADER.size : size]
            data = data[(size + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        yield kind, data[4:size]
        data = data[max(4, (size + 3) & ~3) :]


def can_count() -> bool:
    """Whether the operating system tells here what other processes' sockets have sent."""
    if sys.platform != "linux":
        return False
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as one,
            server.accept()[0] as other,
        ):
            one.sendall(b"12345")
            other.recv(5)
            return sent_by_all().get(os.fstat(one.fileno()).st_ino) == _sent_by(one) == 5
    except (OSError, struct.error):
        return False


def sent_since(before: Mapping[int, int]) -> int | None:
    """Bytes that these sockets have sent since `before`; None where one of them is gone."""
    now = sent_by_all()
    if before.keys() - now.keys():
        return None
    return sum(now[inode] - count for inode, count in before.items())
