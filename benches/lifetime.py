#!/usr/bin/env python3
"""What holds when very many messages wait: deadlines, bursts, memory, leaders, a large backlog.

    benches/lifetime.py                     everything; about a quarter of an hour, 40 GB of disk
    benches/lifetime.py --only deadlines    one part: deadlines, burst, pending, backlog
    benches/lifetime.py --share 0.01        a hundredth of the messages; shows that it works
    benches/lifetime.py --write             also into RESULTS.md

Every part has a new cluster of three nodes on this machine. Ends with a table of what was asked and what was
seen, and with exit code 1 if something asked does not hold. The binary is MAYFLY_BIN, or the one in
CARGO_TARGET_DIR. Data lie below TMPDIR, which should be a disk.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import mayfly, processes, results
from measure.mayfly import Bench, Mayfly
from measure.processes import Failed

MILLION = 1_000_000
MEBIBYTE = 1 << 20
FILLED_PER_SECOND = 5_000  # At the least; for how long a filling may take.
WARM_UP = 2  # Seconds of a load before it is measured.
SETTLE = 3  # Seconds of a load before something happens beside it.
EXPIRY_MAX = 10  # Seconds one message's deadline may take to be seen, before we give up.
REBUILD_MAX = 600
AT_REST = 0.3  # Of a core, all nodes together: heartbeats and ticks.
REST_MAX = 300


@dataclass(frozen=True)
class Figure:
    what: str
    # Absent: beyond what the scale of its histogram ends with.
    seen: float | None
    # The most it may be; absent: told, not judged.
    most: float | None
    unit: str

    @property
    def holds(self) -> bool:
        return self.most is None or (self.seen is not None and self.seen <= self.most)

    def cells(self) -> list[str]:
        asked = "" if self.most is None else f"≤ {self.most:,g} {self.unit}"
        verdict = "" if self.most is None else "holds" if self.holds else "MISSED"
        number = f"{results.number(self.seen)} {self.unit}".strip()
        seen = "off the scale" if self.seen is None else number
        return [self.what, asked, seen, verdict]


@contextmanager
def cluster(*options: str) -> Iterator[Mayfly]:
    with (
        tempfile.TemporaryDirectory(prefix="mayfly-lifetime-") as name,
        Mayfly(Path(name), *options) as nodes,
    ):
        yield nodes


def sound(report: dict[str, Any], *borne: str) -> dict[str, Any]:
    """A report without errors but those that are to be borne."""
    if report["errors"].keys() - borne:
        raise Failed(f"errors: {report['errors']}")
    return report


def lifecycles(nodes: Mayfly, rate: float, seconds: int, *options: object) -> Bench:
    """An open-loop load of 1 KiB messages, under way."""
    timing = ["--rate", rate, "--seconds", seconds, "--warm-up", WARM_UP]
    return nodes.start_bench("lifecycle", *timing, *options)


def fill(nodes: Mayfly, messages: int, *options: object) -> dict[str, Any]:
    """A queue that stays, full of messages; the report names it."""
    arguments = ["--messages", messages, "--from", messages // 5, "--keep", *options]
    return sound(nodes.bench("backlog", *arguments, seconds=messages / FILLED_PER_SECOND))


def deadlines(share: float) -> list[Figure]:
    messages = int(MILLION * share)
    with cluster("--memory", "512") as nodes:
        report = nodes.bench(
            "expiry", "--messages", messages, "--ttl", "5s..25s", "--rate", 5000,
            seconds=messages / FILLED_PER_SECOND + 60,
        )  # fmt: skip
    if report["expired"] != report["messages"] or sound(report)["fill_overran"]:
        raise Failed(f"{report['expired']} of {report['messages']} expired; or the filling overran")
    what = f"{messages:,} deadlines over 20 s, 5,000 messages/s sent meanwhile"
    return [
        Figure(f"{what}: lateness p99", report["lateness_p99_ms"], 100, "ms"),
        Figure("lateness at most", report["lateness_max_ms"], 1000, "ms"),
        Figure("sends meanwhile, p99", report["ingest"]["p99_ms"], None, "ms"),
        Figure("expired, from the first to the last", report["expired_per_second"], None, "/s"),
        Figure(
            "CPU of all nodes per expired message, sends included",
            report["cpu_us_per_expired"],
            None,
            "µs",
        ),
        Figure("which is, of this machine's cores", report["cpu_cores_expiring"], None, ""),
    ]


def burst(share: float) -> list[Figure]:
    messages = int(MILLION / 10 * share)
    words = {
        "expire": "messages that expire within a fraction of a second",
        "default": "messages past their time when the queue's default is lowered",
        "activate": "messages scheduled for one millisecond",
    }
    with cluster("--memory", "512") as nodes:
        report = nodes.bench(
            "neighbour",
            "--with",
            ",".join(words),
            "--messages",
            messages,
            "--rate",
            5000,
            seconds=300,
        )
    figures = []
    for strike in sound(report)["strikes"]:
        if strike["left"]:
            raise Failed(f"{strike['disturbance']}: {strike['left']} messages were left")
        what = f"{messages:,} {words[strike['disturbance']]}"
        figures += [
            Figure(f"{what}: done after", strike["seconds"], 2, "s"),
            Figure("5,000 sends/s meanwhile, p99", strike["send_during"]["p99_ms"], 100, "ms"),
        ]
    return figures


def pending(share: float) -> list[Figure]:
    messages = int(10 * MILLION * share)
    # One group: the queue that shows when its leader is ready is led by the same one.
    with cluster("--memory", "512", "--data-groups", "1") as nodes:
        report = fill(nodes, messages, "--size", 64, "--ttl", "12h")
        grown = max(node["growth_bytes_per_message"] for node in report["memory"]) * messages
        what = f"{messages:,} deadlines pending, bodies of 64 bytes"
        figures = [Figure(f"{what}: anonymous memory", max(grown, 0) / 1e6, 100, "MB")]
        rest(nodes)  # No follower that is behind takes over.
        for how, strike in {"handed over": hand_over, "its leader killed": kill_leader}.items():
            seconds = without_service(nodes, report["queue"], strike)
            figures.append(Figure(f"the same, {how}: ready after", seconds, 2, "s"))
            late = expire_one(nodes, report["queue"])
            figures.append(Figure("one more deadline of 1 s there, seen late by", late, None, "s"))
        waiting = nodes.queue(report["queue"])["counters"]["active"]
    if waiting != messages:
        raise Failed(f"{waiting} of {messages} messages are left, and none was due")
    return figures


def hand_over(nodes: Mayfly, queue: str) -> None:
    leader = nodes.queue(queue)["leader_node"]
    nodes.cli("cluster", "transfer", "--queue", queue, leader % 3 + 1)


def kill_leader(nodes: Mayfly, queue: str) -> None:
    nodes.kill(nodes.queue(queue)["leader_node"])


def without_service(nodes: Mayfly, queue: str, strike: Callable[[Mayfly, str], None]) -> float:
    """The longest a message waited for its acknowledgement while the queue's leader changed, seconds."""
    with lifecycles(nodes, 500, 15) as load:
        time.sleep(WARM_UP + SETTLE)
        strike(nodes, queue)
        # Nobody knows of a settlement whose answer died with the leader.
        longest: float = sound(load.report(30), "perhaps done")["send"]["max_ms"]
    return longest / 1000


def expire_one(nodes: Mayfly, queue: str) -> float:
    """How long after its deadline a message was seen to have expired, the command's start included."""
    expired = nodes.queue(queue)["counters"]["expired_dropped"]
    nodes.cli("send", queue, "soon gone", "--ttl", "1s")
    due = time.monotonic() + 1
    while nodes.queue(queue)["counters"]["expired_dropped"] == expired:
        if time.monotonic() > due + EXPIRY_MAX:
            raise Failed("the new leader lets nothing expire")
        time.sleep(0.02)
    return max(time.monotonic() - due, 0.0)


def backlog(share: float) -> list[Figure]:
    messages = int(5 * MILLION * share)
    with cluster("--memory", "512", "--data-groups", "1") as nodes:
        filled = fill(nodes, messages, "--size", 1024)
        queue = filled["queue"]
        fresh = sound(lifecycles(nodes, 10_000, 15, "--queue", queue).report(30))
        rested = rest(nodes)
        inside = sound(lifecycles(nodes, 10_000, 15, "--queue", queue).report(30))
        beside = sound(lifecycles(nodes, 10_000, 15).report(30))
        memory = max(node["resident_anonymous_bytes"] for node in beside["nodes"])
        what = "10,000 lifecycles/s in that queue"
        figures = [
            Figure(
                f"{messages:,} messages of 1 KiB queued, at", filled["filled_per_second"], None, "/s"
            ),
            Figure(
                f"{what}, as soon as it is filled: send p99", fresh["send"]["p99_ms"], 150, "ms"
            ),
            Figure("settlement p99", fresh["settle"]["p99_ms"], 150, "ms"),
            Figure("the databases at rest after", rested, None, "s"),
            Figure(f"{what}: send p99", inside["send"]["p99_ms"], 150, "ms"),
            Figure("settlement p99", inside["settle"]["p99_ms"], 150, "ms"),
            Figure("settled", inside["settled_per_second"], None, "/s"),
            Figure("CPU of all nodes per settled message", cpu_us(inside), None, "µs"),
            Figure(
                "10,000 lifecycles/s beside it: end to end p99",
                beside["end_to_end"]["p99_ms"],
                150,
                "ms",
            ),
            Figure("CPU of all nodes per settled message", cpu_us(beside), None, "µs"),
            Figure("anonymous memory of the largest node", memory / MEBIBYTE, None, "MiB"),
            *rebuild(nodes, queue),
            Figure("all nodes started again: ready after", nodes.restart(), 10, "s"),
        ]
        with lifecycles(nodes, 2000, 15) as load:
            time.sleep(WARM_UP + SETTLE)
            nodes.cli("queue", "delete", queue)
            during = sound(load.report(30))
        figures.append(
            Figure(
                "that queue deleted: a neighbour's sends, p99", during["send"]["p99_ms"], 100, "ms"
            )
        )
    return figures


def cpu_us(report: dict[str, Any]) -> float:
    """Of all nodes together, per lifecycle."""
    used = sum(node["cpu_seconds"] for node in report["nodes"])
    return used * 1e6 / (report["settled_per_second"] * report["measured_seconds"])


def rest(nodes: Mayfly) -> float:
    """Waits until the databases have sorted what was written to them; for how long, in seconds."""
    begun, used, share = time.monotonic(), nodes.cpu_seconds(), 1.0
    while share > AT_REST:
        if time.monotonic() - begun > REST_MAX:
            raise Failed(f"the nodes use {share:.1f} cores, {REST_MAX} s after the last load")
        time.sleep(1)
        before, used = used, nodes.cpu_seconds()
        share = used - before
    return time.monotonic() - begun


def rebuild(nodes: Mayfly, queue: str) -> list[Figure]:
    """A follower's disk is wiped while 10,000 lifecycles a second go on."""
    follower = nodes.queue(queue)["leader_node"] % 3 + 1
    stored = nodes.queue(queue)["counters"]["size_bytes"]
    nodes.wipe(follower)
    begun, rebuilt, worst = time.monotonic(), 0.0, 0.0
    while not rebuilt:
        if time.monotonic() - begun > REBUILD_MAX:
            raise Failed(f"node {follower} is no full member after {REBUILD_MAX} s")
        with lifecycles(nodes, 10_000, 5) as load:
            while load.runs():
                if not rebuilt and is_member(nodes, follower):
                    rebuilt = time.monotonic() - begun
                time.sleep(0.2)
            worst = max(worst, sound(load.report(30))["send"]["p99_ms"])
    return [
        Figure("a follower wiped beside 10,000/s: a full member again after", rebuilt, None, "s"),
        Figure("which is", stored / MEBIBYTE / rebuilt, None, "MiB/s"),
        Figure("sends meanwhile, p99 of the worst 5 s", worst, 150, "ms"),
    ]


def is_member(nodes: Mayfly, node: int) -> bool:
    """Of both groups, the catalog's and the data's, since its disk was wiped."""
    return nodes.node_log(node).count("this replica is a full member") >= 2


PARTS = {"deadlines": deadlines, "burst": burst, "pending": pending, "backlog": backlog}


def document(args: argparse.Namespace, table: str) -> str:
    share = "" if args.share == 1 else f" --share {args.share:g}"
    return f"""\
## Lifetime

`benches/lifetime.py{share} --write`, {mayfly.version()}; {results.machine(Path(tempfile.gettempdir()))}.
Three nodes and the clients share the machine.{share and f" Only {args.share:g} of the messages."}

{table}
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(PARTS), help="may be repeated")
    parser.add_argument("--share", type=float, default=1, help="of the messages, above 0 to 1")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    processes.end_cleanly_on_signals()
    mayfly.binary()
    rows: list[list[str]] = []
    wrong = False
    for name in args.only or PARTS:
        try:
            figures = PARTS[name](args.share)
        except Failed as error:
            wrong = True
            found = [[name, "", str(error), "FAILED"]]
        else:
            wrong |= not all(figure.holds for figure in figures)
            found = [figure.cells() for figure in figures]
        print(f"{name}:", *("  ".join(cells) for cells in found), sep="\n  ", flush=True)
        rows += found
    table = results.table(["", "asked", "seen", ""], rows)
    print(f"\n{table}")
    if args.write and not args.only:
        results.write_section("lifetime", document(args, table))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
