#!/usr/bin/env python3
"""Makes a table of experiments from what `mayfly chaos --report` has written (../chaos.sh).

    python3 tests/chaos/table.py DIRECTORY SEED...
"""

import collections
import json
import pathlib
import sys

HEADER = """\
| seed | minutes | faults | without service, longest | operations | messages | violations |
|---|---|---|---|---|---|---|"""


def faults(report):
    """Those that came, by kind, and how many could not be done."""
    done = collections.Counter(it["kind"] for it in report["faults"] if not it["skipped"])
    skipped = sum(1 for it in report["faults"] if it["skipped"])
    told = [f"{count} {kind}" for kind, count in sorted(done.items())]
    if skipped:
        told.append(f"{skipped} skipped")
    return f"{sum(done.values())}: " + ", ".join(told) if told else "none"


def outages(reports):
    """The longest time without service that any fault of a kind brought about."""
    longest = collections.Counter()
    for report in reports:
        for kind, outage_ms in report["figures"]["outages_max_ms"].items():
            longest[kind] = max(longest[kind], outage_ms)
    rows = [f"| {kind} | {outage_ms / 1e3:.1f} s |" for kind, outage_ms in sorted(longest.items())]
    return "\n".join(["| fault | without service, longest |", "|---|---|", *rows])


def violations(report):
    if report["holds"]:
        return "none"
    by_promise = collections.Counter(it["promise"] for it in report["violations"])
    return ", ".join(f"**{count} {promise}**" for promise, count in sorted(by_promise.items()))


def row(report):
    figures = report["figures"]
    minutes = f"{figures['load_seconds'] / 60:.1f}"
    if report["interrupted"]:
        minutes += ", interrupted"
    cells = [
        str(report["seed"]),
        minutes,
        faults(report),
        f"{figures['outage_max_ms'] / 1e3:.1f} s",
        f"{figures['operations']:,}",
        f"{figures['messages_sent']:,}",
        violations(report),
    ]
    return "| " + " | ".join(cells) + " |"


def total(reports):
    seconds = sum(it["figures"]["load_seconds"] for it in reports)
    count = sum(1 for it in reports for fault in it["faults"] if not fault["skipped"])
    messages = sum(it["figures"]["messages_sent"] for it in reports)
    broken = sum(len(it["violations"]) for it in reports)
    return (
        f"{len(reports)} experiments, {seconds / 60:.1f} minutes of load, {count} faults, "
        f"{messages:,} messages acknowledged, {broken} violations."
    )


def main(directory, seeds):
    reports = []
    for seed in seeds:
        file = pathlib.Path(directory, seed, "report.json")
        if file.exists():
            reports.append(json.loads(file.read_text()))
    print(HEADER)
    for report in reports:
        print(row(report))
    print(f"\n{total(reports)}\n\n{outages(reports)}\n\nEach is repeated by its command:\n\n```")
    for report in reports:
        print(report["command"])
    print("```")


main(sys.argv[1], sys.argv[2:])
