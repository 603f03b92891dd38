"""Taskiq over Service Bus: told its broker in one string, and where to note what was done.

taskiq_tasks.py            sends the tasks
taskiq worker taskiq_tasks:broker
"""

import asyncio
import os

from taskiq_service_bus import ServiceBusBroker

broker = ServiceBusBroker(os.environ["MAYFLY_STRING"], "taskiq-tasks")


@broker.task
async def note(word: str) -> None:
    with open(os.environ["MAYFLY_NOTES"], "a") as notes:
        print(word, file=notes)


async def main() -> None:
    await broker.startup()
    # A scheduled message of Service Bus.
    await note.kicker().with_labels(delay=3).kiq("later")
    await note.kiq("now")
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
