#!/usr/bin/env python3
"""A store that speaks S3, for tests: Moto's, in memory, on a free port.

    tests/s3/server.py        prints `ready HOST:PORT`, and serves until its standard input ends

It is installed once into ~/.cache/mayfly/sdk (MAYFLY_SDK_HOME), as the SDKs are. Without a network that fails; with
MAYFLY_SDK=optional it says so and ends with 77.
"""

import logging
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_INSTALLED = 77


def serve() -> None:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"ready {host}:{port}", flush=True)
    # Whoever started this holds the other end, and lets go of it however he ends.
    sys.stdin.read()
    server.stop()


def main() -> None:
    if sys.argv[1:] == ["--installed"]:
        return serve()
    sys.path.insert(0, str(HERE.parent / "sdk"))
    from environment import CannotInstall, python_home

    try:
        home = python_home("s3", HERE / "requirements.txt")
    except CannotInstall as error:
        print(f"a store for S3 cannot be installed ({error})", flush=True)
        sys.exit(NOT_INSTALLED if os.environ.get("MAYFLY_SDK") == "optional" else 1)
    python = str(home / "bin/python")
    os.execv(python, [python, "-B", str(HERE / "server.py"), "--installed"])


main()
