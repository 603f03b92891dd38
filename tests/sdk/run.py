#!/usr/bin/env python3
"""Runs the official SDKs, unmodified, against clusters of real processes, of one node and of three.

    tests/sdk/run.py                   every check with either cluster, a short failover run, the
                                       documents' examples, the table compared
    tests/sdk/run.py --write-table     the same, and METHODS.md written
    tests/sdk/run.py --only sessions   checks whose name contains this
    tests/sdk/run.py --sdk jms         one SDK: its checks, failover, example and columns
    tests/sdk/run.py --rounds 10       failover alone, every node killed ten times
    tests/sdk/run.py --ends            every node ended as planned, killed, and paused, under every kind of
                                       call; prints a table, and with --write-table writes it into
                                       docs/clients/node-ends.md
    tests/sdk/run.py --transport wss   every check with three nodes, and all through WebSockets with
                                       TLS, or with amqps over AMQP with TLS; administration by HTTPS

The SDKs are installed once into ~/.cache/mayfly/sdk (MAYFLY_SDK_HOME). Without a network that fails,
unless MAYFLY_SDK=optional. A language whose tools this machine lacks is skipped. The binary is MAYFLY_BIN, or the one in CARGO_TARGET_DIR.
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
from cluster import Certified, Cluster
from ends import Ends, table as table_of_ends, write_table as write_table_of_ends
from environment import HERE, CannotInstall, Command, NoToolchain
from examples import run_examples
from expected import failures
from experiments import run_experiments
from failover import Failover
from management import run_management
from profiles import run_profiles
from recipes import run_recipes
from sdks import SDKS, Ready
from strings import run_strings
from tokens import run_tokens
from traces import run_traces

SUITE_MAX = 300  # Seconds the checks of one SDK may take together.
METHODS = HERE / "METHODS.md"
SAYS = {
    "forwarded": "Through the forwarding address, or from node to node where a client knows them, while "
    "each node dies and comes back: nothing is lost, stored twice or delivered after its completion.",
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


def install(name: str | None) -> Ready:
    """Installs what is not there yet, of the languages that this machine speaks; of all, or of one."""
    ready = {}
    for sdk in (sdk for sdk in SDKS if name in (None, sdk.name)):
        try:
            ready[sdk] = sdk.install()
        except NoToolchain as missing:
            print(f"SKIPPED: {sdk.package}, as this machine has no {missing}", flush=True)
    return ready


def run_suites(
    ready: Ready, cluster: Cluster | Certified, directory: Path, only: str | None, transport: str = "plain"
) -> dict[str, Any]:
    """The results of each suite. They run beside each other: most of their time is waiting."""
    node = min(2, cluster.nodes)
    where = ["--amqp", cluster.forwarded, "--http", cluster.http(node)]
    secure = {"MAYFLY_AMQPS": cluster.amqps(node), "MAYFLY_AUTHORITY": str(cluster.authority)}
    if transport != "plain":
        # What Node.js trusts besides; the others are told by the checks.
        secure |= {"MAYFLY_TRANSPORT": transport, "NODE_EXTRA_CA_CERTS": str(cluster.authority)}
    with cluster.secured() as secured:
        return _run_suites(ready, where, {**secure, **secured.env}, directory, only)


def _run_suites(
    ready: Ready, where: list[str], variables: dict[str, str], directory: Path, only: str | None
) -> dict[str, Any]:
    running = {}
    for sdk, installed in ready.items():
        for suite in sdk.suites:
            command: Command = [*installed.suite, *suite.flags, *where]
            command += ["--json", directory / f"{suite.name}.json"]
            command += ["--only", only] if only else []
            env = {**os.environ, **installed.env, **variables}
            running[suite.name] = subprocess.Popen(command, env=env)
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
    ready: Ready, cluster: Cluster, directory: Path, rounds: int
) -> list[dict[str, Any]]:
    accounts = []
    with Failover(ready, cluster, directory) as failover:
        for account in failover.run(rounds):
            accounts.append(account)
            told = [f"{name} {value}" for name, value in account.items() if value]
            print(f"failover {', '.join(told)}", flush=True)
    return accounts


def run_ends(ready: Ready, cluster: Cluster, directory: Path, write: bool) -> list[str]:
    """What is wrong where nodes end."""
    rows = Ends(ready, cluster, directory).run()
    print(table_of_ends(rows), flush=True)
    if write:
        write_table_of_ends(rows)
    return [problem for row in rows for problem in row.problems()]


def as_checks(ready: Ready, accounts: list[dict[str, Any]], results: dict[str, Any]) -> None:
    """One check for each run and SDK, of what all accounts of it say."""
    suites = [suite.name for sdk in ready for suite in sdk.suites if suite.fails_over]
    for run, says in SAYS.items():
        for suite in suites:
            own = [a for a in accounts if (a["run"], a["suite"]) == (run, suite)]
            failed = [account["failure"] for account in own if account["failure"]]
            check = {"name": f"failover.{run}", "says": says, "methods": []}
            check["failure"] = "; ".join(failed) or None
            results[suite]["checks"].append(check)


def check_table(ready: Ready, results: dict[str, Any], write: bool) -> list[str]:
    written = METHODS.read_text() if METHODS.exists() else ""
    text = table.document(ready, results, written).text()
    if write:
        METHODS.write_text(text)
        print(f"{METHODS} is written")
    elif written != text:
        return ["METHODS.md differs from what was seen: run tests/sdk/run.py --write-table"]
    return []


def run_together(
    ready: Ready, binary: Path, directory: Path, only: str | None, write: bool
) -> list[str]:
    """What fails where three nodes are the cluster."""
    with Cluster(binary, directory) as cluster:
        results = run_suites(ready, cluster, directory, only)
        if only:
            return [*failures(results, only)]
        as_checks(ready, run_failover(ready, cluster, directory, 1), results)
        wrong = [*failures(results, only)]
        wrong += run_examples(ready, cluster, binary, directory)
    wrong += [f"untested: {method}" for method in table.untested(results)]
    wrong += (line for sdk in SDKS if sdk.recorded for line in sdk.recorded.problems())
    return wrong + check_table(ready, results, write)


def run_over(
    ready: Ready, binary: Path, directory: Path, only: str | None, transport: str
) -> list[str]:
    """What fails where all goes over TLS, to three nodes that know each other by certificates."""
    # Written where .NET is, its suite has checks of TLS, and the rest over plain AMQP.
    ready = {sdk: installed for sdk, installed in ready.items() if not sdk.recorded}
    with Certified(binary, directory) as cluster:
        results = run_suites(ready, cluster, directory, only, transport)
    return [f"over {transport}: {line}" for line in failures(results, only)]


def run_alone(ready: Ready, binary: Path, directory: Path, only: str | None) -> list[str]:
    """What fails where one node is the whole cluster. METHODS.md is about three."""
    print("one node", flush=True)
    with Cluster(binary, directory, nodes=1) as cluster:
        results = run_suites(ready, cluster, directory, only)
    return [f"with one node: {line}" for line in failures(results, only)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write-table", action="store_true", help="write METHODS.md, or the table of ends")
    parser.add_argument("--only", help="run checks whose name contains this, and no failover")
    parser.add_argument("--sdk", choices=[sdk.name for sdk in SDKS], help="run this one only")
    parser.add_argument("--transport", choices=("amqps", "wss"), help="run checks only, over this")
    parser.add_argument("--rounds", type=int, help="run failover only, with so many rounds")
    parser.add_argument("--ends", action="store_true", help="run the ends of nodes only, all of them")
    args = parser.parse_args()
    # Ended from outside: whatever was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    binary = mayfly()
    try:
        ready = install(args.sdk)
    except CannotInstall as error:
        if os.environ.get("MAYFLY_SDK") == "optional":
            print(f"SKIPPED: the SDKs cannot be installed ({error}), and MAYFLY_SDK=optional")
            return 0
        print(f"the SDKs cannot be installed: {error}\nLet the package managers reach their registries, "
              "or set MAYFLY_SDK=optional to go without these tests.", file=sys.stderr)  # fmt: skip
        return 1
    if not ready:
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mayfly-sdk-") as name:
        directory = Path(name)
        if args.rounds:
            with Cluster(binary, directory) as cluster:
                accounts = run_failover(ready, cluster, directory, args.rounds)
            wrong = [account["failure"] for account in accounts if account["failure"]]
        elif args.ends:
            with Cluster(binary, directory) as cluster:
                wrong = run_ends(ready, cluster, directory, args.write_table)
        elif args.transport:
            wrong = run_over(ready, binary, directory, args.only, args.transport)
        else:
            wrong = run_together(ready, binary, directory, args.only, args.write_table)
            wrong += run_alone(ready, binary, directory / "alone", args.only)
            if not args.only and not args.sdk:
                wrong += [*run_strings(binary), *run_recipes(binary), *run_experiments(binary)]
                wrong += [*run_traces(binary), *run_profiles(binary), *run_management(binary)]
                wrong += run_tokens(binary)
    for line in wrong:
        print(f"FAILED {line}")
    print(f"SDKs: {len(wrong)} failures, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
