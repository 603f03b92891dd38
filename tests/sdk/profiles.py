#!/usr/bin/env python3
"""Namespaces of every profile, on one node, as Python's, JS's and Java's SDKs meet them.

    tests/sdk/profiles.py    every profile with every SDK beside each other; run.py calls it

Each profile has a namespace of its own, which the SDKs reach by its host, in a network of their own. A program is told
which tier it is to meet, and says part by part what was otherwise. The binary is MAYFLY_BIN, or the one in
CARGO_TARGET_DIR.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import well_known
from environment import Command, Installed
from sdks import Ready
from well_known import PROFILES, UP, Broker, run_apart, trust

PROGRAM_MAX = 120  # Seconds one SDK may take for all it does with one profile.
AT_ONCE = 4  # Programs beside each other: most of their time is waiting.
PARTS = ("namespace", "entities", "sizes", "features")


def failures(installed: Installed, text: str, profile: str, queue: str, env: dict[str, str]) -> list[str]:
    command: Command = [*(installed.profiles or []), profile, queue]
    try:
        done = subprocess.run(
            command, env={**env, **installed.env, "MAYFLY_STRING": text},
            capture_output=True, text=True, timeout=PROGRAM_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"did not end within {PROGRAM_MAX} s"]
    seen = {told["part"]: told["failure"] for told in map(json.loads, done.stdout.splitlines())}
    silent = [f"{part}: said nothing: {done.stderr}" for part in PARTS if part not in seen]
    return silent + [f"{part}: {failure}" for part, failure in seen.items() if failure]


def run(ready: Ready, mayfly: Path, directory: Path) -> list[str]:
    having = [(sdk, installed) for sdk, installed in ready.items() if installed.profiles]
    pending, found = [], []
    with Broker(mayfly, directory, UP) as broker, ThreadPoolExecutor(AT_ONCE) as programs:
        env = trust(directory, (installed.trusted for _, installed in having))
        for profile in PROFILES:
            text = broker.create_namespace_of(profile)
            for sdk, installed in having:
                told = (installed, text, profile, f"of-{sdk.name}", env)
                pending.append((f"{sdk.name}, {profile}", programs.submit(failures, *told)))
        for what, outcome in pending:
            found += [f"{what}: {failure}" for failure in outcome.result()]
    return found


def run_profiles(mayfly: Path) -> list[str]:
    return run_apart(__file__, mayfly)


def main() -> int:
    from run import install, mayfly

    ready = install(None)
    return well_known.main(f"{len(PROFILES)} profiles", lambda *where: run(ready, *where), mayfly())


if __name__ == "__main__":
    sys.exit(main())
