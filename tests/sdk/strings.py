#!/usr/bin/env python3
"""The connection strings of Microsoft's pages, as they stand there, with every SDK that runs here.

    tests/sdk/strings.py               every string; run.py calls it
    tests/sdk/strings.py --only emulator

Each is tried with `mayfly serve`, and one of each kind with `mayfly up`, in a network of its own, in
which the names of the strings mean this machine and the well-known ports are free. The binary is
MAYFLY_BIN, or the one in CARGO_TARGET_DIR.
"""

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import well_known
from environment import Command, Installed
from sdks import Ready, Sdk
from well_known import KEY, LAN, NAMESPACE, PAGE, SERVE, UP, Broker, run_apart, trust

PROGRAM_MAX = 120  # Seconds one SDK may take for all it does with one string.
AT_ONCE = 4  # Programs beside each other: most of their time is waiting.

PARTS = ("client", "administration", "websocket")


@dataclass(frozen=True)
class String:
    kind: str
    name: str
    # In the place of an entity's name stands `{queue}`. None: what the broker gives out.
    template: str | None
    parts: tuple[str, ...] = PARTS
    is_of_other_namespace: bool = False

    def queue(self, sdk: Sdk) -> str:
        """For an SDK alone, as SDKs run beside each other."""
        return f"{self.name}-{sdk.name}"

    def text(self, sdk: Sdk, broker: Broker, of_other_namespace: str) -> str:
        """With its queue, which the broker makes where the string is to find it and nowhere else."""
        queue = self.queue(sdk)
        if self.is_of_other_namespace:
            broker.create_queue_in_namespace(queue)
            return of_other_namespace
        of_entity = broker.create_queue(queue)
        return self.template.format(queue=queue) if self.template else of_entity


def strings() -> Iterator[String]:
    """Those of the emulator: one for each place a program may run in, and the port to append for an
    administration client. And what Azure's portal gives out for a namespace and for an entity.

    https://learn.microsoft.com/azure/service-bus-messaging/test-locally-with-service-bus-emulator
    """
    key = f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY}"
    for host in ("localhost", LAN, "servicebus-emulator", "host.docker.internal"):
        for kind, name, port in (
            ("emulator", host, ""),
            ("emulator administration", f"{host}-5300", ":5300"),
        ):
            text = f"Endpoint=sb://{host}{port};{key};UseDevelopmentEmulator=true;"
            yield String(kind, name, text)
    text = f"Endpoint=sb://{NAMESPACE}/;{key}"
    yield String("production", "namespace", text)
    yield String("entity", "entity", f"{text};EntityPath={{queue}}")
    # A key that opens nothing but the entity, which the broker draws.
    yield String("entity's key", "entity-key", None, ("client", "websocket"))
    # Whose host chooses it (NS-5), and whose key is its own.
    yield String("another namespace", "other-namespace", None, is_of_other_namespace=True)


@dataclass(frozen=True)
class Unable:
    """What an SDK itself cannot do with a kind of string; the page tells it in these words."""

    sdk: str
    kinds: tuple[str, ...]
    part: str
    why: str


# Empty is best.
UNABLE = (
    Unable(
        "java", ("entity",), "administration",
        "Its administration client refuses a string with `EntityPath`.",
    ),
)  # fmt: skip


def outcomes(
    installed: Installed, text: str, queue: str, parts: Sequence[str], env: Mapping[str, str]
) -> dict[str, str | None]:
    """What went wrong, by part."""
    command: Command = [*(installed.by_string or []), queue, *parts]
    try:
        done = subprocess.run(
            command, env={**env, **installed.env, "MAYFLY_STRING": text},
            capture_output=True, text=True, timeout=PROGRAM_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {part: f"did not end within {PROGRAM_MAX} s" for part in parts}
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    silent = {part: f"said nothing: {done.stderr}" for part in parts}
    return silent | {outcome["part"]: outcome["failure"] for outcome in seen}


def wrong(sdk: Sdk, string: String, failures: Mapping[str, str | None]) -> Iterator[str]:
    """What fails and should not, and what does not and is said to."""
    for part, failure in failures.items():
        what = f"{sdk.name}, {part}, string of {string.name}"
        is_excused = any(
            (unable.sdk, unable.part) == (sdk.name, part) and string.kind in unable.kinds
            for unable in UNABLE
        )
        if failure and not is_excused:
            yield f"{what}: {failure}"
        elif is_excused and not failure:
            yield f"{what}: works, and UNABLE says that it cannot"


def check_page() -> Iterator[str]:
    told = " ".join(PAGE.read_text().split())
    for unable in UNABLE:
        if unable.why not in told:
            yield f"{PAGE.name} does not tell that: {unable.why}"


def run(ready: Ready, mayfly: Path, directory: Path, chosen: Sequence[String]) -> list[str]:
    found = [*check_page()]
    env: dict[str, str] = {}
    having = [(sdk, installed) for sdk, installed in ready.items() if installed.by_string]
    # Of each kind the first: what differs between hosts is the network's doing, not the broker's.
    kinds = {string.kind: string for string in reversed(chosen)}
    for command, tried in ((UP, [*kinds.values()]), (SERVE, chosen)):
        with Broker(mayfly, directory, command) as broker, ThreadPoolExecutor(AT_ONCE) as programs:
            env = env or trust(directory, (installed.trusted for _, installed in having))
            pending = []
            of_other_namespace = broker.create_namespace()
            for string, (sdk, installed) in itertools.product(tried, having):
                queue = string.queue(sdk)
                text = string.text(sdk, broker, of_other_namespace)
                told = (text, queue, string.parts, env)
                pending.append((sdk, string, programs.submit(outcomes, installed, *told)))
            for sdk, string, outcome in pending:
                found += (f"{command[0]}: {line}" for line in wrong(sdk, string, outcome.result()))
    return found


def run_strings(mayfly: Path) -> list[str]:
    return run_apart(__file__, mayfly)


def main() -> int:
    from run import install, mayfly

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="strings whose name or kind contains this")
    args = parser.parse_args()
    chosen = [s for s in strings() if (args.only or "") in f"{s.name} {s.kind}"]
    ready = install(None)
    what = f"{len(chosen)} connection strings"
    return well_known.main(what, lambda *where: run(ready, *where, chosen), mayfly())


if __name__ == "__main__":
    sys.exit(main())
