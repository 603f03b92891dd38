"""Sends and receives over the asynchronous SDK until its input ends, then gives account.

Started by `tests/sdk/failover.py`, which kills nodes meanwhile. What is counted:

lost             acknowledged to a sender, never received
foreign          received, but never sent
completed_again  delivered once more after its completion was confirmed
stored_twice     received under two numbers: the SDK sent again what was not answered, which a queue
                 that detects duplicates has to recognise
unconfirmed      completed, but the answer died with a node: the SDK asked again, found the lock gone as
                 the message is (LOCK-8), and the message never came again
given_back       completed, and refused, as the lock had gone with the node that its receiver was connected to
                 (LOCK-28): the message came again, which no client of a node that lives may see
delivered_again  the same number once more: its first receiver was cut off before it completed it
longest_send     the slowest send, with all the SDK's own tries
"""

import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import logging
import sys
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)
from azure.servicebus.management import ServiceBusAdministrationClient
from harness import Cluster, PlainRequests

# What a client may see while a node is down: all of these say that trying again can help.
RETRYABLE = (
    OperationTimeoutError,
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)
LOCK = timedelta(seconds=20)
PAUSE = 0.01  # Seconds between two messages of a sender.
WAIT = 3.0  # Seconds one call for messages may take, with the way to a new link.
QUIET = 3.0  # Seconds without a message after which there is none left.
DRAIN_MAX = 90.0  # Seconds the last messages may take.


class Account:
    """What was sent and received."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.unanswered: set[str] = set()
        self.numbers: dict[str, set[int]] = collections.defaultdict(set)
        self.completed: set[int] = set()
        self.unconfirmed: set[int] = set()
        self.errors: collections.Counter[str] = collections.Counter()
        self.completed_again = self.delivered_again = self.given_back = 0
        self.last_delivery = time.monotonic()
        self.longest_send = 0.0

    def failed(self, doing: str, error: Exception) -> None:
        kind = "retryable" if isinstance(error, RETRYABLE) else "final"
        text = str(error).splitlines()[0][:70]
        self.errors[f"{kind} {doing}: {type(error).__name__} {text}".strip()] += 1

    def delivered(self, name: str, number: int) -> None:
        self.last_delivery = time.monotonic()
        self.completed_again += number in self.completed
        self.delivered_again += number in self.numbers[name]
        self.given_back += number in self.unconfirmed
        self.unconfirmed.discard(number)
        self.numbers[name].add(number)

    def lost(self) -> set[str]:
        return self.acknowledged - self.numbers.keys()

    def summary(self, left: int, detects_duplicates: bool) -> dict[str, Any]:
        foreign = self.numbers.keys() - self.acknowledged - self.unanswered
        summary = {
            "acknowledged": len(self.acknowledged),
            "unanswered": len(self.unanswered),
            "received": len(self.numbers),
            "lost": len(self.lost()),
            "foreign": len(foreign),
            "left": left,
            "completed_again": self.completed_again,
            "unconfirmed": len(self.unconfirmed),
            "given_back": self.given_back,
            "delivered_again": self.delivered_again,
            "stored_twice": sum(len(numbers) > 1 for numbers in self.numbers.values()),
            "longest_send": f"{self.longest_send:.1f} s",
            "errors": dict(self.errors),
        }
        wrong = ["lost", "foreign", "left", "completed_again"]
        wrong += ["stored_twice"] * detects_duplicates
        reasons = [f"{summary[name]} {name}" for name in wrong if summary[name]]
        reasons += [error for error in self.errors if error.startswith("final")]
        reasons += ["nothing was sent"] * (not self.acknowledged)
        return {**summary, "failure": "; ".join(reasons) or None}


async def send(sender: ServiceBusSender, account: Account, stopping: asyncio.Event) -> None:
    run = uuid.uuid4().hex[:8]
    for n in itertools.count():
        if stopping.is_set():
            return
        name, began = f"{run}-{n}", time.monotonic()
        try:
            await sender.send_messages(ServiceBusMessage(name, message_id=name))
            account.acknowledged.add(name)
        except Exception as error:  # Which it is decides about the run.
            account.unanswered.add(name)
            account.failed("send", error)
        account.longest_send = max(account.longest_send, time.monotonic() - began)
        await asyncio.sleep(PAUSE)


async def receive(receiver: ServiceBusReceiver, account: Account, ending: asyncio.Event) -> None:
    while not ending.is_set():
        try:
            messages = await receiver.receive_messages(max_message_count=50, max_wait_time=WAIT)
        except Exception as error:
            account.failed("receive", error)
            continue
        # All at once: by the time the last is completed its lock may have lapsed, and another receiver
        # may have completed it.
        for message in messages:
            assert message.message_id and message.sequence_number
            account.delivered(message.message_id, message.sequence_number)
        for message in messages:
            assert message.sequence_number
            try:
                await receiver.complete_message(message)
                account.completed.add(message.sequence_number)
            except MessageLockLostError:
                account.unconfirmed.add(message.sequence_number)
            except Exception as error:
                account.failed("complete", error)


async def wait_drained(account: Account, left: Callable[[], int]) -> None:
    """Also for what a receiver held whose connection died: it comes again when its lock has lapsed."""
    until = time.monotonic() + DRAIN_MAX
    while time.monotonic() < until:
        is_quiet = time.monotonic() - account.last_delivery > QUIET
        if is_quiet and not account.lost() and await asyncio.to_thread(left) == 0:
            return
        await asyncio.sleep(0.5)


async def run(
    addresses: list[str], queue: str, started: Path, left: Callable[[], int]
) -> Account:
    account = Account()
    stopping, ending = asyncio.Event(), asyncio.Event()
    async with contextlib.AsyncExitStack() as clients, asyncio.TaskGroup() as tasks:
        for address in addresses:
            text = Cluster(address, "").connection_string(address)
            client = ServiceBusClient.from_connection_string(text)
            await clients.enter_async_context(client)
            tasks.create_task(send(client.get_queue_sender(queue), account, stopping))
            tasks.create_task(receive(client.get_queue_receiver(queue), account, ending))
        while not account.numbers:
            await asyncio.sleep(0.05)
        started.touch()
        await asyncio.to_thread(sys.stdin.read)
        stopping.set()
        await wait_drained(account, left)
        ending.set()
    return account


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqp", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--http", required=True, metavar="HOST:PORT")
    parser.add_argument("--queue", required=True)
    parser.add_argument("--detect-duplicates", action="store_true")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    text = Cluster("", args.http).connection_string(args.http)
    admin = ServiceBusAdministrationClient.from_connection_string(text, transport=PlainRequests())
    detects = args.detect_duplicates
    admin.create_queue(
        args.queue, lock_duration=LOCK, max_delivery_count=100, requires_duplicate_detection=detects
    )

    def left() -> int:
        return admin.get_queue_runtime_properties(args.queue).total_message_count or 0

    started = args.json.with_suffix(".started")
    account = asyncio.run(run(args.amqp.split(","), args.queue, started, left))
    args.json.write_text(json.dumps(account.summary(left(), detects)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
