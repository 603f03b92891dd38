"""The examples of the documents' pages about SDKs, run as they stand there, one page after the other.

Only what names a port is changed: the examples name those of a cluster without an offset.
"""

import json
import os
import re
import subprocess
from pathlib import Path

from cluster import AMQP, HTTP, Cluster
from environment import HERE, Command
from sdks import Ready

PAGES = HERE.parent.parent / "docs/clients"
EXAMPLE_MAX = 60  # Seconds one page's examples may take.
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _example(page: str, language: str, cluster: Cluster) -> str:
    """All of a page's blocks in the language, which go on from one another."""
    text = (PAGES / page).read_text()
    blocks = [code for found, code in FENCED.findall(text) if found == language]
    if not blocks:
        raise RuntimeError(f"{page} has no example in {language}")
    code = "\n".join(blocks)
    for port, own in ((AMQP, cluster.amqp(1)), (HTTP, cluster.http(1))):
        # Also where the port stands by itself, as in `replace(":5672", ":5300")`.
        code = code.replace(f":{port}", f":{own.rsplit(':', 1)[1]}")
    return code


def _run(program: Command, directory: Path, env: dict[str, str]) -> str | None:
    """What went wrong."""
    try:
        done = subprocess.run(
            program, cwd=directory, env=env, capture_output=True, text=True,
            timeout=EXAMPLE_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"did not end within {EXAMPLE_MAX} s"
    return None if done.returncode == 0 else (done.stderr.strip() or "failed without a word")


def _entities(mayfly: Path, cluster: Cluster) -> set[tuple[str, str]]:
    """The kind and name of each queue and topic."""
    found = set()
    for kind in ("queue", "topic"):
        command = [mayfly, kind, "list", "--json", "--connect", cluster.grpc(1)]
        told = json.loads(subprocess.check_output(command))
        found |= {(kind, entity["name"]) for entity in told}
    return found


def run_examples(ready: Ready, cluster: Cluster, mayfly: Path, directory: Path) -> list[str]:
    """Failures, each with its page. Pages may name their entities alike: what one leaves behind is
    deleted before the next."""
    failures = []
    before = _entities(mayfly, cluster)
    for sdk, installed in ready.items():
        queue = [mayfly, "queue", "create", "orders", "--connect", cluster.grpc(1)]
        subprocess.run(queue, check=True, stdout=subprocess.DEVNULL)
        page = f"{sdk.name}.md"
        program = installed.example(_example(page, sdk.language, cluster), directory)
        if failure := _run(program, directory, {**os.environ, **installed.env}):
            failures.append(f"the example of docs/clients/{page}: {failure}")
        for kind, name in _entities(mayfly, cluster) - before:
            delete = [mayfly, kind, "delete", name, "--connect", cluster.grpc(1)]
            subprocess.run(delete, check=True, stdout=subprocess.DEVNULL)
    return failures
