#!/usr/bin/env python3
"""The connection strings of Microsoft's pages, as they stand there, with every SDK that runs here.

    tests/sdk/strings.py               every string; run.py calls it
    tests/sdk/strings.py --only emulator

It has a network of its own, in which the names of the strings mean this machine and the well-known
ports are free: 5672 and 5300 of the emulator, 5671 and 443 of Azure. The binary is MAYFLY_BIN, or
the one in CARGO_TARGET_DIR.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import private_network
from environment import HERE, CannotInstall, Command, Installed, NoToolchain
from sdks import SDKS, Ready, Sdk

PAGE = HERE.parent.parent / "docs/clients/connection-strings.md"
READY_MAX = 60  # Seconds a broker may take to start.
PROGRAM_MAX = 120  # Seconds one SDK may take for all it does with one string.
STRINGS_MAX = 300  # Seconds all of it may take.
AT_ONCE = 4  # Programs beside each other: most of their time is waiting.

FAILED = "FAILED "
PARTS = ("client", "administration", "websocket")
KEY = "SAS_KEY_VALUE"
NAMESPACE = "contoso.servicebus.windows.net"
# As Azure makes them: 32 bytes in Base64, so with an equals sign at the end.
POLICY, POLICY_KEY = "orders-app", "c2l4dGVlbiBieXRlcywgYW5kIHNpeHRlZW4gbW9yZSE="
# `192.168.y.z` on the page.
LAN = "192.168.17.4"
NAMES = ("servicebus-emulator", "host.docker.internal", NAMESPACE)


@dataclass(frozen=True)
class String:
    kind: str
    name: str
    parts: tuple[str, ...]
    # In the place of an entity's name stands `{queue}`.
    template: str

    def __str__(self) -> str:
        return f"{self.kind} string of {self.template.split('//')[1].split(';')[0]}"

    def queue(self, sdk: Sdk) -> str:
        """For an SDK alone, as SDKs run beside each other."""
        return f"{self.name}-{sdk.name}"

    def text(self, sdk: Sdk) -> str:
        return self.template.format(queue=self.queue(sdk))


def strings() -> Iterator[String]:
    """https://learn.microsoft.com/azure/service-bus-messaging/test-locally-with-service-bus-emulator
    has those of the emulator: one for each place a program may run in, and the port to append for an
    administration client. The others are what Azure's portal gives out for a namespace and for an
    entity."""
    key = f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY};"
    for host in ("localhost", LAN, "servicebus-emulator", "host.docker.internal"):
        text = f"Endpoint=sb://{host};{key}UseDevelopmentEmulator=true;"
        yield String("emulator", host, PARTS, text)
        parts = ("administration", "websocket")
        yield String(EMULATOR[1], f"{host}-5300", parts, text.replace(host, f"{host}:5300"))
    text = f"Endpoint=sb://{NAMESPACE}/;{key.rstrip(';')}"
    yield String("production", "namespace", PARTS, text)
    key = f"SharedAccessKeyName={POLICY};SharedAccessKey={POLICY_KEY}"
    text = f"Endpoint=sb://{NAMESPACE}/;{key};EntityPath={{queue}}"
    yield String("entity", "entity", PARTS, text)


@dataclass(frozen=True)
class Unable:
    """What an SDK itself cannot do with a kind of string; the page tells it in these words."""

    sdk: str
    kinds: tuple[str, ...]
    part: str
    why: str


EMULATOR = ("emulator", "emulator administration")
UNABLE = (
    Unable(
        "python", EMULATOR, "websocket",
        "It looks for the emulator's WebSocket on port 80, and takes no port from the string.",
    ),
)  # fmt: skip


def make_certificate(directory: Path) -> None:
    """`authority.pem`, which is to be trusted, and what it signs for the hosts of the strings."""
    names = ",".join(f"DNS:{name}" for name in ("localhost", *NAMES))
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    authority = ["-subj", "/CN=Authority of a test", "-keyout", "authority.key", "-out", "authority.pem",
                 "-addext", "keyUsage=critical,keyCertSign"]  # fmt: skip
    own = ["-subj", "/CN=Node of a test", "-keyout", "key.pem", "-out", "certificate.pem",
           "-CA", "authority.pem", "-CAkey", "authority.key",
           "-addext", f"subjectAltName={names},IP:{LAN}", "-addext", "basicConstraints=critical,CA:FALSE",
           "-addext", "keyUsage=critical,digitalSignature", "-addext", "extendedKeyUsage=serverAuth"]  # fmt: skip
    for options in (authority, own):
        subprocess.run([*new, *options], cwd=directory, check=True, capture_output=True)


CONFIG = f"""\
[node]
data_dir = "data"
[listen]
grpc = "0.0.0.0:5310"
peer = "0.0.0.0:5320"
amqp = "0.0.0.0:5672"
amqps = "0.0.0.0:5671"
http = "0.0.0.0:5300"
websocket = "0.0.0.0:443"
[tls]
certificate = "certificate.pem"
key = "key.pem"
[security]
secret = "{KEY}"
[[security.key]]
name = "{POLICY}"
key = "{POLICY_KEY}"
rights = ["manage"]
[storage]
memory_mebibytes = 128
"""


class Broker:
    """Started in the directory, on the well-known ports of every address of this machine."""

    def __init__(self, mayfly: Path, directory: Path) -> None:
        self._mayfly = mayfly
        self._log = directory / "broker.log"
        make_certificate(directory)
        (directory / "mayfly.toml").write_text(CONFIG)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [mayfly, "serve", "--config", "mayfly.toml", "--exit-with-parent"],
                cwd=directory, stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip

    def __enter__(self) -> "Broker":
        until = time.monotonic() + READY_MAX
        while (why := self._run("cluster", "status")) is not None:
            if self._process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise RuntimeError(f"no broker: {why}\n{self._log.read_text()}")
            time.sleep(0.1)
        return self

    def __exit__(self, *why: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(READY_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _run(self, *command: str) -> str | None:
        """What went wrong."""
        env = {**os.environ, "MAYFLY_SECRET": KEY, "MAYFLY_CONNECT": "127.0.0.1:5310"}
        done = subprocess.run(
            [self._mayfly, *command], env=env, capture_output=True, text=True, check=False
        )
        return None if done.returncode == 0 else done.stderr

    def create_queue(self, name: str) -> None:
        if (why := self._run("queue", "create", name)) is not None:
            raise RuntimeError(f"queue {name}: {why}")


def trust(ready: Ready, directory: Path) -> dict[str, str]:
    """Has the SDKs trust the authority by the means their users have. Returns their environment."""
    authority = directory / "authority.pem"
    for number, installed in enumerate(ready.values()):
        if installed.trusted:
            # As if it had been appended there.
            both = directory / f"trusted-{number}.pem"
            both.write_bytes(installed.trusted.read_bytes() + authority.read_bytes())
            private_network.cover(installed.trusted, both)
    # Where such a variable is set, Python's administration client reads no other file.
    others = {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    env = {name: value for name, value in os.environ.items() if name not in others}
    return env | {"NODE_EXTRA_CA_CERTS": str(authority), "SSL_CERT_FILE": str(authority)}


def outcomes(
    sdk: Sdk, installed: Installed, string: String, env: dict[str, str]
) -> dict[str, str | None]:
    """What went wrong, by part."""
    command: Command = [*(installed.by_string or []), string.queue(sdk), *string.parts]
    try:
        done = subprocess.run(
            command, env={**env, **installed.env, "MAYFLY_STRING": string.text(sdk)},
            capture_output=True, text=True, timeout=PROGRAM_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {part: f"did not end within {PROGRAM_MAX} s" for part in string.parts}
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    silent = {part: f"said nothing: {done.stderr}" for part in string.parts}
    return silent | {outcome["part"]: outcome["failure"] for outcome in seen}


def wrong(
    sdk: Sdk, string: String, failures: dict[str, str | None]
) -> Iterator[str]:
    """What fails and should not, and what does not and is said to."""
    for part, failure in failures.items():
        excuses = [
            unable for unable in UNABLE
            if (unable.sdk, unable.part) == (sdk.name, part) and string.kind in unable.kinds
        ]  # fmt: skip
        if failure and not excuses:
            yield f"{sdk.name}, {part}, {string}: {failure}"
        elif excuses and not failure:
            yield f"{sdk.name}, {part}, {string}: works, and UNABLE says that it cannot"


def check_page() -> Iterator[str]:
    told = " ".join(PAGE.read_text().split())
    for unable in UNABLE:
        if unable.why not in told:
            yield f"{PAGE.name} does not tell that: {unable.why}"


def run(ready: Ready, mayfly: Path, directory: Path, chosen: Sequence[String]) -> list[str]:
    with Broker(mayfly, directory) as broker, ThreadPoolExecutor(AT_ONCE) as programs:
        env = trust(ready, directory)
        pending = []
        having = [(sdk, installed) for sdk, installed in ready.items() if installed.by_string]
        for string, (sdk, installed) in itertools.product(chosen, having):
            broker.create_queue(string.queue(sdk))
            outcome = programs.submit(outcomes, sdk, installed, string, env)
            pending.append((sdk, string, outcome))
        found = [*check_page()]
        for sdk, string, outcome in pending:
            found += wrong(sdk, string, outcome.result())
    return found


def run_strings(mayfly: Path) -> list[str]:
    """Failures. In a process of its own, as who enters another network does not come back."""
    try:
        done = subprocess.run(
            [sys.executable, __file__], env={**os.environ, "MAYFLY_BIN": str(mayfly)},
            stdout=subprocess.PIPE, text=True, timeout=STRINGS_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"connection strings: not done within {STRINGS_MAX} s"]
    failed = []
    for line in done.stdout.splitlines():
        if line.startswith(FAILED):
            failed.append(line.removeprefix(FAILED))
        else:
            print(line, flush=True)
    ended_well = done.returncode == (1 if failed else 0)
    return failed if ended_well else [*failed, f"connection strings: exit {done.returncode}"]


def main() -> int:
    from run import install, mayfly

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="strings whose kind or host contains this")
    args = parser.parse_args()
    chosen = [s for s in strings() if not args.only or args.only in str(s)]
    binary, ready = mayfly(), install()
    started = time.monotonic()
    try:
        private_network.enter({name: "127.0.0.1" for name in NAMES}, [LAN])
    except private_network.Unsupported as reason:
        print(f"SKIPPED: connection strings, as this machine gives no network of one's own ({reason})")
        return 0
    with tempfile.TemporaryDirectory(prefix="mayfly-strings-") as directory:
        found = run(ready, binary, Path(directory), chosen)
    for line in found:
        print(f"{FAILED}{line}")
    print(f"connection strings: {len(chosen)}, {len(found)} failures, {time.monotonic() - started:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
