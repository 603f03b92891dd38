#!/usr/bin/env python3
"""Where the CPU goes: microseconds per message, by stage, of each node and of the load generator.

    benches/budget.py                    a table in Markdown
    benches/budget.py --seconds 30       samples for so long
    benches/budget.py --of backlog       10,000 lifecycles/s in a queue of five million messages
    benches/budget.py --of expiry        deadlines that fall due, 50,000 a second, beside 5,000 sends/s
    benches/budget.py --write            also into RESULTS.md
    benches/budget.py -- --queues 16     what follows -- goes to `mayfly bench lifecycle`, or `expiry`
    benches/budget.py -- --protocol amqp

Samples stacks with perf (Debian's linux-perf) while `mayfly bench` loads a new cluster of three nodes on this
machine. A stack counts for the first stage of the table below that has a frame in it. The binary is MAYFLY_BIN,
or the one in CARGO_TARGET_DIR.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from measure import mayfly, processes, results
from measure.mayfly import Bench, Mayfly
from measure.processes import TICKS_PER_SECOND, Failed, wait_until

WARM_UP = 3  # Seconds of load before it is sampled.
HERTZ = 297
STACK_BYTES = 12288
NODES = 3
QUEUED = 5_000_000
FILLED_PER_SECOND = 5_000  # At the least.

# In order: what a frame must hold for its stack to count here.
STAGES = {
    "sync of the log (kernel)": ("fdatasync", "fsync"),
    "log": ("store::log",),
    "apply: rows into the memtable": ("rocksdb::DBImpl::Write",),
    "apply: rows and bodies read from the database": (
        "rocksdb::DBImpl::Get",
        "rocksdb::DBImpl::MultiGet",
        "rocksdb::DBIter",
    ),
    "apply: the machine": ("domain::machine",),
    "apply: rows, cached and stored": ("store::rows",),
    "apply: entries in, effects out": ("replication::raft::apply", "replication::raft::state"),
    "AMQP, and its client": ("amqp_protocol::", "amqp::server", "over_amqp"),
    "engine: timers, credit": ("engine::",),
    "peers: the log on its way": ("replication::peer",),
    "Raft": ("openraft",),
    "leader: entries made, outcomes handed out": ("service::leader",),
    "frames between nodes": ("service::peer",),
    "native API, and its client": ("grpc::", "tonic::", "workload::", "client::"),
    "HTTP/2": ("hyper", "h2::"),
    "edge: routes, senders, receivers": ("service::",),
    "database: flushes": ("FlushJob", "BackgroundFlush"),
    "database: merges": ("rocksdb",),
    "runtime and kernel": ("",),
}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def waited_seconds(pid: int) -> float:
    """For how long its threads, together, were ready to run and had no core."""
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(stat.read_text().split()[1]) for stat in stats) / 1e9


def stacks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Each sample of `perf script`: a process, and its frames from the innermost."""
    pid, frames = 0, []
    for line in lines:
        if frame := re.match(r"\s+[0-9a-f]+ (.*)", line):
            frames.append(frame[1])
        elif head := re.match(r"\S.*?\s(\d+)\s*$", line):
            pid, frames = int(head[1]), []
        elif frames:
            yield pid, frames
            frames = []
    if frames:
        yield pid, frames


def stage(frames: list[str]) -> str:
    for name, words in STAGES.items():
        if any(word in frame for frame in frames for word in words):
            return name
    raise AssertionError("the last stage takes everything")


def shares(data: Path) -> dict[int, dict[str, float]]:
    """By process, the part of its samples in each stage."""
    script = ["perf", "script", "-i", data, "--no-inline", "-F", "comm,pid,ip,sym"]
    found: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with subprocess.Popen(
        script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as perf:
        assert perf.stdout
        for pid, frames in stacks(perf.stdout):
            found[pid][stage(frames)] += 1
    if perf.returncode != 0:
        raise Failed(f"perf script ended with {perf.returncode}")
    return {
        pid: {name: count / counts.total() for name, count in counts.items()}
        for pid, counts in found.items()
    }


@dataclass(frozen=True)
class Work:
    """What the nodes do while they are sampled."""

    title: str
    cluster: tuple[str, ...]
    # What became of messages: where the bench's report has how many a second, and in words.
    rate: str
    what: str


WORKS = {
    "lifecycle": Work("Where the CPU goes", (), "settled_per_second", "sent, received and completed"),
    "backlog": Work(
        "Where the CPU goes: a large backlog",
        ("--memory", "512", "--data-groups", "1"),
        "settled_per_second",
        f"sent, received and completed in a queue of {QUEUED:,}",
    ),
    "expiry": Work(
        "Where the CPU goes: expiry",
        ("--memory", "512"),
        "expired_per_second",
        "expired, 5,000/s sent meanwhile,",
    ),
}


@contextmanager
def lifecycles(nodes: Mayfly, seconds: int, *options: object) -> Iterator[Bench]:
    """Under way, and warm."""
    timing = ["--seconds", WARM_UP + seconds + 1, "--warm-up", WARM_UP]
    where = ["--amqp", nodes.amqp_addresses]
    with nodes.start_bench("lifecycle", *timing, *where, *options) as bench:
        time.sleep(WARM_UP)
        yield bench


@contextmanager
def deadlines(nodes: Mayfly, seconds: int, *options: object) -> Iterator[Bench]:
    """So many that they fall due throughout, 50,000 a second; the first are over."""
    due = WARM_UP + seconds + 1
    count = ["--messages", 50_000 * due, "--ttl", f"5s..{5 + due}s", "--rate", 5000]
    with nodes.start_bench("expiry", *count, *options) as bench:

        def begun() -> Iterator[bool]:
            while bench.runs():
                yield nodes.ended("expired") > 0
            raise Failed("the bench ended before anything had expired")

        wait_until(nodes, "what expires", begun())
        time.sleep(WARM_UP)
        yield bench


def load(
    nodes: Mayfly, of: str, seconds: int, options: list[str]
) -> AbstractContextManager[Bench]:
    if of == "expiry":
        return deadlines(nodes, seconds, *options)
    if of == "backlog":
        count = ["--messages", QUEUED, "--from", QUEUED // 5, "--keep", "--size", 1024]
        filled = nodes.bench("backlog", *count, seconds=QUEUED / FILLED_PER_SECOND)
        options = ["--queue", filled["queue"], "--rate", "10000", *options]
    return lifecycles(nodes, seconds, *options)


def measure(directory: Path, of: str, seconds: int, options: list[str]) -> str:
    data = directory / "perf.data"
    work = WORKS[of]
    with Mayfly(directory, *work.cluster, nodes=NODES) as nodes:
        with load(nodes, of, seconds, options) as bench:
            pids = {f"node {node}": nodes.pid(node) for node in range(1, NODES + 1)}
            pids["client"] = bench.pid
            begun = time.monotonic()
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            waited = -sum(map(waited_seconds, pids.values()))
            record = ["perf", "record", "-q", "-F", str(HERTZ), "-o", data]
            whom = ["--call-graph", f"dwarf,{STACK_BYTES}", "-p", ",".join(map(str, pids.values()))]
            subprocess.run([*record, *whom, "--", "sleep", str(seconds)], check=True)
            used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
            waited += sum(map(waited_seconds, pids.values()))
            lasted = time.monotonic() - begun
            report = bench.report(seconds)
    if report["errors"]:
        raise Failed(f"errors: {report['errors']}")
    messages = report[work.rate] * lasted
    part = shares(data)
    names = list(pids)

    def cost(name: str, at: str) -> float:
        return used[name] / messages * 1e6 * part.get(pids[name], {}).get(at, 0.0)

    rows = [[at, *(f"{cost(name, at):.1f}" for name in names)] for at in STAGES]
    total = [used[name] / messages * 1e6 for name in names]
    rows.append(["all", *(f"{each:.1f}" for each in total)])
    header = ["µs of CPU per message", *names]
    return (
        f"{results.machine(directory)}. {report[work.rate]:,.0f} messages/s {work.what}"
        f" while perf looked on; {sum(total):.1f} µs each in all processes, which is"
        f" {sum(used.values()) / lasted:.2f} of {results.cores()} cores. Threads that were ready waited"
        f" for a core {waited / sum(used.values()):.1f} times as long as they had one.\n\n"
        f"{results.table(header, rows)}\n\nMade by `benches/budget.py --of {of}`."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--of", choices=list(WORKS), default="lifecycle", help="what is looked at")
    parser.add_argument("--seconds", type=int, default=15, help="how long to sample")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    parser.add_argument("options", nargs="*", help="for `mayfly bench`, after --")
    args = parser.parse_args()
    processes.end_cleanly_on_signals()
    if not shutil.which("perf"):
        print("perf is missing: apt-get install linux-perf", file=sys.stderr)
        return 1
    mayfly.binary()
    try:
        with tempfile.TemporaryDirectory(prefix="mayfly-budget-") as name:
            text = measure(Path(name), args.of, args.seconds, args.options)
    except (Failed, subprocess.CalledProcessError) as error:
        print(f"mayfly: {error}", file=sys.stderr)
        return 1
    print(text)
    if args.write:
        section = "budget" if args.of == "lifecycle" else f"budget-{args.of}"
        results.write_section(section, f"## {WORKS[args.of].title}\n\n{text}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    sys.exit(main())
