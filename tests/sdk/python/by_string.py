"""The thinnest programs of Python's SDK: a connection string, and nothing else that names a broker.

    by_string.py QUEUE PART…    the string is MAYFLY_STRING; a line of JSON for each part
"""

import json
import os
import sys
from collections.abc import Callable

from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.management import ServiceBusAdministrationClient

RECEIVE_MAX = 10  # Seconds a message may take.


def _there_and_back(text: str, queue: str, transport: TransportType) -> None:
    with ServiceBusClient.from_connection_string(
        text, transport_type=transport, retry_total=0
    ) as client:
        body = f"over {transport.name}"
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(body))
        with client.get_queue_receiver(queue) as receiver:
            bodies = []
            for message in receiver.receive_messages(max_wait_time=RECEIVE_MAX):
                bodies.append(str(message))
                receiver.complete_message(message)
    if bodies != [body]:
        raise RuntimeError(f"sent {body!r}, received {bodies}")


def client(text: str, queue: str) -> None:
    _there_and_back(text, queue, TransportType.Amqp)


def websocket(text: str, queue: str) -> None:
    _there_and_back(text, queue, TransportType.AmqpOverWebsocket)


def administration(text: str, queue: str) -> None:
    with ServiceBusAdministrationClient.from_connection_string(text, retry_total=0) as admin:
        admin.get_namespace_properties()
        made = admin.create_queue(f"{queue}-made").name
        names = [found.name for found in admin.list_queues()]
        admin.delete_queue(made)
    if made not in names:
        raise RuntimeError(f"{made} was made, and {names} are listed")


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
