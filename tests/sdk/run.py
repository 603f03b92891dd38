#!/usr/bin/env python3
"""Runs the official SDKs, unmodified, against a three-node cluster of real processes.

    tests/sdk/run.py                   every check, a short failover run, the documents' examples,
                                       the table compared
    tests/sdk/run.py --write-table     the same, and METHODS.md written
    tests/sdk/run.py --only sessions   checks whose name contains this
    tests/sdk/run.py --rounds 10       failover alone, every node killed ten times

The SDKs are installed once into ~/.cache/mayfly/sdk (MAYFLY_SDK_HOME). Without a network that fails,
unless MAYFLY_SDK=optional. The binary is MAYFLY_BIN, or the one in CARGO_TARGET_DIR.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import table
from cluster import Cluster
from environment import HERE, CannotInstall, Environment, install
from examples import run_examples
from failover import Failover

SUITE_MAX = 300  # Seconds the checks of one SDK may take together.
METHODS = HERE / "METHODS.md"
SAYS = {
    "forwarded": "Through the forwarding address, while each node dies and comes back: nothing is "
    "lost, stored twice or delivered after its completion.",
    "direct": "At the nodes that survive, while the other dies and comes back: nothing is lost or "
    "delivered after its completion, and every error says that it passes.",
}


# The clone stays as it is.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def mayfly() -> Path:
    target = os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/mayfly/target")
    path = Path(os.environ.get("MAYFLY_BIN", Path(target) / "release/mayfly"))
    if not path.exists():
        sys.exit(f"{path} is missing: `cargo build --release --workspace` makes it, or set MAYFLY_BIN")
    return path


def run_suites(
    environment: Environment, cluster: Cluster, directory: Path, only: str | None
) -> dict[str, Any]:
    """The results of each suite. They run beside each other: most of their time is waiting."""
    python = [environment.python, HERE / "python/suite.py"]
    programs: dict[str, list[str | Path]] = {
        "sync": [*python, "--flavour", "sync"],
        "async": [*python, "--flavour", "async"],
        "js": [environment.node, HERE / "js/suite.mjs"],
    }
    env = {**os.environ, "MAYFLY_SDK_MODULES": str(environment.modules)}
    where = ["--amqp", cluster.forwarded, "--http", cluster.http(2)]
    running = {
        suite: subprocess.Popen(
            [*program, *where, "--json", directory / f"{suite}.json"]
            + (["--only", only] if only else []),
            env=env,
        )
        for suite, program in programs.items()
    }
    until = time.monotonic() + SUITE_MAX
    try:
        for suite, process in running.items():
            process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        sys.exit(f"the checks of {suite} do not end within {SUITE_MAX} s")
    finally:
        for process in running.values():
            process.kill()
    return {suite: json.loads((directory / f"{suite}.json").read_text()) for suite in running}


def run_failover(
    environment: Environment, cluster: Cluster, directory: Path, rounds: int
) -> list[dict[str, Any]]:
    accounts = []
    with Failover(environment, cluster, directory) as failover:
        for account in failover.run(rounds):
            accounts.append(account)
            told = [f"{name} {value}" for name, value in account.items() if value]
            print(f"failover {', '.join(told)}", flush=True)
    return accounts


def as_checks(accounts: list[dict[str, Any]], results: dict[str, Any]) -> None:
    """One check for each run and SDK, of what all accounts of it say."""
    for run, says in SAYS.items():
        for suite in ("async", "js"):
            own = [a for a in accounts if (a["run"], a["suite"]) == (run, suite)]
            failures = [account["failure"] for account in own if account["failure"]]
            check = {"name": f"failover.{run}", "says": says, "methods": []}
            check["failure"] = "; ".join(failures) or None
            results[suite]["checks"].append(check)


def failures(results: dict[str, Any]) -> list[str]:
    return [
        f"{suite} {check['name']}: {check['failure']}"
        for suite, result in results.items()
        for check in result["checks"]
        if check["failure"]
    ]


def check_table(text: str, write: bool) -> list[str]:
    if write:
        METHODS.write_text(text)
        print(f"{METHODS} is written")
    elif not METHODS.exists() or METHODS.read_text() != text:
        return ["METHODS.md differs from what was seen: run tests/sdk/run.py --write-table"]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write-table", action="store_true", help="write METHODS.md")
    parser.add_argument("--only", help="run checks whose name contains this, and no failover")
    parser.add_argument("--rounds", type=int, help="run failover only, with so many rounds")
    args = parser.parse_args()
    # Ended from outside: whatever was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    binary = mayfly()
    try:
        environment = install()
    except CannotInstall as error:
        if os.environ.get("MAYFLY_SDK") == "optional":
            print(f"SKIPPED: the SDKs cannot be installed ({error}), and MAYFLY_SDK=optional")
            return 0
        print(f"the SDKs cannot be installed: {error}\nLet pip and npm reach their registries, "
              "or set MAYFLY_SDK=optional to go without these tests.", file=sys.stderr)  # fmt: skip
        return 1
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="mayfly-sdk-") as name,
        Cluster(binary, Path(name)) as cluster,
    ):
        directory = Path(name)
        if args.rounds:
            accounts = run_failover(environment, cluster, directory, args.rounds)
            wrong = [account["failure"] for account in accounts if account["failure"]]
        else:
            results = run_suites(environment, cluster, directory, args.only)
            if not args.only:
                as_checks(run_failover(environment, cluster, directory, 1), results)
            wrong = failures(results)
            if not args.only:
                wrong += run_examples(environment, cluster, binary, directory)
                wrong += [f"untested: {method}" for method in table.untested(results)]
                text = table.document(environment.versions(), results)
                wrong += check_table(text, args.write_table)
    for line in wrong:
        print(f"FAILED {line}")
    print(f"SDKs: {len(wrong)} failures, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
