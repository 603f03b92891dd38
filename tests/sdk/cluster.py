"""A cluster of real processes, as `mayfly up` starts them, and a node that asks for keys."""

import contextlib
import ctypes
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

READY_MAX = 90  # Seconds a cluster, or a node that was killed, may take.
END_MAX = 30  # Seconds it may take to end.
# Of node 1; those of the others are 1000 apart.
HTTP, GRPC, PEERS, AMQP, AMQPS = 5300, 5310, 5320, 5672, 5671
FORWARDED = 5700
NODES = (1, 2, 3)
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """A process ends with the one that started it, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _free_offset() -> int:
    """To be added to every port. All of them stay below the range for outgoing connections."""
    each = (HTTP, GRPC, PEERS, AMQP, AMQPS)
    ports = [port + 1000 * node for node in range(len(NODES)) for port in each]
    for _ in range(100):
        offset = random.randrange(8_000, 24_000, 10)
        if all(_is_free(port + offset) for port in (*ports, FORWARDED)):
            return offset
    raise RuntimeError("no free ports for a cluster")


def free_port() -> int:
    """Of this machine; somebody else may take it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        return listener.connect_ex(("127.0.0.1", port)) != 0


def _is_ready(http: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{http}/health/ready", timeout=2):
            return True
    except (OSError, urllib.error.URLError):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Cluster:
    """Up to three nodes, and the address that forwards to those that live."""

    def __init__(
        self, mayfly: Path, directory: Path, nodes: int = len(NODES), env: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`env`: what its nodes find in their environment besides. `flags`: more of `mayfly up`."""
        directory.mkdir(exist_ok=True)
        self.nodes = nodes
        self._mayfly, self._directory = mayfly, directory
        self._log = directory / "up.log"
        self._data = directory / "data"
        self._offset = _free_offset()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    mayfly, "up", "--nodes", str(nodes), "--development", "--tls", "--plain",
                    "--memory", "128", "--base-offset", str(self._offset), "--data-dir", self._data,
                    *flags,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                preexec_fn=end_with_parent,
            )  # fmt: skip

    def __enter__(self) -> "Cluster":
        until = time.monotonic() + READY_MAX
        while "ready; Ctrl-C" not in self.log():
            if self._process.poll() is not None or time.monotonic() > until:
                _end(self._process)
                raise RuntimeError(f"the cluster does not start:\n{self.log()}")
            time.sleep(0.1)
        return self

    def __exit__(self, *why: object) -> None:
        _end(self._process)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def forwarded(self) -> str:
        """Where any node that lives speaks AMQP."""
        return f"localhost:{FORWARDED + self._offset}"

    def amqp(self, node: int) -> str:
        return f"localhost:{AMQP + self._offset + 1000 * (node - 1)}"

    def amqps(self, node: int) -> str:
        """With TLS, which clients trust who trust `authority`; so does what is at `http`."""
        return f"localhost:{AMQPS + self._offset + 1000 * (node - 1)}"

    @property
    def authority(self) -> Path:
        return self._data / "tls/authority.pem"

    def grpc(self, node: int) -> str:
        return f"localhost:{GRPC + self._offset + 1000 * (node - 1)}"

    def http(self, node: int) -> str:
        return f"localhost:{HTTP + self._offset + 1000 * (node - 1)}"

    def secured(self) -> "Secured":
        """A node beside it that asks for keys, with the same certificate."""
        tls = self._data / "tls"
        pair = (tls / "certificate.pem", tls / "key.pem")
        return Secured(self._mayfly, self._directory, *pair)

    def pid(self, node: int) -> int:
        """Of the node's newest process, as the cluster has told."""
        text = self.log()
        first = re.search(rf"^ *{node} +(\d+) +127", text, re.MULTILINE)
        later = re.findall(rf"node {node} started again, pid (\d+)", text)
        if not first:
            raise RuntimeError(f"the cluster tells of no node {node}:\n{text}")
        return int(later[-1] if later else first[1])

    def kill(self, node: int, how: signal.Signals = signal.SIGKILL) -> int:
        """`kill -9`, or another way. Returns the process that goes; `mayfly up` starts another."""
        pid = self.pid(node)
        os.kill(pid, how)
        return pid

    @contextlib.contextmanager
    def paused(self, node: int) -> Iterator[None]:
        """The node stands still."""
        pid = self.pid(node)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def wait_back(self, node: int, killed: int) -> None:
        """Until another process than the killed one is ready to serve."""
        until = time.monotonic() + READY_MAX
        while self.pid(node) == killed or not _is_ready(self.http(node)):
            if time.monotonic() > until:
                raise RuntimeError(f"node {node} does not come back:\n{self.log()}")
            time.sleep(0.1)


class Certified:
    """Three nodes that know each other by certificates, as an operator sets them up: `mayfly cert`, a file
    for each node, `mayfly serve`. Plain text is taken as well, for the checks that are about it."""

    nodes = len(NODES)

    def __init__(self, mayfly: Path, directory: Path, config: str = "") -> None:
        """`config`: more of every node's; the authority of its certificates stands there as AUTHORITY."""
        directory.mkdir(exist_ok=True)
        self._config = config
        self._mayfly, self._directory = mayfly, directory
        self._offset = _free_offset()
        self._certs = directory / "certs"
        self._cert("authority")
        for node in NODES:
            self._cert("node", str(node), "localhost", "127.0.0.1")
        self._processes = [self._start(node) for node in NODES]

    def _cert(self, *words: str) -> None:
        subprocess.run(
            [self._mayfly, "cert", *words, "--dir", self._certs], check=True, capture_output=True
        )

    def _start(self, node: int) -> subprocess.Popen[bytes]:
        """Its number stands in its certificate."""
        config = self._directory / f"node-{node}.toml"
        config.write_text(
            f"""
            node.data_dir = "{self._directory / f"node-{node}"}"
            node.development = true
            storage.memory_mebibytes = 128
            listen.grpc = "127.0.0.1:{self._port(GRPC, node)}"
            listen.http = "127.0.0.1:{self._port(HTTP, node)}"
            listen.peer = "127.0.0.1:{self._port(PEERS, node)}"
            listen.amqp = "127.0.0.1:{self._port(AMQP, node)}"
            listen.amqps = "127.0.0.1:{self._port(AMQPS, node)}"
            cluster.id = "{'5d' * 16}"
            tls.certificate = "{self._certs / f"node-{node}.pem"}"
            tls.key = "{self._certs / f"node-{node}.key"}"
            tls.plain = true
            tls.peer.authority = "{self.authority}"
            """
            + "".join(
                f"""
            [[cluster.node]]
            id = {member}
            grpc = "{self.grpc(member)}"
            http = "{self.http(member)}"
            peer = "localhost:{self._port(PEERS, member)}"
            """
                for member in NODES
            )
            + self._config.replace("AUTHORITY", str(self.authority))
        )
        with self._log(node).open("wb") as log:
            return subprocess.Popen(
                [self._mayfly, "serve", "--config", config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,
            )  # fmt: skip

    def __enter__(self) -> "Certified":
        until = time.monotonic() + READY_MAX
        for node, process in zip(NODES, self._processes, strict=True):
            while not _is_ready(self.http(node)):
                if process.poll() is not None or time.monotonic() > until:
                    self.__exit__()
                    log = self._log(node).read_text(errors="replace")
                    raise RuntimeError(f"node {node} does not start:\n{log}")
                time.sleep(0.1)
        return self

    def __exit__(self, *why: object) -> None:
        for process in self._processes:
            _end(process)

    def _log(self, node: int) -> Path:
        return self._directory / f"node-{node}.log"

    def _port(self, port: int, node: int) -> int:
        return port + self._offset + 1000 * (node - 1)

    @property
    def forwarded(self) -> str:
        """Where clients go without TLS."""
        return f"localhost:{self._port(AMQP, 1)}"

    @property
    def authority(self) -> Path:
        return self._certs / "authority.pem"

    def amqps(self, node: int) -> str:
        return f"localhost:{self._port(AMQPS, node)}"

    def grpc(self, node: int) -> str:
        return f"localhost:{self._port(GRPC, node)}"

    def http(self, node: int) -> str:
        return f"localhost:{self._port(HTTP, node)}"

    def secured(self) -> "Secured":
        """A node beside it that asks for keys, with the certificate of its first."""
        pair = (self._certs / "node-1.pem", self._certs / "node-1.key")
        return Secured(self._mayfly, self._directory, *pair)


class Secured:
    """One node that asks for keys."""

    _KEY = "c2VjcmV0IG9mIHRoZSBjaGVja3M="
    # Of a key named `listener`, which may only listen.
    _LISTENER = "bGlzdGVucyBhbmQgbm8gbW9yZQ=="

    def __init__(self, mayfly: Path, directory: Path, certificate: Path, key: Path) -> None:
        self._offset = _free_offset()
        self._log = directory / "secured.log"
        config = directory / "secured.toml"
        config.write_text(
            f"""
            node.data_dir = "{directory / "secured"}"
            storage.memory_mebibytes = 128
            listen.http = "127.0.0.1:{HTTP + self._offset}"
            listen.grpc = "127.0.0.1:{GRPC + self._offset}"
            listen.peer = "127.0.0.1:{PEERS + self._offset}"
            listen.amqps = "127.0.0.1:{AMQPS + self._offset}"
            tls.certificate = "{certificate}"
            tls.key = "{key}"
            tls.plain = ["http"]
            security.secret = "{self._KEY}"
            [[security.key]]
            name = "listener"
            key = "{self._LISTENER}"
            rights = ["listen"]
            """
        )
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [mayfly, "serve", "--config", config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,
            )  # fmt: skip

    def __enter__(self) -> "Secured":
        until = time.monotonic() + READY_MAX
        while not _is_ready(f"localhost:{HTTP + self._offset}"):
            if self._process.poll() is not None or time.monotonic() > until:
                _end(self._process)
                raise RuntimeError(f"no node with a secret:\n{self._log.read_text()}")
            time.sleep(0.1)
        return self

    def __exit__(self, *why: object) -> None:
        _end(self._process)

    @property
    def env(self) -> dict[str, str]:
        """As the programs are told of it."""
        return {
            "MAYFLY_SECURED_AMQPS": f"localhost:{AMQPS + self._offset}",
            "MAYFLY_SECURED_HTTP": f"localhost:{HTTP + self._offset}",
            "MAYFLY_SECURED_KEY": self._KEY,
            "MAYFLY_SECURED_LISTENER": self._LISTENER,
        }
