#!/usr/bin/env python3
"""The web console in Chromium, on three nodes of which one is killed while pages are used.

With --pictures it also writes the pictures of the documentation, docs/images/console-*.png; with
--pictures DIRECTORY --all each page in both themes and at both widths, to be looked at.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests/sdk"))

from cluster import Cluster, end_with_parent  # noqa: E402
from environment import fill, home_of, run_installer  # noqa: E402

RECORDED = {"MAYFLY_MESSAGE_HISTORY": "16"}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str:
    """The machine's Chromium, or Debian's, installed now."""
    for _ in range(2):
        if found := next(filter(None, map(shutil.which, CHROMIUM)), None):
            return found
        sudo = [] if os.geteuid() == 0 else ["sudo"]
        run_installer("chromium", *sudo, "apt-get", "install", "-y", "chromium")
    sys.exit("tests/console: there is no Chromium; install the package chromium")


def programs() -> Path:
    pins = [HERE / name for name in ("package.json", "package-lock.json")]
    home = home_of("console", *pins)

    def install() -> None:
        for pin in pins:
            shutil.copy(pin, home)
        run_installer("npm ci", "npm", "ci", "--no-audit", "--no-fund", cwd=home)

    return fill(home, install)


def mayfly() -> Path:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return Path(os.environ.get("MAYFLY_BIN", target / "release/mayfly"))


def main() -> int:
    pictures = sys.argv[1:]
    if pictures == ["--pictures"]:
        pictures.append(ROOT / "docs/images")
    with tempfile.TemporaryDirectory() as directory:
        with Cluster(mayfly(), Path(directory) / "cluster", env=RECORDED) as cluster, cluster.secured() as secured:
            env = {
                **os.environ, **secured.env,
                "MAYFLY_NODES": " ".join(cluster.http(node) for node in (1, 2, 3)),
                "MAYFLY_CHROMIUM": browser(),
                "MAYFLY_MODULES": str(programs() / "node_modules"),
            }  # fmt: skip
            checks = subprocess.Popen(
                ["node", HERE / "console.mjs", *pictures],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
                preexec_fn=end_with_parent,
            )  # fmt: skip
            for line in checks.stdout:
                match line.split():
                    # It cannot: it knows no processes.
                    case ["kill", node]:
                        cluster.kill(int(node))
                        print("killed", file=checks.stdin, flush=True)
                    case _:
                        print(line, end="", flush=True)
            return checks.wait()


if __name__ == "__main__":
    sys.exit(main())
