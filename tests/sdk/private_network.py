"""A network of this process's own, where the well-known ports are free and names resolve as told.

Programs for Service Bus know its ports by heart: 5672 and 5300 of the emulator, 5671 and 443 of
Azure, at a host's name. On a machine that others use too, those ports may be taken; and its
/etc/hosts is not for tests to change. Linux gives a process, and whatever it starts, a loopback and
an /etc/hosts of their own.
"""

import ctypes
import fcntl
import os
import socket
import struct
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP, IFF_RUNNING = 0x8914, 0x8916, 0x1, 0x40

_libc = ctypes.CDLL(None, use_errno=True)


class Unsupported(Exception):
    """This machine lets no process have a network of its own; says why."""


def enter(hosts: Mapping[str, str], addresses: Iterable[str] = ()) -> None:
    """Moves this process, and what it starts from now on, into a network of its own.

    `hosts` maps names to addresses, which are loopback's (127.0.0.0/8) or of `addresses`: those the
    machine has besides, as it would have one on a local network. To be called before any thread is
    started. Nothing outlives the process.
    """
    user, group = os.getuid(), os.getgid()
    if user == 0:
        _call("unshare", CLONE_NEWNS | CLONE_NEWNET)
    else:
        # Who is nobody special may still be root of a room of his own.
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {user} 1")
        _write("/proc/self/gid_map", f"0 {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14s", b"lo", IFF_UP | IFF_RUNNING, b"")
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
        for number, address in enumerate(addresses):
            name = f"lo:{number}".encode()
            internet = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(any_socket, SIOCSIFADDR, struct.pack("16s16s", name, internet))
    # What is mounted from here on is seen from here on, and nowhere else.
    _call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    with tempfile.NamedTemporaryFile("w", prefix="mayfly-hosts-") as file:
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in hosts.items())]
        file.write("\n".join(lines) + "\n")
        file.flush()
        os.chmod(file.name, 0o644)
        cover(Path("/etc/hosts"), Path(file.name))


def cover(path: Path, by: Path) -> None:
    """Whoever opens the first file gets the second: this process, once it has a network of its own,
    and what it starts."""
    _call("mount", bytes(by), bytes(path), None, MS_BIND, None)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        raise Unsupported(f"{name}: {os.strerror(ctypes.get_errno())}")


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise Unsupported(f"{path}: {error}") from error
