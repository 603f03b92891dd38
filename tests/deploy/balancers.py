"""HAProxy and nginx, as deploy/load-balancers has them, before three nodes with TLS: who is not ready gets nothing, and
clients go on when a node dies.

The nodes have addresses of their own on a loopback of this process's own, so that the example files are used as they
are, but for the balancer's own address and the places of files.
"""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from machine import (
    DEPLOY,
    HERE,
    Failed,
    Missing,
    Program,
    ensure,
    http,
    need,
    need_root,
    run,
    started,
    wait_for,
)

sys.path.insert(0, str(HERE.parent / "sdk"))
import private_network  # noqa: E402

NODES = {1: "127.0.1.1", 2: "127.0.1.2", 3: "127.0.1.3"}
BALANCER = "127.0.2.1"
SECRET = "the-secret-of-a-test"
CONFIG = """
[node]
data_dir = "{data}"
[listen]
grpc = "{address}:5310"
http = "{address}:5300"
peer = "{address}:5320"
amqp = "{address}:5672"
[cluster]
id = "0123456789abcdef0123456789abcdef"
{nodes}
[security]
secret = "{secret}"
[tls]
certificate = "{certs}/node-{id}.pem"
key = "{certs}/node-{id}.key"
[tls.peer]
authority = "{certs}/authority.pem"
[storage]
memory_mebibytes = 64
"""


def haproxy_sends_clients_to_nodes_that_are_ready(binary: Path, room: Path) -> None:
    need("haproxy", programs=("haproxy",))
    _apart("haproxy", binary, room)


def nginx_sends_clients_to_nodes_that_are_ready(binary: Path, room: Path) -> None:
    need("nginx-light", "libnginx-mod-stream", "curl", programs=("nginx", "curl"))
    if not Path("/usr/lib/nginx/modules/ngx_stream_module.so").exists():
        need("libnginx-mod-stream", programs=("libnginx-mod-stream",))
    _apart("nginx", binary, room)


def _apart(name: str, binary: Path, room: Path) -> None:
    """In a process of its own: it leaves this one's network."""
    need_root()
    done = run(sys.executable, "-B", __file__, name, binary, room, within=240, code=None)
    if done.returncode == 77:
        raise Missing(done.stderr.strip())
    ensure(done.returncode == 0, done.stdout + done.stderr[-3000:])
    print(done.stdout, end="")


class Cluster:
    def __init__(self, binary: Path, room: Path, stack: contextlib.ExitStack) -> None:
        self.binary, self.room, self.stack = binary, room, stack
        self.certs = room / "certs"
        run(binary, "cert", "authority", "--dir", self.certs)
        for number in NODES:
            run(binary, "cert", "node", str(number), f"node{number}", "mayfly.example", "--dir", self.certs)
        nodes = "".join(
            f'[[cluster.node]]\nid = {number}\ngrpc = "node{number}:5310"\nhttp = "node{number}:5300"\n'
            f'peer = "node{number}:5320"\n'
            for number in NODES
        )
        for number, address in NODES.items():
            text = CONFIG.format(
                data=room / f"data-{number}", address=address, id=number, certs=self.certs, nodes=nodes, secret=SECRET
            )
            file = room / f"node-{number}.toml"
            file.write_text(text)
            file.chmod(0o600)
        self.programs: dict[int, Program] = {}

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.programs[number] = self.stack.enter_context(
                started(
                    self.binary, "serve", "--config", self.room / f"node-{number}.toml", log=self.room / f"log-{number}"
                )
            )

    def is_ready(self, number: int) -> bool:
        return http(f"https://node{number}:5300/health/ready")[0] == 200

    def wait(self, *numbers: int) -> None:
        for number in numbers:
            wait_for(lambda: self.is_ready(number), lambda: self.programs[number].text()[-2000:], within=60)


def connected(port: int = 5671) -> bool:
    """Whether the balancer gives a client a node that speaks: TLS, checked, and AMQP's first eight bytes."""
    context = ssl.create_default_context(cafile=os.environ["AUTHORITY"])
    first = b"AMQP\x03\x01\x00\x00"
    try:
        with socket.create_connection((BALANCER, port), timeout=3) as tcp:
            with context.wrap_socket(tcp, server_hostname="mayfly.example") as tls:
                tls.sendall(first)
                return tls.recv(8) == first
    except OSError:
        return False


class Sender(threading.Thread):
    """Sends messages through the balancer, one after the other, on a connection each: what most suffers from a node
    that is gone."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.accepted, self.refused, self.gap, self.ends = 0, 0, 0.0, False

    def run(self) -> None:
        context = ssl.create_default_context(cafile=os.environ["AUTHORITY"])
        import http.client

        last = time.monotonic()
        while not self.ends:
            try:
                tcp = socket.create_connection((BALANCER, 443), timeout=5)
                connection = http.client.HTTPConnection("mayfly.example", timeout=5)
                connection.sock = context.wrap_socket(tcp, server_hostname="mayfly.example")
                connection.request("POST", "/orders/messages", b"hello", {"authorization": f"Bearer {SECRET}"})
                is_accepted = connection.getresponse().status == 201
                connection.close()
            except (OSError, http.client.HTTPException):
                is_accepted = False
            if is_accepted:
                self.accepted += 1
                self.gap = max(self.gap, time.monotonic() - last)
                last = time.monotonic()
            else:
                self.refused += 1
                time.sleep(0.05)


@contextlib.contextmanager
def haproxy(room: Path, certs: Path) -> Iterator[Program]:
    text = (DEPLOY / "load-balancers/haproxy.cfg").read_text()
    text = text.replace("bind :", f"bind {BALANCER}:").replace(
        "/etc/mayfly/authority.pem", str(certs / "authority.pem")
    )
    # As many as a machine for tests may open.
    text = text.replace("maxconn 40000", "maxconn 2000")
    file = room / "haproxy.cfg"
    file.write_text(text)
    run("haproxy", "-c", "-f", file)
    with started("haproxy", "-db", "-f", file, log=room / "haproxy.log") as program:
        yield program


@contextlib.contextmanager
def nginx(room: Path, certs: Path) -> Iterator[Program]:
    folder = room / "health"
    text = (DEPLOY / "load-balancers/nginx.conf").read_text()
    text = text.replace("listen ", f"listen {BALANCER}:").replace("/run/mayfly-health", str(folder))
    text = text.replace("modules/ngx_stream", "/usr/lib/nginx/modules/ngx_stream")
    file = room / "nginx.conf"
    file.write_text(f"pid {room}/nginx.pid;\nerror_log {room}/nginx-error.log;\ndaemon off;\n" + text)
    script = [DEPLOY / "load-balancers/nginx-health.sh", folder, certs / "authority.pem", *(f"node{n}" for n in NODES)]
    run(script[0], "--once", *script[1:])
    run("nginx", "-t", "-c", file)
    with started("nginx", "-c", file, log=room / "nginx.log") as program:
        environment = {**os.environ, "NGINX_CONF": str(file)}
        with started(*script, log=room / "nginx-health.log", env=environment, start_new_session=True) as health:
            try:
                yield program
            finally:
                os.killpg(health.process.pid, signal.SIGKILL)
                program.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.process.wait(3)


def main(name: str, binary: Path, room: Path) -> None:
    hosts = {f"node{number}": address for number, address in NODES.items()}
    private_network.enter({**hosts, "mayfly.example": BALANCER})
    balancer = {"haproxy": haproxy, "nginx": nginx}[name]
    with contextlib.ExitStack() as stack:
        cluster = Cluster(binary, room, stack)
        os.environ["AUTHORITY"] = str(cluster.certs / "authority.pem")
        # One of three: it takes connections and can serve nobody.
        cluster.start(1)
        wait_for(lambda: http("https://node1:5300/health/live")[0] == 200, cluster.programs[1].text)
        ensure(http("https://node1:5300/health/ready")[0] == 503, "one of three calls itself ready")
        with socket.create_connection((NODES[1], 5671), timeout=3):
            pass
        stack.enter_context(balancer(room, cluster.certs))
        time.sleep(3)  # As long as a check may take to be wrong about it.
        ensure(not connected(), "a client is given a node that is not ready")
        cluster.start(2, 3)
        cluster.wait(1, 2, 3)
        wait_for(connected, lambda: f"no client is given a node, and all are ready: {_logs(room)}", within=15)
        run(
            binary,
            "queue",
            "create",
            "orders",
            "--connect",
            "https://node1:5310",
            "--tls-ca",
            os.environ["AUTHORITY"],
            env={**os.environ, "MAYFLY_SECRET": SECRET},
        )
        sender = Sender()
        sender.start()
        wait_for(lambda: sender.accepted >= 20, lambda: f"{sender.accepted} accepted, {sender.refused} refused")
        cluster.programs[2].end(signal.SIGKILL)
        at = sender.accepted
        wait_for(
            lambda: sender.accepted >= at + 50,
            lambda: f"after a kill: {sender.accepted - at} accepted, {sender.refused} refused",
        )
        killed, sender.gap = sender.gap, 0.0
        # Told to end while the other is away: no majority is left, and nobody may be told otherwise.
        cluster.programs[3].end(signal.SIGTERM)
        wait_for(lambda: not cluster.is_ready(1), "a node without a majority calls itself ready", within=15)
        wait_for(lambda: not connected(), "a client is given a node without a majority", within=10)
        cluster.start(2, 3)
        cluster.wait(1, 2, 3)
        at = sender.accepted
        wait_for(
            lambda: sender.accepted >= at + 50,
            lambda: f"after the return: {sender.accepted - at} accepted, {sender.refused} refused",
        )
        # Planned: one is told to end, and comes back.
        sender.gap, refused = 0.0, sender.refused
        cluster.programs[3].end(signal.SIGTERM)
        at = sender.accepted
        wait_for(lambda: sender.accepted >= at + 50, lambda: f"after a planned end: {sender.accepted - at} accepted")
        planned = sender.gap, sender.refused - refused
        sender.ends = True
        sender.join(10)
        counted = run(
            binary,
            "queue",
            "show",
            "orders",
            "--json",
            "--connect",
            "https://node1:5310",
            "--tls-ca",
            os.environ["AUTHORITY"],
            env={**os.environ, "MAYFLY_SECRET": SECRET},
        ).stdout
        import json

        active = json.dumps(json.loads(counted))
        ensure(killed < 10, f"after a kill nothing was accepted for {killed:.1f} s")
        print(
            f"  {name}: {sender.accepted} messages; longest wait {killed:.1f} s around a kill, "
            f"{planned[0]:.1f} s around a planned end ({planned[1]} requests failed then)"
        )
        messages = _active(active)
        ensure(messages >= sender.accepted, f"{sender.accepted} were accepted, {messages} are there")


def _logs(room: Path) -> str:
    return "\n".join(file.read_text(errors="replace")[-1500:] for file in room.glob("*log*") if file.is_file())


def _active(shown: str) -> int:
    import re

    found = re.search(r'"active(?:_messages|_message_count|MessageCount)?": (\d+)', shown)
    ensure(found, f"no count in {shown}")
    return int(found.group(1))


CHECKS = [haproxy_sends_clients_to_nodes_that_are_ready, nginx_sends_clients_to_nodes_that_are_ready]

if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    except (Missing, private_network.Unsupported) as missing:
        print(missing, file=sys.stderr)
        sys.exit(77)
    except Failed as failed:
        sys.exit(f"{failed}")
