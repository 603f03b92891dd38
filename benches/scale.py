#!/usr/bin/env python3
"""Throughput and lateness over nodes, groups, queues, body sizes and consumers.

    benches/scale.py                  every point; 20 to 30 minutes
    benches/scale.py --quick          the ends of every axis, 2 s each; shows that it works
    benches/scale.py --axis size      one axis
    benches/scale.py --write          also into RESULTS.md, scale.svg and scale.json
    benches/scale.py --from benches/scale.json --write    table, plot and model again, nothing measured

Every point has a new cluster on this machine and is loaded twice: as fast as messages are answered, which
gives throughput and CPU; then at half of that, beside a thousand deadlines a second in a queue of their own,
which gives latency and lateness. One axis at a time is varied; the others stay at 3 nodes, 16 groups,
1 queue, 1 KiB, 4 consumers. A model is fitted to the CPU that leaders, followers and clients used.

The binary is MAYFLY_BIN, or the one in CARGO_TARGET_DIR. Data lie below TMPDIR, which should be a disk.
"""

import argparse
import json
import math
import resource
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from measure import mayfly, model, plot, processes, results
from measure.mayfly import Mayfly
from measure.processes import Failed

UNDER_WAY = 1024  # Messages of all producers together, or one each.
AHEAD = 4096  # Messages of all consumers together, at most 256 each.
DEADLINES_PER_SECOND = 1000
WARM_UP = 3  # Seconds; also what filling takes until the first deadline.
CREATING_SHARE = 0.6  # Of what a load takes before and after it; the rest is draining, deleting.
QUEUES_PER_SECOND = 20  # Creating and deleting them is far faster than this.
RAW, SVG = results.BENCHES / "scale.json", results.BENCHES / "scale.svg"


@dataclass(frozen=True)
class Point:
    nodes: int = 3
    groups: int = 16
    queues: int = 1
    size: int = 1024
    consumers: int = 4

    def options(self) -> list[object]:
        producers = max(4, self.queues)
        consumers = max(self.consumers, self.queues)
        return [
            "--queues", self.queues, "--size", self.size,
            "--producers", producers, "--window", max(1, UNDER_WAY // producers),
            "--consumers", consumers, "--prefetch", min(256, max(4, AHEAD // consumers)),
        ]  # fmt: skip


BASE = Point()
AXES: dict[str, list[Point]] = {
    "nodes": [replace(BASE, nodes=nodes) for nodes in (1, 3, 5)],
    # As many queues as the most groups, so that every group has work.
    "groups": [replace(BASE, groups=groups, queues=64) for groups in (1, 4, 16, 64)],
    "queues": [replace(BASE, queues=queues) for queues in (1, 10, 100, 1000, 10_000)],
    "size": [replace(BASE, size=size) for size in (16, 256, 1024, 4096, 16384, 65536, 262144)],
    "consumers": [replace(BASE, consumers=count) for count in (1, 4, 16, 64, 250, 1000)],
}
# For the model alone: large bodies without followers.
CROSSED = [replace(BASE, nodes=1, size=size) for size in (16384, 262144)]


# Points of an axis, and what was seen there.
Found = list[tuple[Point, dict[str, Any]]]


def client_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(point: Point, seconds: int) -> dict[str, Any]:
    """Both loads, on a new cluster."""
    patience = seconds + WARM_UP + point.queues / QUEUES_PER_SECOND
    lifecycle = ["lifecycle", *point.options(), "--warm-up", WARM_UP]
    with (
        tempfile.TemporaryDirectory(prefix="mayfly-scale-") as name,
        Mayfly(Path(name), "--data-groups", str(point.groups), nodes=point.nodes) as cluster,
    ):
        before, started = client_cpu_seconds(), time.monotonic()
        full = cluster.bench(*lifecycle, "--seconds", seconds, seconds=patience)
        client = client_cpu_seconds() - before
        # Creating and deleting many queues takes a while: the deadlines shall fall into the load.
        around = max(time.monotonic() - started - seconds - WARM_UP, 0)
        half = ["--rate", full["settled_per_second"] / 2, "--seconds", math.ceil(seconds + around)]
        with cluster.start_bench(*lifecycle, *half) as pacing:
            time.sleep(around * CREATING_SHARE)
            deadlines = cluster.bench(
                "expiry", "--messages", DEADLINES_PER_SECOND * seconds, "--size", 64,
                "--fill", f"{WARM_UP - 1}s", "--ttl", f"1s..{1 + seconds}s", seconds=patience,
            )  # fmt: skip
            paced = pacing.report(patience + around)
    for report in (full, paced, deadlines):
        if report["errors"] or report.get("left"):
            raise Failed(f"errors: {report['errors']}, {report.get('left', 0)} left over")
    return {"full": full, "client_cpu_seconds": client, "paced": paced, "deadlines": deadlines}


def run(points: list[Point], seconds: int) -> list[dict[str, Any]]:
    """What was seen at each point, or why nothing was."""
    seen = []
    for number, point in enumerate(points, 1):
        told = ", ".join(f"{name} {value}" for name, value in asdict(point).items())
        try:
            figures = measure(point, seconds)
            short = f"{figures['full']['settled_per_second']:,.0f} lifecycles/s"
        except Failed as error:
            figures = {"failed": str(error)}
            short = f"FAILED: {error}"
        print(f"{number}/{len(points)} {told}: {short}", flush=True)
        seen.append({"point": asdict(point), **figures})
    return seen


HEADER = [
    "", "lifecycles/s", "MiB/s", "full: p50 ms", "p99 ms", "half: p50 ms", "p99 ms",
    "late: p50 ms", "p99 ms", "max ms", "CPU µs: servers", "client",
]  # fmt: skip


def cells(label: str, seen: dict[str, Any]) -> list[str]:
    if "failed" in seen:
        return [f"{label}: {seen['failed']}"] + ["–"] * (len(HEADER) - 1)
    full, paced, late = seen["full"], seen["paced"], seen["deadlines"]
    rate = full["settled_per_second"]
    per_message = model.per_message_us(seen)
    values = [
        rate * full["size_bytes"] / (1 << 20), full["end_to_end"]["p50_ms"], full["end_to_end"]["p99_ms"],
        paced["end_to_end"]["p50_ms"], paced["end_to_end"]["p99_ms"],
        late["lateness_p50_ms"], late["lateness_p99_ms"], late["lateness_max_ms"],
        sum(per_message.nodes), per_message.client,
    ]  # fmt: skip
    return [label, f"{rate:,.0f}", *map(results.number, values)]


def label(axis: str, point: Point) -> str:
    value = getattr(point, axis)
    return results.size(value) if axis == "size" else f"{value:,}"


def short(axis: str, point: Point) -> str:
    """For a tick of a plot."""
    return label(axis, point).replace(" ", "").removesuffix("iB").removesuffix("B")


def on_axis(axis: str, seen: dict[Point, dict[str, Any]]) -> Found:
    return [(point, seen[point]) for point in AXES[axis] if point in seen]


def tables(seen: dict[Point, dict[str, Any]]) -> str:
    parts = []
    for axis in AXES:
        rows = [cells(label(axis, point), found) for point, found in on_axis(axis, seen)]
        if rows:
            parts.append(results.table([f"**{axis}**", *HEADER[1:]], rows))
    return "\n\n".join(parts)


def line(axis: str, good: Found, name: str, load: str, *keys: str) -> plot.Series:
    points = []
    for point, found in good:
        value = found[load]
        for key in keys:
            value = value[key]
        points.append((getattr(point, axis), value or 0.0))
    return plot.Series(name, points)


def picture(seen: dict[Point, dict[str, Any]]) -> str:
    """Throughput above, times below, a column for each axis."""
    above, below = [], []
    for axis in AXES:
        good = [(point, found) for point, found in on_axis(axis, seen) if "failed" not in found]
        if not good:
            continue
        ticks = [(getattr(point, axis), short(axis, point)) for point, _ in good]
        rates = [line(axis, good, "as fast as answered", "full", "settled_per_second")]
        above.append(plot.Panel(axis, ticks, rates))
        times = [
            line(axis, good, "end to end p50", "paced", "end_to_end", "p50_ms"),
            line(axis, good, "end to end p99", "paced", "end_to_end", "p99_ms"),
            line(axis, good, "lateness of expiry p99", "deadlines", "lateness_p99_ms"),
        ]
        below.append(plot.Panel(axis, ticks, times))
    return plot.svg([plot.Row("lifecycles/s", above), plot.Row("ms at half that load", below)])


def document(raw: dict[str, Any], seen: dict[Point, dict[str, Any]]) -> str:
    return f"""\
## Scale

`benches/scale.py --seconds {raw["seconds"]} --write`, {raw["version"]}; {raw["machine"]}. All nodes and the
clients share the machine, so more nodes or larger bodies mean less for each. Full: as fast as messages are
answered, {UNDER_WAY} under way. Half: at half that rate, open loop, beside {DEADLINES_PER_SECOND:,} deadlines a
second; late is from deadline to applied, upper bounds. Times are end to end. CPU is per message, of all
servers together. What is not varied stays at 3 nodes, 16 groups, 1 queue, 1 KiB, 4 consumers; over groups
there are 64 queues, and with many queues each has its own producer and consumer.

{tables(seen)}

![Throughput and lateness over each axis](scale.svg)

{model.document(list(seen.values()), raw["cores"])}
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=int, help="how long each load is measured; 10, or 2 with --quick"
    )
    parser.add_argument("--quick", action="store_true", help="the ends of every axis only")
    parser.add_argument(
        "--axis", action="append", choices=list(AXES), help="only this; may be repeated"
    )
    parser.add_argument("--from", dest="source", type=Path, help="figures of an earlier run")
    parser.add_argument("--raw", type=Path, help="where to keep all figures as JSON")
    parser.add_argument(
        "--write", action="store_true", help="write RESULTS.md, scale.svg, scale.json"
    )
    return parser.parse_args()


def chosen(args: argparse.Namespace) -> list[Point]:
    points = []
    for axis in args.axis or AXES:
        own = AXES[axis]
        points += [own[0], own[-1]] if args.quick else own
    if not args.axis:
        points += CROSSED
    return list(dict.fromkeys(points))


def main() -> int:
    args = arguments()
    processes.end_cleanly_on_signals()
    if args.source:
        raw = json.loads(args.source.read_text())
    else:
        seconds = args.seconds or (2 if args.quick else 10)
        mayfly.binary()
        points = run(chosen(args), seconds)
        raw = {
            "seconds": seconds,
            "version": mayfly.version(),
            "machine": results.machine(Path(tempfile.gettempdir())),
            "cores": results.cores(),
            "points": points,
        }
    text = json.dumps(raw, indent=1)
    seen = {Point(**found["point"]): found for found in raw["points"]}
    print(f"\n{document(raw, seen)}")
    if args.raw:
        args.raw.write_text(text + "\n")
    if args.write:
        RAW.write_text(text + "\n")
        SVG.write_text(picture(seen))
        results.write_section("scale", document(raw, seen))
    return 1 if any("failed" in found for found in seen.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
