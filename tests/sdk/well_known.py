"""A broker on the ports that programs know by heart, in a network of this process's own."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import private_network
from cluster import end_with_parent
from environment import HERE

READY_MAX = 60  # Seconds a broker may take to start.
SCRIPT_MAX = 600  # Seconds a script of such tests may take.
KEY = "SAS_KEY_VALUE"
NAMESPACE = "contoso.servicebus.windows.net"
# The host of a namespace beside the default one, and what that is called.
OTHER = "fabrikam.servicebus.windows.net"
OTHER_NAME = "fabrikam"
# An address of a local network, as `192.168.y.z` in Microsoft's pages.
LAN = "192.168.17.4"
# Namespaces of profiles, each by the name of its own.
PROFILES = ("self-hosted", "basic", "standard", "premium")
OF_PROFILES = tuple(f"{profile}.servicebus.windows.net" for profile in PROFILES)
NAMES = ("servicebus-emulator", "host.docker.internal", NAMESPACE, OTHER, *OF_PROFILES)

# Both take everything on every port that an SDK makes of a string: 5672 and 5300 of the emulator, 5671
# and 443 of Azure, and 80.
UP = (
    *("up", "--data-dir", "up", "--memory", "128", "--host", "0.0.0.0"),
    *("--tls", "--plain", "--insecure", "--host-name", ",".join((*NAMES, LAN)), "--azure-ports"),
    *("--websocket", "0.0.0.0:80"),
)
SERVE = ("serve", "--config", "mayfly.toml")
PAGE = HERE.parent.parent / "docs/clients/connection-strings.md"


def config() -> str:
    """What the page tells to write, with the certificate that `mayfly up` has made."""
    (told,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    own = '[node]\ndata_dir = "serve"\n[storage]\nmemory_mebibytes = 128\n'
    return own + told.replace("/etc/mayfly/", "up/tls/")


class Broker:
    """Started in the directory, on the well-known ports of every address of this machine. `SERVE` is
    to come after `UP`, whose certificate it has.
    """

    def __init__(self, mayfly: Path, directory: Path, command: Sequence[str]) -> None:
        self._mayfly = mayfly
        self._log = directory / f"{command[0]}.log"
        (directory / "mayfly.toml").write_text(config())
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [mayfly, *command], cwd=directory, env={**os.environ, "MAYFLY_SECRET": KEY},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent,
            )  # fmt: skip

    def __enter__(self) -> "Broker":
        until = time.monotonic() + READY_MAX
        while (asked := self._run("queue", "list")).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise RuntimeError(f"no broker: {asked.stderr}\n{self._log.read_text()}")
            time.sleep(0.1)
        return self

    def __exit__(self, *why: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(READY_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "MAYFLY_SECRET": KEY, "MAYFLY_CONNECT": "127.0.0.1:5310"}
        return subprocess.run(
            [self._mayfly, *command], env=env, capture_output=True, text=True, check=False
        )

    def _ask(self, *command: str) -> str:
        done = self._run(*command)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def create_namespace(self) -> str:
        """The connection string of a namespace beside the default one."""
        return self._create_namespace(OTHER_NAME, OTHER, "self-hosted")

    def create_namespace_of(self, profile: str) -> str:
        """The same of one that is called as its profile."""
        return self._create_namespace(profile, f"{profile}.servicebus.windows.net", profile)

    def _create_namespace(self, name: str, host: str, profile: str) -> str:
        self._ask("namespace", "create", name, "--profile", profile)
        shown = json.loads(self._ask("namespace", "show", name, "--keys", "--json"))
        (rule,) = shown["authorization_rules"]
        key = f"SharedAccessKeyName={rule['name']};SharedAccessKey={rule['primary_key']}"
        return f"Endpoint=sb://{host}/;{key}"

    def create_queue_in_namespace(self, name: str) -> None:
        self._ask("queue", "create", name, "--namespace", OTHER_NAME)

    def create_queue(self, name: str) -> str:
        """The connection string that Azure's portal would give out for it."""
        self._ask("queue", "create", name, "--authorization-rule", "app=listen,send")
        shown = json.loads(self._ask("queue", "show", name, "--keys", "--json"))
        (rule,) = shown["properties"]["authorization_rules"]
        key = f"SharedAccessKeyName={rule['name']};SharedAccessKey={rule['primary_key']}"
        return f"Endpoint=sb://{NAMESPACE}/;{key};EntityPath={name}"

    def create_topic(self, name: str, subscription: str) -> None:
        self._ask("topic", "create", name)
        self._ask("subscription", "create", name, subscription)

    def counters(self, queue: str) -> dict[str, int]:
        return json.loads(self._ask("queue", "show", queue, "--json"))["counters"]


def trust(directory: Path, bundles: Iterable[Path | None]) -> dict[str, str]:
    """Has programs trust the authority by the means their users have: these files, and variables.
    Returns the programs' environment."""
    authority = directory / "up/tls/authority.pem"
    for number, bundle in enumerate(bundle for bundle in bundles if bundle):
        # As if it had been appended there.
        both = directory / f"trusted-{number}.pem"
        both.write_bytes(bundle.read_bytes() + authority.read_bytes())
        private_network.cover(bundle, both)
    # Where such a variable is set, Python's administration client reads no other file.
    others = {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    env = {name: value for name, value in os.environ.items() if name not in others}
    return env | {"NODE_EXTRA_CA_CERTS": str(authority), "SSL_CERT_FILE": str(authority)}


FAILED = "FAILED "


def main(what: str, check: Callable[[Path, Path], list[str]], mayfly: Path) -> int:
    """Runs a check, which is given the binary and a directory, in a network of its own."""
    started = time.monotonic()
    try:
        private_network.enter({name: "127.0.0.1" for name in NAMES}, [LAN])
    except private_network.Unsupported as reason:
        print(f"SKIPPED: {what}, as this machine lets nobody have a network of his own ({reason})")
        return 0
    with tempfile.TemporaryDirectory(prefix="mayfly-well-known-") as directory:
        failures = check(mayfly, Path(directory))
    for line in failures:
        print(f"{FAILED}{line}")
    print(f"{what}: {len(failures)} failures, {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


def run_apart(script: str, mayfly: Path) -> list[str]:
    """Failures of a script that ends with `main`. It has a process of its own: who enters another
    network does not come back.
    """
    name = Path(script).name
    try:
        done = subprocess.run(
            [sys.executable, script], env={**os.environ, "MAYFLY_BIN": str(mayfly)},
            stdout=subprocess.PIPE, text=True, timeout=SCRIPT_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"{name} did not end within {SCRIPT_MAX} s"]
    failures = []
    for line in done.stdout.splitlines():
        if line.startswith(FAILED):
            failures.append(line.removeprefix(FAILED))
        else:
            print(line, flush=True)
    as_told = done.returncode == (1 if failures else 0)
    return failures if as_told else [*failures, f"{name} ended with {done.returncode}"]
