#!/usr/bin/env python3
"""NATS JetStream and RabbitMQ beside Mayfly, on the same work.

    benches/compare.py                 each once, at full load and at 5,000 messages/s
    benches/compare.py --rounds 3      each three times, in turns; medians count
    benches/compare.py --only nats     Mayfly, and those whose name contains this
    benches/compare.py --write         also into RESULTS.md

Three processes of each broker on this machine, one broker after the other; one queue, replicated to all
three; messages of 1 KiB sent with confirmation, received, and acknowledged one by one. The clients are
written in Rust, have the same number of producers and consumers, the same windows and bodies, and are
connected to the queue's leader. What differs: RabbitMQ's protocol has no answer to a consumer's
acknowledgement, so its lifecycles end when that is handed over; the others' end when it is confirmed.

Other brokers are installed into ~/.cache/mayfly/rivals (MAYFLY_RIVALS_HOME); one that cannot be is passed
over with a message. Our binary is MAYFLY_BIN, or the one in CARGO_TARGET_DIR. Data lie below TMPDIR, which
should be a disk.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import install, mayfly, processes, results
from measure.mayfly import Mayfly
from measure.processes import Command, Failed, Run, Servers
from measure.rivals import Nats, RabbitMQ, Rival

DRAIN_MAX = 90  # Seconds a program may take beyond what it measures.
SYNCED, IN_MEMORY = "synced at a majority", "in memory of a majority"


@dataclass(frozen=True)
class System:
    """One broker in one setting."""

    name: str
    # What an acknowledged message is. Only like is compared with like.
    acknowledged: str
    start: Callable[[Path], Servers]
    # The driver's word for it and its options; Mayfly has a bench of its own.
    driver: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        return not self.driver


@dataclass(frozen=True)
class Load:
    """Options that all clients share."""

    size: int
    producers: int
    consumers: int
    window: int
    prefetch: int
    seconds: int
    warm_up: int

    def options(self, rate: float | None) -> list[str]:
        given = {name.replace("_", "-"): value for name, value in vars(self).items()}
        if rate:
            given["rate"] = rate
        return [word for name, value in given.items() for word in (f"--{name}", str(value))]


@dataclass(frozen=True)
class Figures:
    """Of one system."""

    per_second: float
    full_p50_ms: float
    full_p99_ms: float
    paced_p50_ms: float
    paced_p99_ms: float
    # Of all three servers, and of the client, per message at full load.
    servers_us: float
    client_us: float


def ours() -> list[System]:
    return [
        System("Mayfly", SYNCED, lambda directory: Mayfly(directory)),
        System(
            "Mayfly --replicated", IN_MEMORY, lambda directory: Mayfly(directory, "--replicated")
        ),
    ]


def nats() -> list[System]:
    server = install.nats()
    version = Run([server, "--version"]).result(10).split()[-1]
    name = f"NATS JetStream {version}"
    return [
        System(f"{name}, sync always", SYNCED, lambda at: Nats(at, server, True), ("nats",)),
        System(f"{name}, default sync", IN_MEMORY, lambda at: Nats(at, server, False), ("nats",)),
    ]


def rabbitmq() -> list[System]:
    root = install.rabbitmq()
    found = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    name = f"RabbitMQ {found.name.removeprefix('rabbitmq_server-')}, quorum queue"
    return [System(name, SYNCED, lambda at: RabbitMQ(at, root), ("rabbitmq",))]


def systems(only: str) -> tuple[list[System], Path | None]:
    """Those that can run here, and the driver of the others."""
    found = ours()
    try:
        driver = install.driver()
    except install.CannotInstall as error:
        print(f"SKIPPED NATS and RabbitMQ: their clients cannot be built ({error})")
        return found, None
    for name, offer in {"NATS": nats, "RabbitMQ": rabbitmq}.items():
        try:
            if only.lower() in name.lower():
                found += offer()
        except install.CannotInstall as error:
            print(f"SKIPPED {name}: it cannot be installed here ({error})")
    return found, driver


def drive(
    system: System, servers: Servers, driver: Path | None, options: list[str], seconds: float
) -> dict[str, Any]:
    if isinstance(servers, Mayfly):
        report = servers.bench("lifecycle", *options, seconds=seconds)
        wrong = report["errors"]
    else:
        assert driver and isinstance(servers, Rival)
        nodes = ",".join(servers.nodes)
        command: Command = [driver, *system.driver, "--nodes", nodes, *options]
        report = json.loads(Run(command).result(seconds + DRAIN_MAX))
        wrong = report["error"]
    if wrong or report["left"]:
        raise Failed(f"{report['left']} messages were left over; errors: {wrong or 'none'}")
    return report


def client_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(system: System, driver: Path | None, load: Load, rate: float) -> Figures:
    """A new cluster, loaded fully and then at the rate."""
    seconds = load.seconds + load.warm_up
    with (
        tempfile.TemporaryDirectory(prefix="mayfly-compare-") as name,
        system.start(Path(name)) as servers,
    ):
        before = servers.cpu_seconds(), client_cpu_seconds()
        full = drive(system, servers, driver, load.options(None), seconds)
        after = servers.cpu_seconds(), client_cpu_seconds()
        paced = drive(system, servers, driver, load.options(rate), seconds)
    each = 1e6 / max(full["settled"], 1)
    return Figures(
        per_second=full["settled_per_second"],
        full_p50_ms=full["end_to_end"]["p50_ms"],
        full_p99_ms=full["end_to_end"]["p99_ms"],
        paced_p50_ms=paced["end_to_end"]["p50_ms"],
        paced_p99_ms=paced["end_to_end"]["p99_ms"],
        servers_us=(after[0] - before[0]) * each,
        client_us=(after[1] - before[1]) * each,
    )


def median(rounds: list[Figures]) -> Figures:
    """Figure by figure."""
    names = Figures.__dataclass_fields__
    return Figures(**{name: statistics.median(getattr(f, name) for f in rounds) for name in names})


def table(found: dict[System, Figures], rate: float) -> str:
    """Each beside the Mayfly whose acknowledgement means the same."""
    own = {system.acknowledged: figures for system, figures in found.items() if system.ours}
    header = [
        "", "acknowledged", "lifecycles/s", "Mayfly does", "p50 ms", "p99 ms",
        f"at {rate:,.0f}/s: p50 ms", "p99 ms", "Mayfly takes", "CPU µs: servers", "client",
    ]  # fmt: skip
    rows = []
    for system, figures in sorted(
        found.items(), key=lambda pair: pair[0].acknowledged, reverse=True
    ):
        mine = None if system.ours else own.get(system.acknowledged)
        more = f"{mine.per_second / figures.per_second:.2f} ×" if mine else ""
        time = f"{mine.paced_p99_ms / figures.paced_p99_ms:.2f} ×" if mine else ""
        rows.append([
            system.name, system.acknowledged, f"{figures.per_second:,.0f}", more,
            results.number(figures.full_p50_ms), results.number(figures.full_p99_ms),
            results.number(figures.paced_p50_ms), results.number(figures.paced_p99_ms), time,
            f"{figures.servers_us:.0f}", f"{figures.client_us:.0f}",
        ])  # fmt: skip
    return results.table(header, rows)


def document(args: argparse.Namespace, load: Load, tables: str) -> str:
    options = f" --rounds {args.rounds}" if args.rounds > 1 else ""
    return f"""\
## Beside NATS JetStream and RabbitMQ

`benches/compare.py{options} --seconds {load.seconds} --write`, {mayfly.version()};
{results.machine(Path(tempfile.gettempdir()))}. Three nodes of one broker at a time and the clients share the
machine. One queue, {results.size(load.size)}, {load.producers} producers with {load.window} messages under way
each, {load.consumers} consumers that fetch {load.prefetch} ahead, every message confirmed, received and
acknowledged by itself. Latency is end to end, from the moment a message was due to be sent until a consumer
had it. RabbitMQ's protocol does not confirm acknowledgements; the others' are confirmed. CPU is per message.
{f"Medians of {args.rounds} rounds." if args.rounds > 1 else "One round."}

{tables}
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=15, help="how long each load is measured")
    parser.add_argument("--warm-up", type=int, default=3, help="seconds before that")
    parser.add_argument("--rounds", type=int, default=1, help="how often each broker has its turn")
    parser.add_argument("--rate", type=float, default=5000, help="messages per second, for latency")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--producers", type=int, default=4)
    parser.add_argument("--consumers", type=int, default=4)
    parser.add_argument("--window", type=int, default=256, help="messages a producer has under way")
    parser.add_argument(
        "--prefetch", type=int, default=256, help="messages a consumer fetches ahead"
    )
    parser.add_argument("--only", default="", help="others whose name contains this")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    processes.end_cleanly_on_signals()
    load = Load(
        args.size,
        args.producers,
        args.consumers,
        args.window,
        args.prefetch,
        args.seconds,
        args.warm_up,
    )
    mayfly.binary()
    found, driver = systems(args.only)
    rounds: dict[System, list[Figures]] = {}
    wrong = 0
    for turn in range(args.rounds):
        for system in found:
            try:
                figures = measure(system, driver, load, args.rate)
            except Failed as error:
                wrong += 1
                print(f"FAILED {system.name}: {error}", flush=True)
                continue
            rounds.setdefault(system, []).append(figures)
            print(
                f"{turn + 1}/{args.rounds} {system.name}: {figures.per_second:,.0f} lifecycles/s,"
                f" p99 {figures.paced_p99_ms:.1f} ms at {args.rate:,.0f}/s",
                flush=True,
            )
    tables = table({system: median(figures) for system, figures in rounds.items()}, args.rate)
    print(f"\n{tables}")
    if args.write and not wrong:
        results.write_section("compare", document(args, load, tables))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
