"""Checks that fail for what the broker is known to do otherwise than Service Bus.

A run prints them, and fails when one of them passes: then its line goes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

# By suite and name: what the broker does otherwise, in a sentence.
Roots = Mapping[tuple[str, str], str]
EXPECTED: Roots = {}


def failures(results: Mapping[str, Any], roots: Roots) -> Iterator[str]:
    """What fails and is not expected to, and what is and does not. Prints what fails as expected."""
    for suite, result in results.items():
        for check in result["checks"]:
            root = roots.get((suite, check["name"]))
            line = f"{suite} {check['name']}"
            if check["failure"] and root:
                print(f"expected to fail: {line}: root: {root} ({check['failure']})")
            elif check["failure"]:
                yield f"{line}: {check['failure']}"
            elif root:
                yield f"{line} passes, and expected.py says that it fails: take it out there"
        ran = {check["name"] for check in result["checks"]}
        for name in (name for owner, name in roots if owner == suite and name not in ran):
            yield f"{suite} {name} is in expected.py and is no check"
