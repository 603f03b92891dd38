"""Messages sent and received while each node in turn is killed with `kill -9`, and comes back."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from cluster import NODES, Cluster
from environment import Command
from sdks import Ready, Sdk

WARM_UP = 2  # Seconds of undisturbed traffic before a node is killed, and after it is back.
START_MAX = 60  # Seconds a worker may take to send its first message.
DRAIN_MAX = 120  # Seconds it may take to receive what is left.


class Worker:
    """A program that sends and receives over one of the SDKs until its input ends."""

    def __init__(self, command: Command, env: dict[str, str], result: Path) -> None:
        self._result = result
        self._process = subprocess.Popen(
            [*command, "--json", result], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def wait_started(self) -> None:
        until = time.monotonic() + START_MAX
        while not self._result.with_suffix(".started").exists():
            name = self._result.stem
            if (code := self._process.poll()) is not None:
                raise RuntimeError(f"{name} ended with {code} before its first message")
            if time.monotonic() > until:
                raise RuntimeError(f"{name} has received nothing within {START_MAX} s")
            time.sleep(0.05)

    def stop_sending(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()

    def account(self) -> dict[str, Any]:
        """What it sent and received, once it has received all it can."""
        try:
            self._process.wait(DRAIN_MAX)
            return json.loads(self._result.read_text())
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return {"failure": f"{self._result.stem} ended without an account: {error}"}

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Failover:
    """The run that outlives each node, and the one at the nodes that survive."""

    def __init__(self, ready: Ready, cluster: Cluster, directory: Path) -> None:
        self._ready, self._cluster, self._directory = ready, cluster, directory
        self._workers: list[Worker] = []

    def __enter__(self) -> "Failover":
        return self

    def __exit__(self, *why: object) -> None:
        for worker in self._workers:
            worker.end()

    def _start(
        self, name: str, addresses: Callable[[Sdk], Iterable[str]], *flags: str
    ) -> dict[str, Worker]:
        """A worker of each SDK, on a queue of its own."""
        workers = {}
        for sdk, installed in self._ready.items():
            for suite in (suite.name for suite in sdk.suites if suite.fails_over):
                queue = f"failover-{name}-{suite}"
                where = ["--amqp", ",".join(addresses(sdk)), "--http", self._cluster.http(1)]
                command = [*installed.failover, *where, "--queue", queue, *flags]
                env = {**os.environ, **installed.env}
                workers[suite] = Worker(command, env, self._directory / f"{queue}.json")
        self._workers += workers.values()
        return workers

    def run(self, rounds: int) -> Iterator[dict[str, Any]]:
        """The accounts as they come, each with the run and the SDK it is of."""
        nodes = [self._cluster.amqp(node) for node in NODES]

        def addresses(sdk: Sdk) -> list[str]:
            return nodes if sdk.knows_nodes else [self._cluster.forwarded]

        forwarded = self._start("forwarded", addresses, "--detect-duplicates")
        for worker in forwarded.values():
            worker.wait_started()
        for turn in range(rounds):
            for node in NODES:
                yield from self._kill(turn, node)
        for worker in forwarded.values():
            worker.stop_sending()
        for suite, worker in forwarded.items():
            yield {"run": "forwarded", "suite": suite, **worker.account()}

    def _kill(self, turn: int, node: int) -> Iterator[dict[str, Any]]:
        """One node dies and comes back, while others are spoken to directly."""
        survivors = [self._cluster.amqp(other) for other in NODES if other != node]
        direct = self._start(f"direct-{turn}-{node}", lambda _: survivors)
        for worker in direct.values():
            worker.wait_started()
        time.sleep(WARM_UP)
        killed = self._cluster.kill(node)
        self._cluster.wait_back(node, killed)
        time.sleep(WARM_UP)
        for worker in direct.values():
            worker.stop_sending()
        for suite, worker in direct.items():
            account = worker.account()
            if back := account.get("given_back"):
                account["failure"] = f"{back} locks were lost at nodes that live"
            yield {"run": "direct", "suite": suite, **account}
