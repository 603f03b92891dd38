#!/usr/bin/env python3
"""Whether a version in Cargo.lock has a known vulnerability: each package against RustSec's database.

    tests/advisories.py                      a clone of the database, kept in the cache and brought up to date
    tests/advisories.py --database DIR       a checkout that is there, or a repository without a work tree
    tests/advisories.py --self-check         whether the check finds what it should; needs no database

Exit code 0: none has; 1: some have; 3: the database could not be had, so nothing was looked at. What is unmaintained
or has a notice is told and does not count.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
LOCKS = [PROJECT / "Cargo.lock", PROJECT / "benches" / "rivals" / "Cargo.lock"]
SOURCE = "https://github.com/RustSec/advisory-db"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mayfly" / "advisory-db"

# Advisories that do not concern us, each with the reason.
ACCEPTED: dict[str, str] = {}


class Version(tuple):
    """Major, minor, patch, and a prerelease, which comes before the release."""

    @classmethod
    def parse(cls, text):
        text = text.strip().split("+")[0]
        release, _, before = text.partition("-")
        numbers = [int(part) for part in release.split(".")]
        numbers += [0] * (3 - len(numbers))
        # By the rules of semver: numbers before words, fewer parts before more.
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in before.split(".") if part)
        return cls((*numbers, (0, parts) if before else (1, ())))


def matches(version, requirement):
    """Whether a version is within a requirement of Cargo's kind, as advisories have it: all its parts hold."""
    return all(part_holds(version, part.strip()) for part in requirement.split(",") if part.strip() not in ("", "*"))


def part_holds(version, part):
    operator, text = re.fullmatch(r"(>=|<=|>|<|=|\^|~)?\s*([0-9][^\s]*)", part).groups()
    bound = Version.parse(text)
    given = text.split("-")[0].split(".")
    match operator:
        case ">=":
            return version >= bound
        case "<=":
            return version <= bound
        case ">":
            return version > bound
        case "<":
            return version < bound
        case "=":
            return version == bound
        case "~":
            return version >= bound and version[: min(2, len(given))] == bound[: min(2, len(given))]
        case _:
            # Up to the first number that is not 0.
            fixed = next((place for place in range(len(given)) if bound[place]), len(given) - 1)
            return version >= bound and version[: fixed + 1] == bound[: fixed + 1]


def is_affected(version, advisory):
    versions = advisory.get("versions", {})
    fine = versions.get("patched", []) + versions.get("unaffected", [])
    return not any(matches(version, requirement) for requirement in fine)


def packages(locks):
    """Names and versions of what comes from a registry."""
    found = set()
    for lock in locks:
        for package in tomllib.loads(lock.read_text())["package"]:
            if package.get("source", "").startswith("registry+"):
                found.add((package["name"], package["version"]))
    return sorted(found)


def advisories(database, names):
    """By package, of these names: each advisory's TOML, which is the first block of its file."""
    found = {}
    for name in sorted(names):
        for text in texts(database, name):
            block = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
            found.setdefault(name, []).append(tomllib.loads(block.group(1)))
    return found


def texts(database, name):
    folder = database / "crates" / name
    if (database / "crates").is_dir():
        return [file.read_text() for file in sorted(folder.glob("RUSTSEC-*.md"))]
    listed = git(database, "ls-tree", "--name-only", f"HEAD:crates/{name}", check=False).split()
    return [git(database, "show", f"HEAD:crates/{name}/{file}") for file in listed if file.startswith("RUSTSEC-")]


def git(folder, *arguments, check=True):
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    if done.returncode and check:
        raise OSError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"git {arguments[0]} failed")
    return done.stdout if done.returncode == 0 else ""


def fetched():
    """The database as it is now, in the cache."""
    if (CACHE / ".git").is_dir():
        git(CACHE, "fetch", "--quiet", "--depth", "1", "origin", "HEAD")
        git(CACHE, "reset", "--quiet", "--hard", "FETCH_HEAD")
    else:
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        git(CACHE.parent, "clone", "--quiet", "--depth", "1", SOURCE, str(CACHE))
    return CACHE


def check(database, locks):
    """What is wrong, and what is only to be known, a line each; and how many packages were looked at."""
    locked = packages(locks)
    known = advisories(database, {name for name, _ in locked})
    wrong, told = [], []
    for name, version in locked:
        for advisory in known.get(name, []):
            about = advisory["advisory"]
            if "withdrawn" in about or not is_affected(Version.parse(version), advisory):
                continue
            patched = ", ".join(advisory.get("versions", {}).get("patched", [])) or "no version"
            line = f"{name} {version}: {about['id']}, mended in {patched}"
            if about["id"] in ACCEPTED:
                told.append(f"{line}; accepted: {ACCEPTED[about['id']]}")
            elif about.get("informational") in ("unmaintained", "notice"):
                told.append(f"{line}; {about['informational']}")
            else:
                wrong.append(line)
    return wrong, told, len(locked)


def self_check():
    """Requirements of every kind, and a database with a vulnerability in it."""
    for version, requirement, holds in [
        ("1.2.3", ">= 1.2.3", True), ("1.2.2", ">= 1.2.3", False), ("1.2.3", "< 1.2.3", False),
        ("1.2.3-rc.1", ">= 1.2.3", False), ("1.2.3-rc.2", "> 1.2.3-rc.1", True), ("1.2.3-rc.10", "> 1.2.3-rc.9", True),
        ("1.9.0", "^1.2", True), ("2.0.0", "^1.2", False), ("0.2.9", "^0.2.1", True), ("0.3.0", "^0.2.1", False),
        ("0.0.4", "^0.0.3", False), ("1.2.9", "~1.2.3", True), ("1.3.0", "~1.2.3", False), ("1.9.0", "~1", True),
        ("1.4.0", ">= 1.2, < 1.5", True), ("1.5.0", ">= 1.2, < 1.5", False), ("1.5.0", "1.2", True),
        ("1.5.0", "= 1.5.0", True), ("7.0.0", "*", True),
    ]:
        assert matches(Version.parse(version), requirement) == holds, (version, requirement)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        lock = folder / "Cargo.lock"
        entry = '[[package]]\nname = "{}"\nversion = "{}"\nsource = "registry+https://a.example"\n'
        for name, versions in {"old": ["1.0.1", "1.2.0"], "lonely": ["3.0.0"], "withdrawn": ["1.0.0"]}.items():
            (folder / "crates" / name).mkdir(parents=True)
            lines = {"old": "", "lonely": 'informational = "unmaintained"\n', "withdrawn": 'withdrawn = "2026-01-01"\n'}
            patched = '">= 1.1.0"' if name == "old" else ""
            (folder / "crates" / name / "RUSTSEC-2026-0001.md").write_text(
                f'```toml\n[advisory]\nid = "RUSTSEC-2026-0001"\n{lines[name]}[versions]\npatched = [{patched}]\n```\n'
            )
            with lock.open("a") as out:
                out.writelines(entry.format(name, version) for version in versions)
        wrong, told, count = check(folder, [lock])
        assert wrong == ["old 1.0.1: RUSTSEC-2026-0001, mended in >= 1.1.0"], wrong
        assert told == ["lonely 3.0.0: RUSTSEC-2026-0001, mended in no version; unmaintained"], told
        assert count == 4, count


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--database", type=Path, metavar="DIR", help="a checkout of the database")
    arguments.add_argument("--self-check", action="store_true", help="try the check itself")
    given = arguments.parse_args()
    if given.self_check:
        return self_check()
    try:
        database = given.database or fetched()
        date = git(database, "log", "-1", "--format=%cs").strip()
    except OSError as error:
        print(f"advisories were not looked at: the database cannot be had: {error}", file=sys.stderr)
        return 3
    wrong, told, count = check(database, LOCKS)
    for line in told + wrong:
        print(line)
    print(f"{count} packages, the database of {date}: {len(wrong)} with a vulnerability")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
