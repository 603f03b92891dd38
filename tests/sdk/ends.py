"""What programs of every SDK meet while the node they are connected to ends as planned, dies, or stands still."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster import NODES, Cluster
from environment import HERE, Command
from sdks import Ready, Suite

# Where what was seen is told.
PAGE = HERE.parents[1] / "docs/clients/node-ends.md"

KINDS = ("planned", "killed", "paused")
START_MAX = 90  # Seconds a program may take until it does all it does.
PAUSE = 4  # Seconds a node stands still.
AFTER = 6  # Seconds of calls after it is over.
ACCOUNT_MAX = 90  # Seconds a program may take to give account.
CONNECT_MAX = 1.0  # Seconds a node may take to answer a connection.
CHUNK = 65536

# By suite and call: what an SDK does not ask again after a planned end, and why.
ALLOWED = {
    ("js", "renew"): "its management request waits for its answer until its time limit, and is not made again",
    ("js", "receive"): "a call for messages that the end of the stream meets is told so by an error without a name",
    ("js", "send"): "'Failed to connect' of a connection that dies before it is open is not marked as passing",
    **{
        ("java", call): "a management request that was sent as its link ended is not made again"
        for call in ("renew", "schedule", "cancel", "peek")
    },
    **{
        ("java", call): "a settlement that was sent as its link ended may wait for its answer for ever"
        for call in ("complete", "settle")
    },
}


class Door:
    """An address that leads to one node while that takes connections, and to the others then, as that of a
    load balancer does."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"localhost:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # Closed.
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        for address in self.addresses:
            host, port = address.split(":")
            with contextlib.suppress(OSError):
                node = socket.create_connection((host, int(port)), CONNECT_MAX)
                break
        else:
            return client.close()
        node.settimeout(None)
        for end in (client, node):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_copy, args=(node, client), daemon=True)
        back.start()
        _copy(client, node)
        back.join()
        client.close()
        node.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until the end of what comes, which is passed on as it came."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Program:
    """Makes all kinds of calls over one of the SDKs."""

    def __init__(self, command: Command, env: dict[str, str], result: Path) -> None:
        self._result = result
        self._process = subprocess.Popen(
            [*command, "--json", result], env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def wait_started(self) -> None:
        until = time.monotonic() + START_MAX
        while not self._result.with_suffix(".started").exists():
            if (code := self._process.poll()) is not None:
                raise RuntimeError(f"{self._result.stem} ended with {code} before it had begun")
            if time.monotonic() > until:
                raise RuntimeError(f"{self._result.stem} does not do all it should within {START_MAX} s")
            time.sleep(0.05)

    def begin(self) -> None:
        """Tells it that the node ends from now on."""
        if self._process.stdin:
            self._process.stdin.write(b"now\n")
            self._process.stdin.flush()

    def stop(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()

    def account(self) -> dict[str, Any]:
        try:
            self._process.wait(ACCOUNT_MAX)
            return json.loads(self._result.read_text())
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return {"error": f"{self._result.stem} ended without an account: {error}"}

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Row:
    """What one SDK met in all trials of a kind."""

    suite: Suite
    kind: str
    accounts: list[dict[str, Any]] = field(default_factory=list)

    def _all(self, name: str) -> list[Any]:
        return [account.get(name) for account in self.accounts]

    def _counts(self, name: str) -> dict[str, int]:
        """By kind of call."""
        counts: dict[str, int] = {}
        for account in self.accounts:
            for call, count in account.get(name, {}).items():
                many = sum(count.values()) if isinstance(count, dict) else count
                counts[call] = counts.get(call, 0) + many
        return counts

    @property
    def cells(self) -> list[str]:
        def span(name: str) -> str:
            known = [value for value in self._all(name) if value is not None]
            return f"{min(known)} to {max(known)}" if known else "kept"

        deliveries = [value for value in self._all("deliveries") if value is not None]
        failed = ", ".join(f"{count} {call}" for call, count in sorted(self._counts("failed").items()))
        lost = ", ".join(f"{count} {call}" for call, count in sorted(self._counts("lost").items()))
        return [
            self.suite.title, self.kind, span("session_ms"), span("message_ms"),
            str(max(deliveries)) if deliveries else "–", str(sum(filter(None, self._all("dead")))),
            str(sum(self._counts("calls").values())), lost or "none", failed or "none",
        ]  # fmt: skip

    def problems(self) -> Iterator[str]:
        of = f"ends, {self.suite.title}, {self.kind}"
        for account in self.accounts:
            if "error" in account:
                yield f"{of}: {account['error']}"
                continue
            if account["dead"]:
                yield f"{of}: {account['dead']} messages of healthy consumers were dead-lettered"
            if account["deliveries"]:
                yield f"{of}: {account['deliveries']} failed deliveries were counted of what was held"
            is_kept = self.kind == "paused"
            for name in ("session_ms", "message_ms"):
                if (account[name] is None) != is_kept:
                    yield f"{of}: {name} is {account[name]}"
            if account["settled"] != is_kept:
                yield f"{of}: what was held could {'not ' * is_kept}be settled at last"
            # A node that dies takes answers along: of what was asked only once more, nobody knows.
            if self.kind == "planned":
                for call, errors in account["failed"].items():
                    if (self.suite.name, call) in ALLOWED:
                        continue
                    yield from (f"{of}: {call}: {count} {text}" for text, count in errors.items())


HEAD = (
    "SDK", "node", "session elsewhere after, ms", "message elsewhere after, ms", "failed deliveries",
    "dead letters", "calls", "lock lost", "failed for good",
)  # fmt: skip


def table(rows: Iterable[Row]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (HEAD, *(row.cells for row in rows))]
    return "\n".join([lines[0], "|" + "---|" * len(HEAD), *lines[1:]])


def write_table(rows: Iterable[Row]) -> None:
    """Puts it in the place of the one that the page has."""
    before, old, after = re.split(r"(?m)^((?:\|.*\n)+)", PAGE.read_text(), maxsplit=1)
    assert old.startswith(f"| {HEAD[0]} "), f"the first table of {PAGE} is another"
    PAGE.write_text(f"{before}{table(rows)}\n{after}")


class Ends:
    """The trials: every kind of end, of every node in turn."""

    def __init__(self, ready: Ready, cluster: Cluster, directory: Path) -> None:
        self._cluster, self._directory = cluster, directory
        self._suites = {
            suite: installed
            for sdk, installed in ready.items()
            if installed.ends
            for suite in sdk.suites
            if suite.ends is not None
        }

    def run(self, kinds: Iterable[str] = KINDS, nodes: Iterable[int] = NODES) -> list[Row]:
        rows = [Row(suite, kind) for suite in self._suites for kind in kinds]
        for kind in kinds:
            for node in nodes:
                accounts = self._try(kind, node)
                for row in rows:
                    if row.kind == kind:
                        row.accounts.append(accounts[row.suite])
                        told = json.dumps(accounts[row.suite])
                        print(f"ends {row.suite.name} {kind} {node}: {told}", flush=True)
        return rows

    def _try(self, kind: str, node: int) -> dict[Suite, dict[str, Any]]:
        other, third = (each for each in NODES if each != node)
        order = [self._cluster.amqp(each) for each in (node, third, other)]
        door = Door(order)
        programs: dict[Suite, Program] = {}
        try:
            for suite, installed in self._suites.items():
                name = f"ends-{kind}-{node}-{suite.name}"
                command = [*installed.ends, *(suite.ends or ()), "--amqp", door.address,
                           "--elsewhere", self._cluster.amqp(other),
                           "--http", self._cluster.http(other), "--queues", name]  # fmt: skip
                env = {**os.environ, **installed.env}
                programs[suite] = Program(command, env, self._directory / f"{name}.json")
            for program in programs.values():
                program.wait_started()
            with self._ending(kind, node):
                for program in programs.values():
                    program.begin()
            time.sleep(AFTER)
            for program in programs.values():
                program.stop()
            return {suite: program.account() for suite, program in programs.items()}
        finally:
            for program in programs.values():
                program.end()
            door.close()

    @contextlib.contextmanager
    def _ending(self, kind: str, node: int) -> Iterator[None]:
        """Begins to end the node; returns when it is back."""
        if kind == "paused":
            with self._cluster.paused(node):
                yield
                time.sleep(PAUSE)
            return
        ended = self._cluster.kill(node, signal.SIGTERM if kind == "planned" else signal.SIGKILL)
        yield
        self._cluster.wait_back(node, ended)
