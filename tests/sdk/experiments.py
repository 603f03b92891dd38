"""Experiments with programs of the official SDKs: each finds what is wrong with a program, and holds once it is mended.

    tests/sdk/experiments.py                       all of them; run.py calls it
    tests/sdk/experiments.py --only lost_on_crash

They are in `tests/experiments`: a file for each, and the program that is wrong beside the mended one.
docs/program-experiments.md says what such files say.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environment import HERE, CannotInstall, NoToolchain, java_command, node_home, python_home

EXPERIMENTS = HERE.parent / "experiments"
RUN_MAX = 120  # Seconds one run may take, on a busy machine.
AT_ONCE = 5  # Most of their time is waiting.
SAID_MAX = 4000  # Characters of what a run that went wrong has said.
HELD, BROKEN = 0, 1  # Exit codes.
# By experiment: in which languages it is, and what each failure of the program that is wrong begins or ends with, by
# the beginning of the invariant that it breaks.
EXPECTED: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "lost_on_crash": (
        ("py", "mjs"),
        {"every message of orders": "nobody said that it was processed", "every request": "has no reply"},
    ),
    "not_idempotent": (("py", "mjs", "java"), {"every request": "has 2 replies"}),
    "ignored_lock_loss": (
        ("py", "mjs", "java"),
        {"no lock of orders": "was lost after 5", "every request": "has 2 replies"},
    ),
    "gave_up_when_busy": (("py", "mjs", "java"), {"every request": "has no reply"}),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    experiment: str
    program: str

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.program}"

    @property
    def language(self) -> str:
        return self.program.split(".")[1]

    def problems(self, mayfly: Path, given: "Interpreters", directory: Path) -> list[str]:
        """What is not as it should be."""
        folder, out = EXPERIMENTS / self.experiment, directory / self.experiment / self.program
        worker, env = f"{given.of[self.language]} {self.program}", given.env
        command = [mayfly, "experiment", "run", "experiment.toml", "--seed", "1", "--report", out]
        try:
            done = subprocess.run(
                command, cwd=folder, env={**env, "WORKER": worker}, capture_output=True,
                text=True, timeout=RUN_MAX, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [f"experiment {self.name} did not end within {RUN_MAX} s"]
        is_broken = self.program.startswith("broken")
        wrong = []
        if done.returncode != (BROKEN if is_broken else HELD):
            wrong.append(f"exit code {done.returncode}")
        else:
            wrong += self._judge(json.loads((out / "report.json").read_text()), is_broken)
        said = (done.stdout + done.stderr)[-SAID_MAX:]
        return [f"experiment {self.name}: {line}\n{said}" for line in wrong]

    def _judge(self, report: Any, is_broken: bool) -> list[str]:
        expected = EXPECTED[self.experiment][1] if is_broken else {}
        wrong = []
        for told in expected:
            if not any(one["invariant"].startswith(told) for one in report["invariants"]):
                wrong.append(f"there is no invariant '{told}'")
        for one in report["invariants"]:
            told = [end for start, end in expected.items() if one["invariant"].startswith(start)]
            if (one["verdict"] == "broken") != bool(told):
                wrong.append(f"'{one['invariant']}' is {one['verdict']}")
            for failure in one["failures"]:
                if not any(end in failure["told"] for end in told):
                    wrong.append(f"unexpected: {failure['told']}")
                if not all(line["steps"] for line in failure["messages"]):
                    wrong.append(f"without a life: {failure['told']}")
        return wrong


def all_runs(only: str | None) -> list[Run]:
    return [
        Run(experiment, f"{kind}.{language}")
        for experiment, (languages, _) in EXPECTED.items()
        if only in (None, experiment)
        for language in languages
        for kind in ("broken", "mended")
    ]


@dataclass(frozen=True)
class Interpreters:
    """What runs the programs, and the environment in which it finds the SDKs."""

    of: Mapping[str, str]
    env: Mapping[str, str]


def interpreters() -> Interpreters:
    python = python_home("python", HERE / "python/requirements.txt")
    node, modules = node_home("js", HERE / "js")
    path = os.pathsep.join([str(python / "bin"), str(node.parent), os.environ.get("PATH", "")])
    own = {"PATH": path, "MAYFLY_SDK_MODULES": str(modules), "PYTHONDONTWRITEBYTECODE": "1"}
    of = {"py": "python3", "mjs": "node"}
    try:
        of["java"] = " ".join(map(str, java_command()))
    except NoToolchain as lacking:
        print(f"SKIPPED: experiments in Java, as this machine has no {lacking}")
    return Interpreters(of, {**os.environ, **own})


def run_experiments(mayfly: Path, only: str | None = None) -> list[str]:
    """What is wrong. May say `CannotInstall`."""
    started, given = time.monotonic(), interpreters()
    runs = [run for run in all_runs(only) if run.language in given.of]
    with tempfile.TemporaryDirectory(prefix="mayfly-experiments-") as name:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(lambda run: run.problems(mayfly, given, Path(name)), runs)
            failures = [line for lines in found for line in lines]
    took = time.monotonic() - started
    print(f"{len(runs)} experiments: {len(failures)} failures, {took:.0f} s", flush=True)
    return failures


def main() -> int:
    from run import mayfly

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=EXPECTED, help="this one alone")
    args = parser.parse_args()
    try:
        failures = run_experiments(mayfly(), args.only)
    except CannotInstall as error:
        print(f"the SDKs cannot be installed: {error}", file=sys.stderr)
        return 1
    for line in failures:
        print(f"FAILED {line}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
