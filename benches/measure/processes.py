"""Processes that end with the script, however it ends."""

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

READY_MAX = 300  # Seconds a cluster may take until it serves.
END_MAX = 20  # Seconds processes may take to end by themselves.
PR_SET_PDEATHSIG = 1
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Ports are looked for here: below the range for outgoing connections.
PORTS = (10_000, 32_000)

Command = list[str | Path]


class Failed(Exception):
    """A cluster or a program did not do what it was started for."""


def end_cleanly_on_signals() -> None:
    """Ended from outside, the script ends what it started on the way out, once."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit("ended by a signal")

    signal.signal(signal.SIGTERM, end)


def end_with_parent() -> None:
    """For a new process: it is told to end when this one is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_open(port: int) -> bool:
    """Somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Neighbouring ports that nobody listens on."""
    for _ in range(200):
        first = random.randrange(*PORTS)
        ports = list(range(first, first + count))
        if all(map(is_free, ports)):
            return ports
    raise Failed(f"no {count} free ports side by side")


def _stat(pid: str) -> list[str] | None:
    """The fields behind the process's name; `None` for one that has just gone."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


class Servers:
    """Processes of one cluster. Each heads a session of its own, which holds all that it starts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._heads: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Command, env: Mapping[str, str] | None = None) -> None:
        with self.log_path(name).open("ab") as log:
            self._heads[name] = subprocess.Popen(
                command,
                env=env,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def log_path(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def log(self, name: str) -> str:
        return self.log_path(name).read_text(errors="replace")

    def check(self) -> None:
        """Raises when one of them has ended."""
        for name, head in self._heads.items():
            if head.poll() is not None:
                said = "\n".join(self.log(name).splitlines()[-15:])
                raise Failed(f"{name} ended with {head.returncode}:\n{said}")

    def cpu_seconds(self) -> float:
        """Used so far by all of them that live, and what they started."""
        ticks = 0
        for fields in self._members().values():
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS_PER_SECOND

    def _members(self) -> dict[int, list[str]]:
        sessions = {head.pid for head in self._heads.values()}
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            fields = _stat(pid)
            if fields and int(fields[3]) in sessions and fields[0] != "Z":
                found[int(pid)] = fields
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all of them, politely at first."""
        for head in self._heads.values():
            head.terminate()
        until = time.monotonic() + END_MAX
        while self._members() and time.monotonic() < until:
            for head in self._heads.values():
                head.poll()
            time.sleep(0.05)
        for pid in self._members():
            os.kill(pid, signal.SIGKILL)
        for head in self._heads.values():
            head.wait()
        self._heads.clear()


def wait_until(servers: Servers, what: str, ready: Iterable[bool]) -> None:
    """Draws answers until one is yes, a server ends, or the time is over."""
    until = time.monotonic() + READY_MAX
    for answer in ready:
        servers.check()
        if answer:
            return
        if time.monotonic() > until:
            raise Failed(f"{what} is not ready after {READY_MAX} s")
        time.sleep(0.1)


class Run:
    """A program under way whose standard output is its result. Ended when it is left."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=end_with_parent,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def runs(self) -> bool:
        return self._process.poll() is None

    def result(self, seconds_max: float) -> str:
        """Waits for its end, and ends it when it takes too long or this script is interrupted."""
        try:
            output, errors = self._process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{self._name()} does not end within {seconds_max:.0f} s") from error
        finally:
            self.stop()
        if self._process.returncode != 0:
            said = errors.decode(errors="replace").strip().splitlines()
            raise Failed(f"{self._name()}: {said[-1] if said else self._process.returncode}")
        return output.decode()

    def stop(self) -> None:
        if self.runs():
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self.stop()

    def _name(self) -> str:
        words = [Path(self._command[0]).name, *map(str, self._command[1:3])]
        return " ".join(words)
