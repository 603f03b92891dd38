#!/usr/bin/env python3
"""Picks rules whose behaviour shall be broken by hand, to see their test fail (../MUTATIONS.md).

    python3 tests/mutations/pick.py [seed]
"""

import pathlib
import random
import re
import sys

COUNT = 20
DEFAULT_SEED = 20261121
TESTS = pathlib.Path(__file__).resolve().parents[2] / "crates/domain/tests/rules"


def tested():
    """Rule ids that a test of the domain is named for, in the order of groups and numbers."""
    rules = set()
    for file in sorted(TESTS.glob("*.rs")):
        text = file.read_text()
        for group, number in re.findall(r"#\[test\]\s+fn ([a-z]+)_(\d+)_", text):
            rules.add((group.upper(), int(number)))
    return sorted(rules)


seed = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_SEED
print(f"seed {seed}")
rules = tested()
print(f"{len(rules)} rules are tested in the domain")
for group, number in random.Random(seed).sample(rules, COUNT):
    print(f"{group}-{number}")
