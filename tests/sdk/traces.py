#!/usr/bin/env python3
"""One message's life, traced by the SDKs themselves: their spans and the broker's are one trace.

    tests/sdk/traces.py                run.py calls it
    tests/sdk/traces.py --show         prints the traces

Three nodes and the SDKs for Python and JS, each with OpenTelemetry as its own documentation says to use it, tell the
same collector, which decodes what comes by the protocol's own messages. The programs are in `traces/`, with their
versions.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, free_port
from environment import HERE, CannotInstall, node_home, python_home
from well_known import FAILED

PROGRAMS = HERE / "traces"
WITHIN = 300  # Seconds all of it may take, on a busy machine.
QUEUES = ("python", "javascript")


def run_traces(mayfly: Path, show: bool = False) -> list[str]:
    """What is wrong."""
    try:
        home = python_home("traces-python", PROGRAMS / "requirements.txt")
        node, modules = node_home("traces-js", PROGRAMS)
    except CannotInstall as error:
        if os.environ.get("MAYFLY_SDK") == "optional":
            print(f"SKIPPED: traces, whose libraries cannot be installed ({error})")
            return []
        return [f"the libraries of traces cannot be installed: {error}"]
    port = free_port()
    told = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    with tempfile.TemporaryDirectory(prefix="mayfly-traces-") as name:
        with Cluster(mayfly, Path(name) / "cluster", env=told) as cluster:
            for queue in QUEUES:
                create = [mayfly, "queue", "create", queue, "--connect", cluster.grpc(1)]
                subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
            command = [
                home / "bin/python", PROGRAMS / "life.py", "--amqp", cluster.amqp(2),
                "--port", str(port), *(["--show"] if show else []), node, PROGRAMS / "life.mjs",
            ]  # fmt: skip
            env = {**os.environ, "MAYFLY_SDK_MODULES": str(modules)}
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=WITHIN, check=False
            )
    if show:
        print(done.stdout)
    wrong = re.findall(r"^wrong: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 and not wrong:
        wrong = [f"the programs of traces failed: {(done.stderr or done.stdout)[-2000:]}"]
    return [f"traces: {line}" for line in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print the traces")
    args = parser.parse_args()
    from run import mayfly

    wrong = run_traces(mayfly(), args.show)
    for line in wrong:
        print(f"{FAILED}{line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
