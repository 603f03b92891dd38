"""How fast the SDK itself is against a cluster, and how much of a processor it takes for that.

    python throughput.py --amqp localhost:5672 --http localhost:5300 --messages 5000
"""

import argparse
import asyncio
import logging
import os
import time
import uuid
from collections.abc import Awaitable

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.management import ServiceBusAdministrationClient
from harness import Cluster, PlainRequests

BATCH = 100
BODY = b"x" * 1024
AND_DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


async def measure(what: str, count: int, work: Awaitable[None]) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    await work
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    print(f"| {what} | {count / wall:,.0f} | {100 * cpu / wall:.0f} % | {1e6 * cpu / count:,.0f} µs |")


async def send(sender: ServiceBusSender, count: int) -> None:
    for _ in range(count):
        await sender.send_messages(ServiceBusMessage(BODY))


async def send_batches(sender: ServiceBusSender, count: int) -> None:
    for _ in range(count // BATCH):
        await sender.send_messages([ServiceBusMessage(BODY) for _ in range(BATCH)])


async def receive(receiver: ServiceBusReceiver, count: int, lanes: int) -> None:
    """Completes so many at a time; none, as it is done already, with 0."""
    while count > 0:
        messages = await receiver.receive_messages(min(count, BATCH), max_wait_time=10)
        assert messages, f"{count} messages did not arrive"
        count -= len(messages)
        for n in range(0, len(messages) if lanes else 0, lanes or 1):
            await asyncio.gather(*map(receiver.complete_message, messages[n : n + lanes]))


async def run(client: ServiceBusClient, queue: str, count: int) -> None:
    print(f"| Python, async, 1 KiB, {count} messages | messages/s | of a CPU | CPU per message |")
    print("|---|---|---|---|")
    async with client, client.get_queue_sender(queue) as sender:
        await measure("send, one after the other", count, send(sender, count))
        await measure(f"send in batches of {BATCH}", count * 4, send_batches(sender, count * 4))
        async with client.get_queue_receiver(queue, prefetch_count=BATCH) as receiver:
            work = receive(receiver, count, lanes=1)
            await measure("receive and complete one after the other", count, work)
            work = receive(receiver, 2 * count, lanes=20)
            await measure("receive and complete 20 at a time", 2 * count, work)
        # What the prefetching receiver still held is left to it.
        count = count * 2 - BATCH * 2
        deleting = client.get_queue_receiver(queue, receive_mode=AND_DELETE, prefetch_count=BATCH)
        async with deleting as receiver:
            await measure("receive and delete", count, receive(receiver, count, lanes=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqp", default="localhost:5672", metavar="HOST:PORT")
    parser.add_argument("--http", default="localhost:5300", metavar="HOST:PORT")
    parser.add_argument("--messages", type=int, default=2000)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    cluster = Cluster(args.amqp, args.http)
    text = cluster.connection_string(args.http)
    admin = ServiceBusAdministrationClient.from_connection_string(text, transport=PlainRequests())
    queue = f"throughput-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    admin.create_queue(queue)
    client = ServiceBusClient.from_connection_string(cluster.connection_string(args.amqp))
    asyncio.run(run(client, queue, args.messages))
    admin.delete_queue(queue)


if __name__ == "__main__":
    main()
