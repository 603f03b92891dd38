"""Takes orders and sends receipts. The SDK waits and tries again; an order is done once its receipt is sent, and goes
back where that cannot be."""

import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

string = os.environ["MAYFLY_CONNECTION_STRING"]
with (
    ServiceBusClient.from_connection_string(string) as client,
    client.get_queue_receiver("orders") as orders,
    client.get_queue_sender("receipts") as receipts,
):
    while True:
        for order in orders.receive_messages(max_message_count=1, max_wait_time=1):
            try:
                receipts.send_messages(ServiceBusMessage("done", correlation_id=order.message_id))
                orders.complete_message(order)
            except ServiceBusServerBusyError as error:
                print(f"{order.message_id} goes back: {error}", flush=True)
                orders.abandon_message(order)
