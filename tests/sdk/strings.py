#!/usr/bin/env python3
"""The connection strings of Microsoft's pages, as they stand there, with every SDK that runs here.

    tests/sdk/strings.py               every string; run.py calls it
    tests/sdk/strings.py --only emulator

It has a network of its own, in which the names of the strings mean this machine and the well-known
ports are free: 5672 and 5300 of the emulator, 5671 and 443 of Azure. The binary is MAYFLY_BIN, or
the one in CARGO_TARGET_DIR.
"""

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import well_known
from environment import HERE, Command, Installed
from sdks import Ready, Sdk
from well_known import KEY, LAN, NAMESPACE, POLICY, POLICY_KEY, Broker, run_apart, trust

PAGE = HERE.parent.parent / "docs/clients/connection-strings.md"
PROGRAM_MAX = 120  # Seconds one SDK may take for all it does with one string.
AT_ONCE = 4  # Programs beside each other: most of their time is waiting.

PARTS = ("client", "administration", "websocket")


@dataclass(frozen=True)
class String:
    kind: str
    name: str
    parts: tuple[str, ...]
    # In the place of an entity's name stands `{queue}`.
    template: str

    def __str__(self) -> str:
        return f"{self.kind} string of {self.template.split('//')[1].split(';')[0]}"

    def queue(self, sdk: Sdk) -> str:
        """For an SDK alone, as SDKs run beside each other."""
        return f"{self.name}-{sdk.name}"

    def text(self, sdk: Sdk) -> str:
        return self.template.format(queue=self.queue(sdk))


def strings() -> Iterator[String]:
    """Those of the emulator: one for each place a program may run in, and the port to append for an
    administration client. And what Azure's portal gives out for a namespace and for an entity.

    https://learn.microsoft.com/azure/service-bus-messaging/test-locally-with-service-bus-emulator
    """
    key = f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY};"
    for host in ("localhost", LAN, "servicebus-emulator", "host.docker.internal"):
        text = f"Endpoint=sb://{host};{key}UseDevelopmentEmulator=true;"
        yield String("emulator", host, PARTS, text)
        parts = ("administration", "websocket")
        yield String(EMULATOR[1], f"{host}-5300", parts, text.replace(host, f"{host}:5300"))
    text = f"Endpoint=sb://{NAMESPACE}/;{key.rstrip(';')}"
    yield String("production", "namespace", PARTS, text)
    key = f"SharedAccessKeyName={POLICY};SharedAccessKey={POLICY_KEY}"
    text = f"Endpoint=sb://{NAMESPACE}/;{key};EntityPath={{queue}}"
    yield String("entity", "entity", PARTS, text)


@dataclass(frozen=True)
class Unable:
    """What an SDK itself cannot do with a kind of string; the page tells it in these words."""

    sdk: str
    kinds: tuple[str, ...]
    part: str
    why: str


EMULATOR = ("emulator", "emulator administration")
UNABLE = (
    Unable(
        "python", EMULATOR, "websocket",
        "It looks for the emulator's WebSocket on port 80, and takes no port from the string.",
    ),
    Unable(
        "java", ("emulator",), "websocket",
        "It looks for the emulator's WebSocket on port 5672, where AMQP is.",
    ),
    Unable(
        "java", ("entity",), "administration",
        "Its administration client refuses a string with `EntityPath`.",
    ),
)  # fmt: skip


def outcomes(
    sdk: Sdk, installed: Installed, string: String, env: dict[str, str]
) -> dict[str, str | None]:
    """What went wrong, by part."""
    command: Command = [*(installed.by_string or []), string.queue(sdk), *string.parts]
    try:
        done = subprocess.run(
            command, env={**env, **installed.env, "MAYFLY_STRING": string.text(sdk)},
            capture_output=True, text=True, timeout=PROGRAM_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {part: f"did not end within {PROGRAM_MAX} s" for part in string.parts}
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    silent = {part: f"said nothing: {done.stderr}" for part in string.parts}
    return silent | {outcome["part"]: outcome["failure"] for outcome in seen}


def wrong(sdk: Sdk, string: String, failures: dict[str, str | None]) -> Iterator[str]:
    """What fails and should not, and what does not and is said to."""
    for part, failure in failures.items():
        excuses = [
            unable for unable in UNABLE
            if (unable.sdk, unable.part) == (sdk.name, part) and string.kind in unable.kinds
        ]  # fmt: skip
        if failure and not excuses:
            yield f"{sdk.name}, {part}, {string}: {failure}"
        elif excuses and not failure:
            yield f"{sdk.name}, {part}, {string}: works, and UNABLE says that it cannot"


def check_page() -> Iterator[str]:
    told = " ".join(PAGE.read_text().split())
    for unable in UNABLE:
        if unable.why not in told:
            yield f"{PAGE.name} does not tell that: {unable.why}"


def run(ready: Ready, mayfly: Path, directory: Path, chosen: Sequence[String]) -> list[str]:
    with Broker(mayfly, directory) as broker, ThreadPoolExecutor(AT_ONCE) as programs:
        env = trust(directory, (installed.trusted for installed in ready.values()))
        having = [(sdk, installed) for sdk, installed in ready.items() if installed.by_string]
        pending = []
        for string, (sdk, installed) in itertools.product(chosen, having):
            broker.create_queue(string.queue(sdk))
            outcome = programs.submit(outcomes, sdk, installed, string, env)
            pending.append((sdk, string, outcome))
        found = [*check_page()]
        for sdk, string, outcome in pending:
            found += wrong(sdk, string, outcome.result())
    return found


def run_strings(mayfly: Path) -> list[str]:
    return run_apart(__file__, mayfly)


def main() -> int:
    from run import install, mayfly

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="strings whose kind or host contains this")
    args = parser.parse_args()
    chosen = [s for s in strings() if not args.only or args.only in str(s)]
    ready = install(None)
    what = f"{len(chosen)} connection strings"
    return well_known.main(what, lambda *where: run(ready, *where, chosen), mayfly())


if __name__ == "__main__":
    sys.exit(main())
