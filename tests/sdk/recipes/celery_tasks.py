"""Celery over Service Bus: told its broker in one string, and where to note what was done.

celery_tasks.py            sends the tasks
celery -A celery_tasks worker
"""

import os
import sys
import time

from celery import Celery

LOCK_S = 5  # How long the task of a worker that died stays its own.
NOTES = os.environ["MAYFLY_NOTES"]

app = Celery("celery_tasks", broker=os.environ["MAYFLY_STRING"])
app.conf.update(
    # A task is done when it was run, not when it was received: otherwise a worker's death loses it.
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    # Both would need broadcasts, which this transport of kombu has none of.
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_transport_options={"peek_lock_seconds": LOCK_S},
)


def note(*words: object) -> None:
    with open(NOTES, "a") as notes:
        print(*words, os.getpid(), file=notes)


def times(word: str) -> int:
    with open(NOTES) as notes:
        return sum(line.startswith(word) for line in notes)


@app.task
def plain() -> None:
    note("plain")


@app.task
def interrupted() -> None:
    """Whoever runs it first is killed in the middle of it."""
    note("begun")
    if times("begun") == 1:
        time.sleep(600)
    note("done")


if __name__ == "__main__":
    plain.delay()
    interrupted.delay()
    sys.exit(0)
