"""Results of an SDK that were recorded elsewhere, for METHODS.md on machines that cannot run it.

A record is no run: its cells say so, and a column that a run has written is not replaced by one.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# At the end of whatever a record says.
MARK = "recorded"
# What is called by a statement that names its object alone.
IMPLIED = {"DisposeAsync": "await using", "Dispose": "using"}


@dataclass(frozen=True)
class Recorded:
    """The run: what it saw, and where its programs are."""

    version: str
    checks: int
    # What was not as Service Bus has it: the checks that show it. They are all that did not hold.
    roots: Mapping[str, tuple[str, ...]]
    # Of the programs, with `methods.txt`: each public method, and the checks that prove it.
    sources: Path

    def failed(self) -> dict[str, str]:
        """By check: the root it shows."""
        return {check: root for root, checks in self.roots.items() for check in checks}

    def proofs(self) -> dict[str, list[str]]:
        lines = (self.sources / "methods.txt").read_text().splitlines()
        pairs = (line.split(": ") for line in lines if line and not line.startswith("#"))
        return {method: checks.split() for method, checks in pairs}

    def result(self) -> dict[str, Any]:
        """As a suite gives it, but of the checks that prove methods alone: those are all it has to say."""
        proofs, failed = self.proofs(), self.failed()
        names = sorted({check for checks in proofs.values() for check in checks})
        checks = [
            {
                "name": name,
                "methods": [method for method, checks in proofs.items() if name in checks],
                "failure": failed.get(name),
            }
            for name in names
        ]
        return {"inventory": list(proofs), "checks": checks}

    def told(self, title: str, package: str) -> str:
        """A section of METHODS.md."""
        failed = len(self.failed())
        lines = [
            f"## {title}, {MARK}",
            "",
            f"No machine that writes this file has run the SDK. Its column is of a run elsewhere, of {package} "
            f"{self.version} against an earlier state of the broker: {self.checks} checks, of which "
            f"{self.checks - failed} held. Which the other {failed} were follows from what that state had otherwise "
            "than Service Bus:",
            "",
        ]
        for root, checks in self.roots.items():
            lines.append(f"- {root}: {', '.join(f'`{check}`' for check in checks)}")
        return "".join(f"{wrapped}\n" for line in lines for wrapped in _wrapped(line))

    def problems(self) -> Iterator[str]:
        """Names that are no check's, and checks that do not call what they are said to prove."""
        blocks = dict(self._blocks())
        for check in self.failed():
            if check not in blocks:
                yield f"{check} is recorded, and is no check"
        for method, checks in self.proofs().items():
            name = method.split(".")[1]
            for check in checks:
                text = blocks.get(check)
                if text is None:
                    yield f"{check} is to prove {method}, and is no check"
                elif not re.search(rf"\b({name}\(|{IMPLIED.get(name, name)})", text):
                    yield f"{check} is to prove {method}, and does not call it"

    def _blocks(self) -> Iterator[tuple[str, str]]:
        """The text of each check, with what stands after the last one of its file: its helpers."""
        for path in sorted(self.sources.glob("*.cs")):
            text = path.read_text()
            _, *parts = re.split(r'suite\.Add(?:Alone)?\("', text)
            helpers = parts[-1].split("\n    }\n", 1)[-1] if parts else ""
            for part in parts:
                name, body = part.split('"', 1)
                yield name, body + helpers


def _wrapped(line: str) -> list[str]:
    if not line.startswith(("- ", "No ")):
        return [line]
    indent = "  " if line.startswith("- ") else ""
    return textwrap.wrap(
        line, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


DOTNET = Recorded(
    version="7.21.0",
    checks=303,
    roots={
        "WebSockets of the subprotocol `amqp`, which is what the SDK asks for, were refused": (
            "client/web-sockets", "client/web-sockets-large", "client/web-sockets-by-custom-endpoint",
            "tls/wss", "secret/right-key-over-web-sockets",
        ),
        "a request of more than 1 MiB at `$management` was not answered": (
            "send/schedule-over-the-limit", "send/schedule-many-of-1200-kb", "session/large-state",
        ),
        "the list of sessions was no array of AMQP": ("session/list", "session/list-of-a-subscription"),
        "non-exclusive sessions were refused by another error than the one that says so": (
            "session/non-exclusive",
        ),
        "a session's receiver that waited as long as its lock lasts lost it": (
            "session/idle-wait-as-long-as-the-lock",
        ),
        "deferring was no delivery, and deliveries were counted in a dead-letter queue": (
            "receive/defer-counts-as-a-delivery", "receive/dead-letter-queue-does-not-count",
        ),
        "what had waited for its schedule came as active": ("schedule/received-state",),
        "ExpiresAt was the sender's instant": ("lifetime/expires-at-counts-from-the-enqueued-time",),
        "fields of the header that said false were left out": ("send/raw-header-false",),
        "in a client with cross-entity transactions a second entity could be received from": (
            "transaction/cross-entity-receives-from-one-only",
        ),
        "entities did not read back as they were made: partitioning, `~` in names, ordering, a status, an"
        " idle time beside forwarding": (
            "admin/queue-partitioned", "admin/names", "admin/topic-supports-ordering-by-default",
            "admin/topic-send-disabled-reads-back", "admin/subscription-receive-disabled-reads-back",
            "admin/idle-time-stays-with-forwarding",
        ),
        "a queue that requires sessions could not forward": ("admin/session-queue-that-forwards",),
        "SqlFilterCount left true and false filters out": ("admin/sql-filter-count-counts-true-filters",),
        "values in rules lost their type, or their last digits": (
            "rule/values-keep-their-types", "rule/date-time-comes-back-as-it-was",
        ),
        "a rule's action did not turn a text into a span": ("rule/action-sets-times",),
    },
    sources=Path(__file__).resolve().parent / "dotnet",
)  # fmt: skip
