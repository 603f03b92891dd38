"""Checks that fail for what the broker is known to do otherwise than Service Bus.

A run prints them, and fails when one of them passes: then its line goes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from recorded import DOTNET

# By suite and name: what the broker does otherwise, in a sentence.
Roots = Mapping[tuple[str, str], str]
EXPECTED: Roots = {
}  # fmt: skip
# What is recorded to have failed where it was run last may fail where it is run now, or not any more.
RECORDED: Roots = {("dotnet", check): root for check, root in DOTNET.failed().items()}


def failures(results: Mapping[str, Any], only: str | None) -> Iterator[str]:
    """What fails and is not expected to, and what is and does not, of the checks whose name contains
    `only`. Prints what fails as expected."""
    roots = {key: root for key, root in EXPECTED.items() if only is None or only in key[1]}
    for suite, result in results.items():
        for check in result["checks"]:
            key = (suite, check["name"])
            root = roots.get(key)
            line = f"{suite} {check['name']}"
            if check["failure"] and (known := root or RECORDED.get(key)):
                print(f"expected to fail: {line}; root: {known}")
            elif check["failure"]:
                yield f"{line}: {check['failure']}"
            elif root:
                yield f"{line} passes, and expected.py says that it fails: take it out there"
        ran = {check["name"] for check in result["checks"]}
        for name in (name for owner, name in roots if owner == suite and name not in ran):
            yield f"{suite} {name} is in expected.py and is no check"
