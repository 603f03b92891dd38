"""Runs the checks of one of the two SDKs in `azure-servicebus`, unmodified, against a cluster.

    python suite.py --flavour sync --amqp localhost:5700 --http localhost:5300
"""

import argparse
import asyncio
import json
import logging
import sys
from pathlib import Path

import administration  # noqa: F401  Importing registers the checks.
import clients  # noqa: F401
import deferring  # noqa: F401
import faults  # noqa: F401
import locks  # noqa: F401
import receiving  # noqa: F401
import rules  # noqa: F401
import scheduling  # noqa: F401
import sending  # noqa: F401
import sessions  # noqa: F401
import settling  # noqa: F401
import topics  # noqa: F401
from harness import FLAVOURS, Cluster, run_checks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=sorted(FLAVOURS), required=True)
    parser.add_argument("--amqp", default="localhost:5700", metavar="HOST:PORT")
    parser.add_argument("--http", default="localhost:5300", metavar="HOST:PORT")
    parser.add_argument("--jobs", type=int, default=12, help="checks beside each other")
    parser.add_argument("--only", help="checks whose name contains this, told at length")
    parser.add_argument("--json", type=Path, help="where the results are written")
    args = parser.parse_args()
    # What the SDK logs of connections that end is told by the checks where it matters.
    logging.disable(logging.CRITICAL)
    flavour = FLAVOURS[args.flavour]
    cluster = Cluster(args.amqp, args.http)
    results = asyncio.run(run_checks(flavour, cluster, args.jobs, args.only))
    failed = [result for result in results if result["failure"]]
    for result in failed if args.only else []:
        print(f"{result['trace']}\n{flavour.name} {result['name']}: {result['failure']}\n")
    print(f"Python {flavour.name}: {len(results) - len(failed)} of {len(results)} checks passed")
    if args.json:
        document = {"inventory": flavour.inventory(), "checks": results}
        args.json.write_text(json.dumps(document))
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
