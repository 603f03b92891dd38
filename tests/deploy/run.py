#!/usr/bin/env python3
"""What deploy/ makes, tried: packages on a fresh Debian, the image as it is unpacked, compose files, the chart, and load
balancers before a cluster.

    tests/deploy/run.py                 everything
    tests/deploy/run.py --quick         what takes seconds: no fresh Debian, no containers, no cluster behind balancers;
                                        the chart if its tools were built before
    tests/deploy/run.py deb chart       checks whose names hold one of these words

It uses MAYFLY_BIN, or what was built. What a check takes from Debian or from the registry of Go it installs itself; where that cannot be
had, the check is skipped with a line that says why, and the others decide the exit code.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

import balancers
import chart
import containers
import packages
from machine import Failed, Missing, run

# Each takes more than a few seconds.
SLOW = {
    packages.the_same_binary_gives_the_same_packages,
    packages.a_fresh_debian_runs_it_and_keeps_what_is_its_operators,
    *containers.CHECKS,
    *balancers.CHECKS,
}
CHECKS = [*packages.CHECKS, *chart.CHECKS, *containers.CHECKS, *balancers.CHECKS]


def binary() -> Path:
    home = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/mayfly/target"))
    found = Path(os.environ.get("MAYFLY_BIN") or home / "release/mayfly")
    if not found.exists():
        sys.exit(f"mayfly: there is no {found}; build it, or name one as MAYFLY_BIN")
    return found.resolve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="checks whose names hold one of these")
    parser.add_argument("--quick", action="store_true", help="what takes seconds")
    args = parser.parse_args()
    if args.quick:
        os.environ["MAYFLY_DEPLOY_QUICK"] = "1"
    program = binary()
    print(f"deploy: {program}, {run(program, '--version').stdout.strip()}", flush=True)
    failed, ran = [], 0
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        if args.words and not any(word in name for word in args.words):
            continue
        if args.quick and check in SLOW:
            continue
        since = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mayfly-deploy-") as room:
            # Users other than root's have to reach what lies there.
            Path(room).chmod(0o755)
            try:
                check(program, Path(room))
                told = "ok"
                ran += 1
            except Missing as missing:
                told = f"SKIPPED: it takes {missing}"
            except Failed as error:
                told = f"FAILED: {error}"
                failed.append(name)
            except Exception:
                told = f"FAILED: {traceback.format_exc()}"
                failed.append(name)
        print(f"{name}: {told} ({time.monotonic() - since:.1f} s)", flush=True)
    if not ran and not failed:
        print("deploy: nothing was checked")
    for name in failed:
        print(f"deploy: FAILED: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
