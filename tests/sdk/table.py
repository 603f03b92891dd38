"""`METHODS.md`: every method of the SDKs against what the checks made of it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recorded import MARK, Recorded
from sdks import SDKS, Ready, Sdk, Suite

Results = Mapping[str, Any]
# Of a row, by title of the column.
Cells = dict[str, str]
Rows = dict[tuple[str, str], Cells]

# Public methods that no check can prove, by suite and name, and why. Empty is best.
NOT_APPLICABLE: dict[tuple[str, str], str] = {}
NONE = "\u2013"
SUITES: list[tuple[Sdk, Suite]] = [(sdk, suite) for sdk in SDKS for suite in sdk.suites]
TITLES = [suite.title for _, suite in SUITES]

HEAD = """\
# What the official SDKs can do here

Written by `tests/sdk/run.py --write-table` from what the checks saw, never by hand; `tests/run.sh` fails
when it differs. Where a language's tools are missing its checks are not run, and its columns stay. What is
marked as recorded was seen elsewhere, and by no run of this script: its own section says where.

A method passes when every check that proves it does; the lists of methods are read from the SDKs
themselves. A dash: that SDK has no such method, or that suite no such check. Classes and methods have one
name here for all languages: `sendMessages` is Python's `send_messages` and .NET's `SendMessagesAsync`, and
`ServiceBusSender` is Java's `ServiceBusSenderClient` and `ServiceBusSenderAsyncClient`.
"""


@dataclass
class Document:
    """What the file says."""

    versions: dict[str, str] = field(default_factory=dict)
    methods: Rows = field(default_factory=dict)
    checks: Rows = field(default_factory=dict)
    # Sections of their own, one for each record.
    records: list[str] = field(default_factory=list)

    def text(self) -> str:
        versions = [(f"`{sdk.package}`", self.versions.get(sdk.package, NONE)) for sdk in SDKS]
        parts = [HEAD, _grid(["package", "version"], versions)]
        for title, heads, rows in (
            ("Methods", ["class", "method"], self.methods),
            ("Checks", ["check", "it says"], self.checks),
        ):
            # JMS has checks by feature, and so no column of methods.
            titles = [one for one in TITLES if any(one in row for row in rows.values())]
            cells = [(*key, *(row.get(one, NONE) for one in titles))
                     for key, row in sorted(rows.items(), key=_plain)]  # fmt: skip
            parts += [f"## {title}\n", _grid([*heads, *titles], cells)]
            if rows is self.methods:
                parts += self.records
        return "\n".join(parts)

    def keep(self, sdk: Sdk, written: "Document") -> None:
        """Takes over what is written of an SDK that was not run."""
        if sdk.package in written.versions:
            self.versions[sdk.package] = written.versions[sdk.package]
        for own, others in ((self.methods, written.methods), (self.checks, written.checks)):
            for key, row in others.items():
                for title in (suite.title for suite in sdk.suites if suite.title in row):
                    own.setdefault(key, {})[title] = row[title]

    def is_of_run(self, sdk: Sdk) -> bool:
        """Whether a run of this SDK has been written."""
        return MARK not in self.versions.get(sdk.package, MARK)

    def take(self, sdk: Sdk, record: Recorded) -> None:
        """Fills the SDK's one column from a record."""
        (suite,) = sdk.suites
        results = {suite.name: record.result()}
        self.versions[sdk.package] = f"{record.version}, {MARK}"
        for key, cell in _methods(sdk, suite, results):
            self.methods.setdefault(key, {})[suite.title] = f"{cell}, {MARK}"
        self.records.append(record.told(suite.title, f"`{sdk.package}`"))


def _plain(row: tuple[tuple[str, str], Cells]) -> tuple[str, ...]:
    return tuple(part.strip("`") for part in row[0])


def _grid(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def read(text: str) -> Document:
    """A document as `Document.text` wrote it."""
    document = Document()
    heads: list[str] = []
    for line in text.splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if not line.startswith("| ") or cells[0] == "---":
            continue
        if cells[0] in ("package", "class", "check"):
            heads = cells
        elif heads[0] == "package":
            document.versions[cells[0].strip("`")] = cells[1]
        else:
            rows = document.methods if heads[0] == "class" else document.checks
            titled = zip(heads[2:], cells[2:], strict=True)
            rows[cells[0], cells[1]] = {title: cell for title, cell in titled if cell != NONE}
    return document


def _camel(name: str) -> str:
    """The name as JS and Java would have it."""
    name = name.removesuffix("Async")
    name = re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
    return name[0].lower() + name[1:]


def _result(suite: str, method: str, results: Results) -> str:
    proofs = [check for check in results[suite]["checks"] if method in check["methods"]]
    if proofs:
        return "fail" if any(check["failure"] for check in proofs) else "pass"
    reason = NOT_APPLICABLE.get((suite, method))
    return f"n.a.: {reason}" if reason else "untested"


def _methods(sdk: Sdk, suite: Suite, results: Results) -> Iterator[tuple[tuple[str, str], str]]:
    """By row: what the suite's column says of the method."""
    for method in results[suite.name]["inventory"]:
        kind, name = method.split(".")
        yield (sdk.common(kind), f"`{_camel(name)}`"), _result(suite.name, method, results)


def document(ready: Ready, results: Results, written: str) -> Document:
    """The whole file; `written` is what it was, for the SDKs that are not ready."""
    made, before = Document(), read(written)
    for sdk in SDKS:
        if sdk not in ready:
            if sdk.recorded and not before.is_of_run(sdk):
                made.take(sdk, sdk.recorded)
            else:
                made.keep(sdk, before)
            continue
        made.versions[sdk.package] = ready[sdk].version
        for suite in sdk.suites:
            for key, cell in _methods(sdk, suite, results):
                made.methods.setdefault(key, {})[suite.title] = cell
            for check in results[suite.name]["checks"]:
                cells = made.checks.setdefault((check["name"], check["says"]), {})
                cells[suite.title] = "fail" if check["failure"] else "pass"
    return made


def untested(results: Results) -> list[str]:
    """Public methods that no check proves and nothing excuses."""
    return [
        f"{suite} {method}"
        for suite, result in results.items()
        for method in result["inventory"]
        if _result(suite, method, results) == "untested"
    ]
