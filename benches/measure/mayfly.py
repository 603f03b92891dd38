"""Our own cluster, as `mayfly up` starts it."""

import json
import os
import random
import re
import shutil
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from .processes import Command, Failed, Run, Servers, is_free, wait_until

# Of node 1; those of the others are 1000 apart. Forwarding has one port for all.
PORTS = (5300, 5310, 5320, 5672)
HTTP, GRPC, AMQP, FORWARDED = 5300, 5310, 5672, 5700
SLACK = 120  # Seconds a bench may take beyond what it was told to.


def binary() -> Path:
    """`MAYFLY_BIN`, or what a build made."""
    target = os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/mayfly/target")
    path = Path(os.environ.get("MAYFLY_BIN", Path(target) / "release/mayfly"))
    if not path.exists():
        sys.exit(f"{path} is missing: `cargo build --release` makes it, or set MAYFLY_BIN")
    return path.resolve()


def version() -> str:
    return Run([binary(), "--version"]).result(10).strip()


def _free_offset(nodes: int) -> int:
    """To be added to every port."""
    ports = [port + 1000 * node for node in range(nodes) for port in PORTS]
    for _ in range(200):
        offset = random.randrange(8_000, 22_000, 10)
        if all(is_free(port + offset) for port in (*ports, FORWARDED)):
            return offset
    raise Failed("no free ports for a cluster")


class Mayfly(Servers):
    """A new cluster in an empty directory."""

    def __init__(self, directory: Path, *options: str, nodes: int = 3) -> None:
        super().__init__(directory)
        self._nodes = nodes
        self._options = options
        self._offset = _free_offset(nodes)

    def __enter__(self) -> Self:
        self._up()
        return self

    def _up(self) -> None:
        self.log_path("up").write_text("")
        self.start(
            "up",
            [
                binary(), "up", "--nodes", str(self._nodes), "--base-offset", str(self._offset),
                "--data-dir", self.directory / "data", *self._options,
            ],
        )  # fmt: skip
        try:
            wait_until(self, "mayfly up", self._ready())
        except BaseException:
            self.stop()
            raise

    def restart(self) -> float:
        """Ends all nodes and starts them with what they have. Seconds from their start until all groups
        are led."""
        self.stop()
        started = time.monotonic()
        self._up()
        return time.monotonic() - started

    def _ready(self) -> Iterator[bool]:
        while True:
            yield "ready; Ctrl-C" in self.log("up")

    @property
    def addresses(self) -> str:
        return self._addresses(GRPC)

    @property
    def amqp_addresses(self) -> str:
        return self._addresses(AMQP)

    def _addresses(self, port: int) -> str:
        ports = [port + self._offset + 1000 * node for node in range(self._nodes)]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def ended(self, how: str) -> int:
        """Messages that ended so, `completed` or `expired` say, The nodes
        tell what they did since they started."""
        total = 0.0
        for address in self._addresses(HTTP).split(","):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            sample = rf'^mayfly_messages_ended_total{{[^}}]*end="{how}"}} (\S+)'
            total += sum(map(float, re.findall(sample, text, re.MULTILINE)))
        return int(total)

    def start_bench(self, *arguments: object) -> "Bench":
        where = ["--json", "--connect", self.addresses]
        return Bench([binary(), "bench", *map(str, arguments), *where])

    def bench(self, *arguments: object, seconds: float) -> dict[str, Any]:
        """The report of a bench that is told to run for so long."""
        return self.start_bench(*arguments).report(seconds)

    def cli(self, *arguments: object) -> str:
        command: Command = [binary(), *map(str, arguments), "--connect", self.addresses]
        return Run(command).result(60)

    def pid(self, node: int) -> int:
        """Of the node's newest process, as `mayfly up` has told."""
        text = self.log("up")
        first = re.search(rf"^ *{node} +(\d+) +127", text, re.MULTILINE)
        later = re.findall(rf"node {node} started again, pid (\d+)", text)
        if not first:
            raise Failed(f"the cluster tells of no node {node}:\n{text}")
        return int(later[-1] if later else first[1])

    def queue(self, name: str) -> dict[str, Any]:
        queue: dict[str, Any] = json.loads(self.cli("queue", "show", name, "--json"))
        return queue

    def kill(self, node: int) -> None:
        """`kill -9`; `mayfly up` starts it again after two seconds."""
        os.kill(self.pid(node), signal.SIGKILL)

    def wipe(self, node: int) -> None:
        """Kills it and takes its data before it is started again: by another name first, for that is
        quick."""
        data = self._node_directory(node) / "data"
        self.kill(node)
        shutil.rmtree(data.rename(data.with_name("wiped")))

    def node_log(self, node: int) -> str:
        return (self._node_directory(node) / "node.log").read_text(errors="replace")

    def _node_directory(self, node: int) -> Path:
        return self.directory / f"data/node-{node}"


class Bench(Run):
    """A bench under way."""

    def report(self, seconds: float) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.result(seconds + SLACK))
        return report
