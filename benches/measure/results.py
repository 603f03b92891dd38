"""Tables, and the sections of RESULTS.md."""

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

BENCHES = Path(__file__).resolve().parent.parent
RESULTS = BENCHES / "RESULTS.md"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown that is also aligned for a terminal. The first column is text, the others figures."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = cells
        padded = [first.ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(lines[0]), f"| {' | '.join(rule)} |", *map(line, lines[1:])])


def number(value: float | None) -> str:
    """Three digits or so; a dash for what was not measured."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def size(count: int) -> str:
    """Bytes as people say them."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} B"


def cores() -> int:
    return len(os.sched_getaffinity(0))


def _ticks() -> tuple[int, int]:
    """Of the CPU since the machine started: all, and those the host gave to others."""
    user, nice, system, idle, iowait, irq, softirq, stolen = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return user + nice + system + idle + iowait + irq + softirq + stolen, stolen


_BEGUN = _ticks()


def stolen() -> float:
    """The share of the CPU that the host gave to others since this script began."""
    (all_now, stolen_now), (all_begun, stolen_begun) = _ticks(), _BEGUN
    return (stolen_now - stolen_begun) / max(all_now - all_begun, 1)


def machine(directory: Path) -> str:
    """One line about where a run that ends now took place; the directory is where data were kept."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    found = subprocess.run(
        ["findmnt", "-no", "FSTYPE", "-T", directory], capture_output=True, text=True, check=False
    )
    return (
        f"{datetime.date.today():%d %B %Y}; {cores()} cores"
        f"{f' ({model[1]})' if model else ''}, {gibibytes:.0f} GiB, {platform.system()}"
        f" {platform.release()}, data on {found.stdout.strip() or 'an unknown file system'};"
        f" the host gave {stolen():.0%} of the CPU to others meanwhile"
    )


def write_section(name: str, text: str) -> None:
    """Replaces one section of RESULTS.md, between its markers."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n{text.strip()}\n{end}"
    old = RESULTS.read_text()
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    new, found = pattern.subn(lambda _: section, old)
    if not found:
        new = f"{old.rstrip()}\n\n{section}\n"
    RESULTS.write_text(new)
    print(f"{RESULTS} is written")
