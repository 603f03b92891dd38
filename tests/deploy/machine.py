"""The machine the checks run on, and others inside it: what Debian has for them, ports, nodes, and fresh systems."""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DEPLOY = ROOT / "deploy"
CACHE = Path(os.environ.get("MAYFLY_DEPLOY_HOME", Path.home() / ".cache/mayfly/deploy"))
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
COMMAND_MAX = 120  # Seconds a command may take, unless it says otherwise.


class Missing(Exception):
    """This machine lacks what a check takes, and cannot get it; says what."""


class Failed(Exception):
    """What was promised does not hold."""


def ensure(holds: object, told: str) -> None:
    if not holds:
        raise Failed(told)


def run(
    *command: str | Path, within: float = COMMAND_MAX, code: int | None = 0, **options
) -> subprocess.CompletedProcess:
    """Runs a command to its end; fails with what it said unless it ends with `code` (None: any)."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=within, **options)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(words)} did not end within {within} s: {error.stderr}") from None
    if code is not None and done.returncode != code:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def need(*packages: str, programs: tuple[str, ...]) -> None:
    """Debian's packages that bring these programs, installed if they are not there."""
    missing = [program for program in programs if not shutil.which(program)]
    if not missing:
        return
    if os.getuid() != 0 or not shutil.which("apt-get"):
        raise Missing(f"{', '.join(missing)}: install as root: apt-get install {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
        done = run("apt-get", *command, within=300, code=None, env=environment)
        if done.returncode:
            raise Missing(f"{', '.join(missing)}: apt-get {' '.join(command)}: {done.stderr.strip()[-200:]}")


def need_root() -> None:
    if os.getuid() != 0:
        raise Missing("root, to make users, file systems and networks")


def go_tool(name: str, *install: str, source: Path | None = None) -> Path:
    """A program in Go, built once of `install` (module@version) or of the module at `source`."""
    if not shutil.which("go"):
        raise Missing("go")
    kept = CACHE / "tools"
    stamp = install[0].rsplit("@", 1)[1] if install else _digest(source)
    program = kept / f"{name}-{stamp}"
    if not program.exists() and "MAYFLY_DEPLOY_QUICK" in os.environ:
        raise Missing(f"{name}, which is built once, in minutes, by tests/deploy/run.py")
    if not program.exists():
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as room:
            environment = {**os.environ, "GOBIN": room, "GOFLAGS": "-mod=mod" if install else "-mod=readonly"}
            command = ["go", "install", *install] if install else ["go", "build", "-o", f"{room}/{name}", "."]
            done = run(*command, within=900, code=None, env=environment, cwd=source or "/")
            if done.returncode:
                raise Missing(f"{name}: {done.stderr.strip()[-300:]}")
            os.replace(f"{room}/{name}", program)
    return program


def _digest(source: Path) -> str:
    import hashlib

    digest = hashlib.sha256()
    for file in sorted(source.glob("*.go")) + [source / "go.mod", source / "go.sum"]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def wait_for(holds: Callable[[], object], told: Callable[[], str] | str, within: float = 30) -> None:
    """Until it holds; `told` says what did not, with the state it was last seen in."""
    until = time.monotonic() + within
    while not holds():
        if time.monotonic() > until:
            raise Failed(f"{told() if callable(told) else told}, after {within} s")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def http(url: str, within: float = 3) -> tuple[int, str]:
    """Status and body; 0 where nobody answers. Whoever asks a node for its health trusts any certificate."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=within, context=trusting) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


@dataclass
class Program:
    """A process that was started here, and ends with the check."""

    process: subprocess.Popen
    log: Path

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self, how: int = signal.SIGTERM, within: float = 30) -> int:
        """Its exit code after the signal."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"{self.process.args} goes on {within} s after signal {how}: {self.text()[-2000:]}") from None


@contextlib.contextmanager
def started(*command: str | Path, log: Path, **options) -> Iterator[Program]:
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, **options
        )
    program = Program(process, log)
    try:
        yield program
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@dataclass
class Fresh:
    """A Debian that nobody has used, running systemd as its process 1."""

    outer: subprocess.Popen
    pid: int
    _files: list[Path] = field(default_factory=list)

    def run(self, *command: str | Path, **options) -> subprocess.CompletedProcess:
        return run(
            "nsenter",
            f"--target={self.pid}",
            "--mount",
            "--pid",
            "--net",
            "--uts",
            "--ipc",
            "--root",
            "env",
            "--chdir=/",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LC_ALL=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive",
            *command,
            **options,
        )

    def shell(self, line: str, **options) -> str:
        return self.run("sh", "-ec", line, **options).stdout

    def put(self, file: Path, path: str) -> None:
        with file.open("rb") as content:
            done = subprocess.run(
                ["nsenter", f"--target={self.pid}", "--mount", "--root", "sh", "-c", f"cat > '{path}'"],
                stdin=content,
                timeout=COMMAND_MAX,
            )
        ensure(done.returncode == 0, f"cannot write {path}")

    def service(self, key: str) -> str:
        return self.run("systemctl", "show", "mayfly", f"--property={key}", "--value").stdout.strip()


def debian() -> Path:
    """The root of a Debian with systemd, made once."""
    need_root()
    need("debootstrap", "util-linux", "iproute2", programs=("debootstrap", "unshare", "nsenter", "ip"))
    made = CACHE / f"debian-{SUITE}"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(dir=CACHE))
        include = "systemd,systemd-sysv,dbus,openssl,curl,ca-certificates"
        done = run(
            "debootstrap", "--variant=minbase", f"--include={include}", SUITE, room, MIRROR, within=900, code=None
        )
        if done.returncode:
            shutil.rmtree(room)
            raise Missing(f"a Debian by debootstrap: {done.stdout.strip()[-200:]}")
        room.chmod(0o755)
        room.rename(made)
    return made


@contextlib.contextmanager
def fresh() -> Iterator[Fresh]:
    root = debian()
    before = _slices()
    with tempfile.TemporaryDirectory() as room:
        command = [
            "unshare",
            "--mount",
            "--pid",
            "--net",
            "--uts",
            "--ipc",
            "--cgroup",
            "--fork",
            "--kill-child",
            "sh",
            HERE / "fresh-machine.sh",
            root,
            room,
        ]
        outer = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")

            def first() -> int:
                found = children.read_text().split() if outer.poll() is None else []
                return int(found[0]) if found else 0

            def is_up() -> bool:
                pid = first()
                comm = Path(f"/proc/{pid}/comm")
                if outer.poll() is not None:
                    raise Missing(f"a machine within this one: {outer.stdout.read().strip()[-200:]}")
                if not pid or not comm.exists() or comm.read_text().strip() != "systemd":
                    return False
                return (
                    Fresh(outer, pid).run("systemctl", "is-active", "basic.target", code=None).stdout.strip()
                    == "active"
                )

            try:
                wait_for(is_up, "a systemd of its own does not come up", within=90)
            except Failed as error:
                raise Missing(str(error)) from None
            yield Fresh(outer, first())
        finally:
            outer.kill()
            outer.wait()
            for slice_of_it in sorted(_slices() - before):
                _remove(slice_of_it)


def _slices() -> set[Path]:
    """What a systemd makes of control groups where this process is, in every hierarchy."""
    paths = {line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()}
    roots = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")]
    names = ("init.scope", "system.slice", "user.slice")
    found = (root / path.lstrip("/") / name for root in roots for path in paths for name in names)
    return {folder for folder in found if folder.is_dir()}


def _remove(group: Path) -> None:
    """With all below it. The kernel keeps a group until the last process that was in it is gone."""

    def is_gone() -> bool:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        return not group.exists()

    wait_for(is_gone, f"{group} is left", within=20)


def json_lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]
