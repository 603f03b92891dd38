#!/usr/bin/env python3
"""Libraries that take a connection string of Azure and nothing else: each sends and handles work.

    tests/sdk/recipes.py               all of them; run.py calls it
    tests/sdk/recipes.py --only celery

docs/clients/recipes.md says what each needs. Their programs are in `recipes/`, with their versions.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import well_known
from environment import HERE, CannotInstall, ask, node_home, python_home
from well_known import FAILED, KEY, NAMESPACE, UP, Broker, run_apart, trust

PROGRAMS = HERE / "recipes"
WITHIN = 120  # Seconds one step of a recipe may take, on a busy machine.
SAID_MAX = 4000  # Characters of what a program that failed has said.
EMULATOR = (
    "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
    f"SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
)
# kombu's form of a string.
KOMBU = f"azureservicebus://RootManageSharedAccessKey:{KEY}@{NAMESPACE}"


@dataclass(frozen=True)
class Kitchen:
    """What every recipe is given."""

    broker: Broker
    # Of the environment with the libraries.
    bin: Path
    node: Path
    env: Mapping[str, str]
    directory: Path

    def environment(self, string: str, notes: Path | None = None) -> dict[str, str]:
        own = {"MAYFLY_STRING": string, "PYTHONDONTWRITEBYTECODE": "1"}
        return {**self.env, **own, **({"MAYFLY_NOTES": str(notes)} if notes else {})}

    def notes(self, name: str) -> Path:
        path = self.directory / f"{name}.notes"
        path.touch()
        return path

    def run(self, *command: str | Path, env: dict[str, str]) -> str:
        done = subprocess.run(
            command, cwd=PROGRAMS, env=env, capture_output=True, text=True,
            timeout=WITHIN, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-SAID_MAX:]
            raise RuntimeError(f"{Path(command[-1]).name} failed: {said}")
        return done.stdout

    def wait_completed(self, queue: str, count: int) -> None:
        """Until so many of its messages were completed, and no other is there."""
        wanted = {"completed": count, "total": 0}

        def is_so() -> bool:
            counters = self.broker.counters(queue)
            return {name: counters[name] for name in wanted} == wanted

        wait_until(f"{count} messages of {queue} are completed", is_so)

    @contextmanager
    def worker(
        self, *command: str | Path, env: dict[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process, and all it starts, until they are no longer needed."""
        with (self.directory / f"{Path(command[0]).name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=PROGRAMS, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
            try:
                yield process
            finally:
                kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """`kill -9` of a process and of those it has started, which is its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WITHIN
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(f"{what}: not within {WITHIN} s")
        time.sleep(0.05)


def celery(kitchen: Kitchen) -> None:
    """A worker is killed in the middle of a task; another runs it once its lock has lapsed."""
    notes = kitchen.notes("celery")
    env = kitchen.environment(KOMBU, notes)
    worker = [kitchen.bin / "celery", "-A", "celery_tasks", "worker", "--concurrency", "1"]

    def noted(word: str) -> list[str]:
        lines = [line.split() for line in notes.read_text().splitlines()]
        return [process for name, process in lines if name == word]

    kitchen.run(kitchen.bin / "python", "celery_tasks.py", env=env)
    with kitchen.worker(*worker, env=env) as first:
        wait_until("a worker begins the task it is killed in", lambda: len(noted("begun")) == 1)
        kill(first)
    with kitchen.worker(*worker, env=env):
        wait_until("the task is run by another worker", lambda: len(noted("done")) == 1)
        kitchen.wait_completed("celery", 2)
    begun, done, plain = noted("begun"), noted("done"), noted("plain")
    if len(set(begun)) != 2 or done != begun[1:] or len(plain) != 1:
        raise RuntimeError(f"not each task was done once: {notes.read_text()}")


def faststream(kitchen: Kitchen) -> None:
    """Published to a topic, handled, and the answer handled in its turn."""
    kitchen.broker.create_topic("faststream-topic", "all")
    for queue in ("orders", "prices"):
        kitchen.broker.create_queue(f"faststream-{queue}")
    env = kitchen.environment(EMULATOR)
    told = kitchen.run(kitchen.bin / "python", "faststream_app.py", env=env)
    if "priced 42" not in told.splitlines():
        raise RuntimeError(f"not what was asked for: {told}")


def taskiq(kitchen: Kitchen) -> None:
    """One task at once, and one that is due later."""
    kitchen.broker.create_queue("taskiq-tasks")
    notes = kitchen.notes("taskiq")
    env = kitchen.environment(EMULATOR, notes)
    kitchen.run(kitchen.bin / "python", "taskiq_tasks.py", env=env)
    worker = ("worker", "--workers", "1", "taskiq_tasks:broker")
    with kitchen.worker(kitchen.bin / "taskiq", *worker, env=env):
        wait_until("both tasks are run", lambda: len(notes.read_text().split()) == 2)
        kitchen.wait_completed("taskiq-tasks", 2)
    if sorted(notes.read_text().split()) != ["later", "now"]:
        raise RuntimeError(f"not each task was done once: {notes.read_text()}")


def nestjs(kitchen: Kitchen) -> None:
    for queue in ("orders", "prices", "prices.reply"):
        kitchen.broker.create_queue(f"nestjs-{queue}")
    told = kitchen.run(kitchen.node, "nestjs_app.mjs", env=kitchen.environment(EMULATOR))
    if told.splitlines() != ["handled { what: 'a lamp' }", "answered 42"]:
        raise RuntimeError(f"not what was asked for: {told}")


RECIPES: Mapping[str, Callable[[Kitchen], None]] = {
    recipe.__name__: recipe for recipe in (celery, faststream, nestjs, taskiq)
}


@dataclass(frozen=True)
class Libraries:
    # Of the environment of Python's.
    bin: Path
    # Its file of authorities.
    trusted: Path
    node: Path
    # The directory above `node_modules`.
    modules: Path


def install() -> Libraries:
    home = python_home("recipes-python", PROGRAMS / "requirements.txt")
    node, modules = node_home("recipes-js", PROGRAMS)
    return Libraries(
        bin=home / "bin",
        trusted=Path(ask(home / "bin/python", "-m", "certifi")),
        node=node,
        modules=modules,
    )


def run(libraries: Libraries, mayfly: Path, directory: Path, chosen: list[str]) -> list[str]:
    failures = []
    with Broker(mayfly, directory, UP) as broker, ThreadPoolExecutor(len(chosen)) as recipes:
        env = trust(directory, [libraries.trusted])
        env |= {"MAYFLY_RECIPES_MODULES": str(libraries.modules)}
        kitchen = Kitchen(broker, libraries.bin, libraries.node, env, directory)
        running = {name: recipes.submit(RECIPES[name], kitchen) for name in chosen}
        for name, recipe in running.items():
            try:
                recipe.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                log = directory / f"{name}.log"
                said = log.read_text(errors="replace") if log.exists() else ""
                failures.append(f"recipe {name}: {error}\n{said[-SAID_MAX:]}")
    return failures


def run_recipes(mayfly: Path) -> list[str]:
    return run_apart(__file__, mayfly)


def main() -> int:
    from run import mayfly

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=RECIPES, help="this one alone")
    args = parser.parse_args()
    chosen = [args.only] if args.only else [*RECIPES]
    try:
        libraries = install()
    except CannotInstall as error:
        if os.environ.get("MAYFLY_SDK") == "optional":
            print(f"SKIPPED: recipes, whose libraries cannot be installed ({error})")
            return 0
        print(f"{FAILED}the libraries of recipes cannot be installed: {error}")
        return 1
    what = f"{len(chosen)} recipes"
    return well_known.main(what, lambda *where: run(libraries, *where, chosen), mayfly())


if __name__ == "__main__":
    sys.exit(main())
