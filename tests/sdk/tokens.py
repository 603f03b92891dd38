#!/usr/bin/env python3
"""Credentials in the place of connection strings: `ClientSecretCredential` with the cluster's own authority, and tokens
of an issuer, with the SDKs for Python and JS, against three nodes.

    tests/sdk/tokens.py                  run.py calls it
    tests/sdk/tokens.py --only python    one of them

Their programs are in `tokens/`, and the issuer.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cluster import NODES, Certified, end_with_parent, free_port
from environment import HERE, CannotInstall, Command, node_home, python_home
from management import run_program, trusting
from well_known import FAILED

PROGRAMS = HERE / "tokens"
SECRET = "a-secret-of-the-token-tests"
ID = "33333333-3333-3333-3333-333333333333"
CONFIG = f"""
[security]
secret = "{SECRET}"
[azure]
enabled = true
tenant = "{ID}"
[[security.key]]
name = "listener"
key = "the-listeners-own-key"
rights = ["listen"]
[[security.issuer]]
url = "ISSUER"
ca_file = "AUTHORITY"
claim = "resource_access.bus.roles"
[[security.issuer.role]]
value = "orders-writer"
rights = ["send"]
entities = ["orders"]
[[security.issuer.role]]
value = "js-writer"
rights = ["send"]
entities = ["of-js"]
[[security.issuer.role]]
value = "reader"
rights = ["listen"]
"""


def _python() -> Path:
    """The one whose pins have all that is needed."""
    return python_home("management-python", HERE / "management/requirements.txt") / "bin/python"


def python() -> tuple[Command, Mapping[str, str]]:
    return [_python(), PROGRAMS / "messages.py"], {}


def javascript() -> tuple[Command, Mapping[str, str]]:
    node, modules = node_home("tokens-js", PROGRAMS)
    return [node, PROGRAMS / "messages.mjs"], {"MAYFLY_SDK_MODULES": str(modules)}


# The last of them has the issuer sign with another key, which each node learns when it is shown it.
PROGRAM_OF = {of.__name__: of for of in (javascript, python)}


@contextmanager
def serving(port: int, certs: Path) -> Iterator[str]:
    """The issuer, with the certificate of the first node, which is good for this machine."""
    pair = [certs / "node-1.pem", certs / "node-1.key"]
    process = subprocess.Popen(
        [_python(), PROGRAMS / "issuer.py", str(port), *pair],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent,
    )  # fmt: skip
    try:
        if process.stdout.readline() != "serving\n":
            raise RuntimeError("the issuer does not start")
        yield f"https://localhost:{port}/realms/shop"
    finally:
        process.stdin.close()
        process.wait()


def run_tokens(mayfly: Path, chosen: list[str] | None = None) -> list[str]:
    """What is wrong."""
    try:
        programs = {name: PROGRAM_OF[name]() for name in chosen or PROGRAM_OF}
    except CannotInstall as error:
        if os.environ.get("MAYFLY_SDK") == "optional":
            print(f"SKIPPED: tokens, whose programs cannot be installed ({error})")
            return []
        return [f"tokens: cannot be installed: {error}"]
    wrong = []
    with tempfile.TemporaryDirectory(prefix="mayfly-tokens-") as name:
        directory, port = Path(name) / "cluster", free_port()
        config = CONFIG.replace("ISSUER", f"https://localhost:{port}/realms/shop")
        # The nodes start while the issuer is away, and find it once it is there.
        with Certified(mayfly, directory, config) as cluster, serving(port, cluster.authority.parent) as issuer:
            nodes = [f"{cluster.http(node)},{cluster.amqps(node)}" for node in NODES]
            env = {"MAYFLY_SECRET": SECRET, **trusting(cluster.authority)}
            for program, (command, more) in programs.items():
                wrong += run_program(f"tokens, {program}", [*command, ID, issuer, *nodes], {**env, **more})
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PROGRAM_OF, help="this one alone")
    args = parser.parse_args()
    from run import mayfly

    wrong = run_tokens(mayfly(), [args.only] if args.only else None)
    for line in wrong:
        print(f"{FAILED}{line}")
    print(f"tokens: {len(wrong)} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
