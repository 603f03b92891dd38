"""`METHODS.md`: every method of the SDKs against what the checks made of it."""

import re
from collections.abc import Iterable
from typing import Any

SUITES = ("sync", "async", "js")
TITLES = {"sync": "Python", "async": "Python, async", "js": "JS"}

# Public methods that no check can prove, and why. Empty is best.
NOT_APPLICABLE: dict[tuple[str, str], str] = {}

HEAD = """\
# What the official SDKs can do here

Written by `tests/sdk/run.py --write-table` from what the checks saw, never by hand; `tests/run.sh` fails
when it differs. {versions}.

A method passes when every check that proves it does; the lists of methods are read from the SDKs
themselves. A dash: that SDK has no such method.

## Methods

"""


def _camel(name: str) -> str:
    """The Python name as JS would have it."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _result(suite: str, method: str, results: dict[str, Any]) -> str:
    if suite not in results or method not in results[suite]["inventory"]:
        return "\u2013"
    proofs = [check for check in results[suite]["checks"] if method in check["methods"]]
    if proofs:
        return "fail" if any(check["failure"] for check in proofs) else "pass"
    reason = NOT_APPLICABLE.get((suite, method))
    return f"n.a.: {reason}" if reason else "untested"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _methods(results: dict[str, Any]) -> Iterable[str]:
    """Rows in the order of the SDKs' classes, with the names of both languages side by side."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for suite in SUITES:
        for method in results.get(suite, {"inventory": []})["inventory"]:
            kind, name = method.split(".")
            rows.setdefault((kind, _camel(name)), {})[suite] = name
    kinds = list(dict.fromkeys(kind for kind, _ in rows))
    ordered = sorted(rows.items(), key=lambda row: kinds.index(row[0][0]))
    yield _row(["class", "Python", "JS", *(f"in {TITLES[suite]}" for suite in SUITES)])
    yield "|---|---|---|---|---|---|\n"
    for (kind, _), names in ordered:
        python = names.get("sync") or names.get("async")
        spoken = [f"`{name}`" if name else "\u2013" for name in (python, names.get("js"))]
        outcome = [_result(suite, f"{kind}.{names.get(suite)}", results) for suite in SUITES]
        yield _row([kind, *spoken, *outcome])


def _checks(results: dict[str, Any]) -> Iterable[str]:
    """What the checks say, by file and language."""
    outcomes: dict[tuple[str, str], dict[str, str]] = {}
    for suite in SUITES:
        for check in results.get(suite, {"checks": []})["checks"]:
            outcome = "fail" if check["failure"] else "pass"
            outcomes.setdefault((check["name"], check["says"]), {})[suite] = outcome
    yield _row(["check", "it says", *(TITLES[suite] for suite in SUITES)])
    yield "|---|---|---|---|---|\n"
    for (name, says), outcome in sorted(outcomes.items()):
        yield _row([name, says, *(outcome.get(suite, "\u2013") for suite in SUITES)])


def document(versions: str, results: dict[str, Any]) -> str:
    """The whole file."""
    body = "".join(_methods(results))
    return f"{HEAD.format(versions=versions)}{body}\n## Checks\n\n{''.join(_checks(results))}"


def untested(results: dict[str, Any]) -> list[str]:
    """Public methods that no check proves and nothing excuses."""
    return [
        f"{suite} {method}"
        for suite in SUITES
        for method in results[suite]["inventory"]
        if _result(suite, method, results) == "untested"
    ]
