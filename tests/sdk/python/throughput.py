"""How fast the SDK itself is against a cluster, and how much of a processor it takes for that.

    python throughput.py --amqp localhost:5672 --http localhost:5300 --messages 2000

The SDK waits for the answer to each settlement before it sends the next of the same receiver, even when
asked for several at once: a receiver completes one message per commit. More receivers, more messages.
"""

import argparse
import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.management import ServiceBusAdministrationClient
from harness import Cluster, PlainRequests

BATCH = 100
LINKS = 8
BODY = b"x" * 1024


async def measure(what: str, count: int, *works: Awaitable[None]) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*works)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    print(f"| {what} | {count / wall:,.0f} | {100 * cpu / wall:.0f} % | {1e6 * cpu / count:,.0f} µs |")


async def send(sender: ServiceBusSender, count: int) -> None:
    for _ in range(count):
        await sender.send_messages(ServiceBusMessage(BODY))


async def send_batches(sender: ServiceBusSender, count: int) -> None:
    for _ in range(count // BATCH):
        await sender.send_messages([ServiceBusMessage(BODY) for _ in range(BATCH)])


async def receive(receiver: ServiceBusReceiver, count: int, complete: bool) -> None:
    while count > 0:
        messages = await receiver.receive_messages(min(count, BATCH), max_wait_time=30)
        assert messages, f"{count} messages did not arrive"
        count -= len(messages)
        for message in messages if complete else []:
            await receiver.complete_message(message)


async def run(client: ServiceBusClient, queue: str, count: int) -> None:
    each = count // LINKS
    print(f"| Python, async, 1 KiB, {count} messages | messages/s | of a CPU | CPU per message |")
    print("|---|---|---|---|")
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        senders = [await enter(client.get_queue_sender(queue)) for _ in range(LINKS)]
        receivers = [await enter(client.get_queue_receiver(queue)) for _ in range(LINKS)]
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        deleting = await enter(client.get_queue_receiver(queue, receive_mode=mode))
        await measure("send", count, send(senders[0], count))
        works = [send(sender, each) for sender in senders]
        await measure(f"send, {LINKS} senders", each * LINKS, *works)
        await measure(f"send in batches of {BATCH}", count, send_batches(senders[0], count))
        await measure("receive and complete", count, receive(receivers[0], count, True))
        works = [receive(receiver, each, True) for receiver in receivers]
        await measure(f"receive and complete, {LINKS} receivers", each * LINKS, *works)
        await measure("receive and delete", count, receive(deleting, count, False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqp", default="localhost:5672", metavar="HOST:PORT")
    parser.add_argument("--http", default="localhost:5300", metavar="HOST:PORT")
    parser.add_argument("--messages", type=int, default=2000, help="in each line of the table")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    cluster = Cluster(args.amqp, args.http)
    text = cluster.connection_string(args.http)
    admin = ServiceBusAdministrationClient.from_connection_string(text, transport=PlainRequests())
    queue = f"throughput-{uuid.uuid4().hex[:6]}"
    admin.create_queue(queue)
    client = ServiceBusClient.from_connection_string(cluster.connection_string(args.amqp))
    asyncio.run(run(client, queue, args.messages))
    admin.delete_queue(queue)


if __name__ == "__main__":
    main()
