"""The thinnest programs of Python's SDK: a connection string, and nothing else that names a broker.

    by_string.py QUEUE PART…    the string is MAYFLY_STRING; a line of JSON for each part

Each part with the synchronous classes and then with the asynchronous ones.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable

from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncAdmin
from azure.servicebus.management import ServiceBusAdministrationClient as Admin

RECEIVE_MAX = 10  # Seconds a message may take.
ONCE = {"retry_total": 0}


def there_and_back(text: str, queue: str, transport: TransportType) -> None:
    own = {"transport_type": transport, **ONCE}
    body = f"over {transport.name}"
    with ServiceBusClient.from_connection_string(text, **own) as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(body))
        with client.get_queue_receiver(queue) as receiver:
            messages = receiver.receive_messages(max_wait_time=RECEIVE_MAX)
            for message in messages:
                receiver.complete_message(message)
    expect([str(message) for message in messages], body)


async def there_and_back_async(text: str, queue: str, transport: TransportType) -> None:
    own = {"transport_type": transport, **ONCE}
    body = f"over {transport.name}, asynchronously"
    async with AsyncServiceBusClient.from_connection_string(text, **own) as client:
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages(ServiceBusMessage(body))
        async with client.get_queue_receiver(queue) as receiver:
            messages = await receiver.receive_messages(max_wait_time=RECEIVE_MAX)
            for message in messages:
                await receiver.complete_message(message)
    expect([str(message) for message in messages], body)


def expect(seen: Iterable[str], *expected: str) -> None:
    if [*seen] != [*expected]:
        raise RuntimeError(f"{seen}, expected {expected}")


def client(text: str, queue: str) -> None:
    there_and_back(text, queue, TransportType.Amqp)
    asyncio.run(there_and_back_async(text, queue, TransportType.Amqp))


def websocket(text: str, queue: str) -> None:
    there_and_back(text, queue, TransportType.AmqpOverWebsocket)
    asyncio.run(there_and_back_async(text, queue, TransportType.AmqpOverWebsocket))


def administration(text: str, queue: str) -> None:
    name = f"{queue}-made"
    with Admin.from_connection_string(text, **ONCE) as admin:
        admin.get_namespace_properties()
        admin.create_queue(name)
        made = [found.name for found in admin.list_queues() if found.name == name]
        admin.delete_queue(name)
    expect(made, name)
    asyncio.run(administration_async(text, name))


async def administration_async(text: str, name: str) -> None:
    async with AsyncAdmin.from_connection_string(text, **ONCE) as admin:
        await admin.get_namespace_properties()
        await admin.create_queue(name)
        made = [found.name async for found in admin.list_queues() if found.name == name]
        await admin.delete_queue(name)
    expect(made, name)


def main() -> None:
    parts: dict[str, Callable[[str, str], None]] = {
        part.__name__: part for part in (client, administration, websocket)
    }
    text, (queue, *chosen) = os.environ["MAYFLY_STRING"], sys.argv[1:]
    for name in chosen:
        failure = None
        try:
            parts[name](text, queue)
        # Whatever it is: the next part is tried all the same.
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        print(json.dumps({"part": name, "failure": failure}), flush=True)


main()
