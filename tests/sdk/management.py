#!/usr/bin/env python3
"""Azure's management tools, unmodified, against three nodes: the SDKs for Python and JS, `az`, the
client of HashiCorp's provider, and templates.

    tests/sdk/management.py              run.py calls it
    tests/sdk/management.py --only az    one of them

Their programs and pins are in `management/`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from cluster import NODES, Cluster
from environment import HERE, CannotInstall, Command, NoToolchain, go_program, node_home, python_home
from well_known import FAILED

PROGRAMS = HERE / "management"
WITHIN = 400  # Seconds one of them may take, on a busy machine: each command of `az` is a process.
SECRET = "a-secret-of-the-management-tests"
# Hosts of namespaces whose names programs connect to.
HOSTS = ("sb-shop.localhost", "sb-webshop.localhost", "sb-alarms.localhost", "sb-templates.localhost")


def python(id: str, bases: list[str]) -> tuple[Command, Mapping[str, str]]:
    home = python_home("management-python", PROGRAMS / "requirements.txt")
    return [home / "bin/python", PROGRAMS / "sdk.py", id, *bases], {}


def az(id: str, bases: list[str]) -> tuple[Command, Mapping[str, str]]:
    home = python_home("management-az", PROGRAMS / "az-requirements.txt")
    return [home / "bin/python", PROGRAMS / "az.py", id, bases[0]], {}


def deployments(id: str, bases: list[str]) -> tuple[Command, Mapping[str, str]]:
    home = python_home("management-python", PROGRAMS / "requirements.txt")
    return [home / "bin/python", PROGRAMS / "deployments.py", id, *bases], {}


def javascript(id: str, bases: list[str]) -> tuple[Command, Mapping[str, str]]:
    node, modules = node_home("management-js", PROGRAMS)
    return [node, PROGRAMS / "arm.mjs", id, bases[0]], {"MAYFLY_SDK_MODULES": str(modules)}


def go(id: str, bases: list[str]) -> tuple[Command, Mapping[str, str]]:
    """The client of HashiCorp's provider."""
    return [go_program("management-go", PROGRAMS / "go").program, id, bases[0]], {}


TOOLS: Mapping[str, Callable[[str, list[str]], tuple[Command, Mapping[str, str]]]] = {
    tool.__name__: tool for tool in (python, az, javascript, go, deployments)
}


def run_management(mayfly: Path, chosen: list[str] | None = None) -> list[str]:
    """What is wrong."""
    wrong = []
    flags = ["--azure", "--host-name", ",".join(HOSTS)]
    with tempfile.TemporaryDirectory(prefix="mayfly-management-") as name:
        env = {"MAYFLY_SECRET": SECRET}
        with Cluster(mayfly, Path(name) / "cluster", env=env, flags=flags) as cluster:
            told = re.search(r"^Azure's tools: subscription and tenant (\S+),", cluster.log(), re.MULTILINE)
            if not told:
                return [f"{FAILED}management: the cluster tells no subscription:\n{cluster.log()}"]
            bases = [f"https://{cluster.http(node)}" for node in NODES]
            for tool in chosen or [*TOOLS]:
                try:
                    command, more = TOOLS[tool](told[1], bases)
                except NoToolchain as error:
                    print(f"SKIPPED: {tool}'s management, for which this machine lacks {error}")
                    continue
                except CannotInstall as error:
                    if os.environ.get("MAYFLY_SDK") == "optional":
                        print(f"SKIPPED: {tool}'s management, which cannot be installed ({error})")
                        continue
                    wrong.append(f"management: {tool} cannot be installed: {error}")
                    continue
                # One of them ends a node, which is started again.
                more = {**more, "MAYFLY_PIDS": ",".join(str(cluster.pid(node)) for node in NODES)}
                env_of = {**env, **more, **trusting(cluster.authority)}
                wrong += run_program(f"management, {tool}", command, env_of)
    return wrong


def trusting(authority: Path) -> dict[str, str]:
    names = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
    return {name: str(authority) for name in names}


def run_program(name: str, command: Command, env: Mapping[str, str]) -> list[str]:
    """What is wrong, of a program that tells it so."""
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=WITHIN, check=False
    )
    wrong = re.findall(r"^wrong: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not done.stdout.endswith("done\n"):
        wrong.append(f"it failed: {(done.stderr or done.stdout)[-2000:]}")
    return [f"{name}: {line}" for line in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=TOOLS, help="this one alone")
    args = parser.parse_args()
    from run import mayfly

    wrong = run_management(mayfly(), [args.only] if args.only else None)
    for line in wrong:
        print(f"{FAILED}{line}")
    print(f"management: {len(wrong)} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
